"""Refusing what a run cannot afford, before it is asked."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from apportion.judges.exchange import Request, Response, Transport, TransportError
from apportion.judges.transport.allowance import Allowance
from apportion.judges.transport.base import Failure, Wrapper, at_least
from apportion.judges.transport.sizes import tokens_at_most

__all__ = ["Budget"]


class Budget(Wrapper):
    """Refuses a call that could overspend, before it is made.

    A call in flight holds the most that it can take (`sizes.tokens_at_most`); once it ends, what the server counted is
    booked, or all of the hold where the server did not count or may have worked in vain. A call that fits only after
    others have ended waits for them.

    Attributes:
        input_tokens, output_tokens: booked so far, those of earlier runs included.
        refused: calls that were not made.

    Args:
        inner: what is asked.
        allowance: the limits.
        input_tokens, output_tokens: booked by earlier runs, e.g. what a journal found.
        clock: time; for tests.

    Raises:
        InvalidArgument: negative counts.

    Example:
        >>> from apportion.judges.exchange import Message, Request
        >>> from apportion.judges.transport import Mock
        >>> poor = Budget(Mock(["yes"]), Allowance(tokens=100))
        >>> asyncio.run(poor.ask(Request((Message("user", "?"),), model="m", max_tokens=100)))
        Traceback (most recent call last):
            ...
        apportion.judges.exchange.TransportError: budget: 0 of 100 tokens are spent; this call could take 117
    """

    def __init__(
        self,
        inner: Transport,
        allowance: Allowance,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(inner)
        at_least("input_tokens", input_tokens, 0, whole=True)
        at_least("output_tokens", output_tokens, 0, whole=True)
        self._allowance = allowance
        self._clock = clock
        self._began: float | None = None
        self._held = [0, 0]
        self._settled = asyncio.Condition()
        self.input_tokens, self.output_tokens = input_tokens, output_tokens
        self.refused = 0

    @property
    def money(self) -> float:
        """Booked so far."""
        return self._allowance.cost(self.input_tokens, self.output_tokens)

    def _refuse(self, why: str) -> TransportError:
        self.refused += 1
        return TransportError("budget", why)

    def _over(self, input_tokens: int, output_tokens: int) -> bool:
        spent = self.input_tokens + input_tokens, self.output_tokens + output_tokens
        return sum(spent) > self._allowance.tokens or self._allowance.cost(*spent) > self._allowance.money

    async def _hold(self, most: tuple[int, int]) -> None:
        async with self._settled:
            while not self._over(*most):
                if not self._over(most[0] + self._held[0], most[1] + self._held[1]):
                    self._held[0] += most[0]
                    self._held[1] += most[1]
                    return
                await self._settled.wait()
        if self.input_tokens + self.output_tokens + sum(most) > self._allowance.tokens:
            spent = f"{self.input_tokens + self.output_tokens} of {self._allowance.tokens:g} tokens are spent"
            raise self._refuse(f"{spent}; this call could take {sum(most)}")
        spent = f"{self.money:.4g} of {self._allowance.money:g} are spent"
        raise self._refuse(f"{spent}; this call could cost {self._allowance.cost(*most):.4g}")

    async def _settle(self, most: tuple[int, int], booked: tuple[int, int]) -> None:
        self._held[0] -= most[0]
        self._held[1] -= most[1]
        self.input_tokens += booked[0]
        self.output_tokens += booked[1]
        async with self._settled:
            self._settled.notify_all()

    async def ask(self, request: Request) -> Response:
        """The answer, or `TransportError` "budget"."""
        most = booked = tokens_at_most(request)
        await self._hold(most)
        try:
            if self._began is None:
                self._began = self._clock()
            left = self._began + self._allowance.wall_s - self._clock()
            if left <= 0:
                booked = (0, 0)
                raise self._refuse(f"the {self._allowance.wall_s:g} s of this run are over")
            async with asyncio.timeout(left if math.isfinite(left) else None) as limit:
                response = await self._inner.ask(request)
            counts = response.input_tokens, response.output_tokens
            booked = (most[0] if counts[0] is None else counts[0], most[1] if counts[1] is None else counts[1])
            return response
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._refuse(f"the {self._allowance.wall_s:g} s of this run ended during the call") from None
        except Failure as failure:
            if failure.charged == "no":
                booked = (0, 0)
            raise
        finally:
            await self._settle(most, booked)
