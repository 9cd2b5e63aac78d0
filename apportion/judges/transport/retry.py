"""Asking again after failures that pass."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, get_args

from apportion._extras import require
from apportion.errors import InvalidArgument
from apportion.judges.exchange import ErrorKind, Request, Response, Transport, TransportError
from apportion.judges.transport.base import Wrapper, at_least

__all__ = ["PASSING", "Retry"]

# "bad-reply" and "refused" come again, "budget" is a decision.
PASSING: tuple[ErrorKind, ...] = ("timeout", "rate-limited", "unavailable")


class Retry(Wrapper):
    """Asks again, after a wait that grows and is never the same for two callers.

        wait = max(Retry-After, uniform(0, min(longest_wait_s, first_wait_s * 2^(failures - 1))))

    A wait that would end after `total_s` is not begun, so a call takes at most `total_s` and one attempt. The last
    failure is raised.

    Attributes:
        retries: attempts after a first one, so far.

    Args:
        inner: what is asked.
        attempts: the most attempts, >= 1.
        first_wait_s: the longest first wait.
        longest_wait_s: the longest wait that is not asked for by the server.
        total_s: seconds after which no attempt begins.
        kinds: failures that may pass.
        sleep: waits; for tests.

    Raises:
        InvalidArgument: one of these that cannot be used.
        MissingExtra: tenacity is not installed.

    Example:
        >>> from apportion.judges.exchange import Message, Request
        >>> from apportion.judges.transport import Mock
        >>> flaky = Retry(Mock([TransportError("unavailable", "starting"), "7"]), first_wait_s=0)
        >>> asyncio.run(flaky.ask(Request((Message("user", "3 + 4?"),), model="m"))).text, flaky.retries
        ('7', 1)
    """

    def __init__(
        self,
        inner: Transport,
        *,
        attempts: int = 5,
        first_wait_s: float = 1.0,
        longest_wait_s: float = 60.0,
        total_s: float = 600.0,
        kinds: Collection[ErrorKind] = PASSING,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(inner)
        at_least("attempts", attempts, 1, whole=True)
        for name, value in (("first_wait_s", first_wait_s), ("longest_wait_s", longest_wait_s), ("total_s", total_s)):
            at_least(name, value, 0)
        if unknown := set(kinds) - set(get_args(ErrorKind)):
            raise InvalidArgument("kinds", sorted(unknown), f"some of {', '.join(get_args(ErrorKind))}")
        tenacity = require("tenacity", extra="judges")
        self.retries = 0
        backoff = tenacity.wait_random_exponential(multiplier=first_wait_s, max=longest_wait_s)

        def wait(state: Any) -> float:
            asked_for = getattr(state.outcome.exception(), "retry_after", None) or 0.0
            return max(float(asked_for), float(backoff(state)))

        self._attempts: Callable[[], Any] = lambda: tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(attempts) | tenacity.stop_before_delay(total_s),
            wait=wait,
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, TransportError) and error.kind in kinds),
            sleep=sleep,
            before_sleep=self._count,
            reraise=True,
        )

    def _count(self, _: object) -> None:
        self.retries += 1

    async def ask(self, request: Request) -> Response:
        """The first answer, or the last failure."""
        response: Response = await self._attempts()(self._inner.ask, request)
        return response
