"""Asking once, and again when the reply cannot be read: a verdict, a reply without one, or no reply at all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TypeAlias

from apportion.errors import ApportionError
from apportion.judges.exchange import Response, Transport, TransportError
from apportion.judges.grammar import Read, Unread, read
from apportion.judges.prompts import Prompt
from apportion.rewards.running import Limits, describe

__all__ = ["Answered", "Lost", "Reply", "answered"]

# An outage says nothing about the rollout; these may be its doing.
_OF_THE_ROLLOUT = frozenset({"timeout", "refused", "bad-reply"})


@dataclass(frozen=True, slots=True)
class Lost:
    """No reply came.

    Attributes:
        kind: of the `TransportError`, or "error" for an exception of the transport.
        detail: what happened.
    """

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


Reply: TypeAlias = Read | Unread | Lost


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of one question.

    Attributes:
        reply: the last attempt.
        attempts: how many there were.
        input_tokens: over all attempts, as far as the server counted.
        output_tokens: likewise.
        cached: how many attempts were stored from before.
    """

    reply: Reply
    attempts: int
    input_tokens: int = 0
    output_tokens: int = 0
    cached: int = 0

    @property
    def provoked(self) -> bool:
        """Whether the rollout itself may be why there is no verdict."""
        return isinstance(self.reply, Unread) or (isinstance(self.reply, Lost) and self.reply.kind in _OF_THE_ROLLOUT)


async def answered(transport: Transport, prompt: Prompt, *, limits: Limits, reasks: int) -> Answered:
    """The verdict of one prompt.

    Args:
        transport: carries the request; its own retries, caches and budgets are its business.
        prompt: what to ask.
        limits: time of each call, and how many may be under way.
        reasks: how often a reply that cannot be read is asked for again; lost ones are not.

    Returns:
        A verdict or why there is none. Only a wrong set-up is raised.
    """
    tokens_in = tokens_out = cached = 0
    attempt = 0
    while True:
        tag = f"{prompt.request.tag} again {attempt}".strip() if attempt else prompt.request.tag
        attempt += 1
        came = await _once(transport, replace(prompt, request=replace(prompt.request, tag=tag)), limits)
        if isinstance(came, Lost):
            return Answered(came, attempt, tokens_in, tokens_out, cached)
        tokens_in += came.input_tokens or 0
        tokens_out += came.output_tokens or 0
        cached += came.cached
        reply = read(came, prompt.form, prompt.nonce, syntax=prompt.syntax)
        if isinstance(reply, Read) or attempt > reasks:
            return Answered(reply, attempt, tokens_in, tokens_out, cached)


async def _once(transport: Transport, prompt: Prompt, limits: Limits) -> Response | Lost:
    async with limits.slot():
        scope = asyncio.timeout(limits.timeout)
        try:
            async with scope:
                return await transport.ask(prompt.request)
        except TransportError as error:
            return Lost(error.kind, error.detail)
        except ApportionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a transport raises: nobody knows what was answered
            if scope.expired():
                return Lost("timeout", f"no answer within {limits.timeout:g} s")
            return Lost("error", describe(error))
