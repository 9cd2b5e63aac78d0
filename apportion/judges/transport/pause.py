"""What to do while an endpoint fails: wait for it, then go on without it, then stop."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable

from apportion.errors import ApportionError
from apportion.judges.exchange import ErrorKind, Request, Response, Transport, TransportError
from apportion.judges.transport.base import Wrapper, at_least

__all__ = ["EndpointDown", "Pause"]

_OUTAGE: tuple[ErrorKind, ...] = ("timeout", "rate-limited", "unavailable", "bad-reply")


class EndpointDown(ApportionError, RuntimeError):
    """An endpoint failed for longer than a run may go on without it."""


class Pause(Wrapper):
    """Pauses, then abstains, then stops, each for as long as the policy says.

        healthy --`after` failures in a row--> paused (pause_s) --> abstaining (abstain_s) --> stopped
           ^---------------------- any answer ----------------------'

    Paused: requests wait; one at a time tries, every `probe_s`, and one that failed goes to the end of the line, so
    that no single request keeps the others waiting. Abstaining: requests fail at once as "unavailable", but for one
    that tries every `probe_s`. Stopped: the first try that fails after that raises `EndpointDown`. `pause_s=0` never
    waits, `abstain_s=0` stops after the pause, `abstain_s=math.inf` never stops. A failure that is not the endpoint's
    ("refused", "budget") changes nothing. After a time without requests the phases begin anew.

    Attributes:
        outages: how often the endpoint was given up on.
        down_s: seconds since it fails; 0 while it is healthy.

    Args:
        inner: what is asked, with its retries.
        after: failures in a row, >= 1.
        pause_s, abstain_s: lengths of the two phases, in seconds.
        probe_s: seconds between two tries.
        clock, sleep: time; for tests.

    Raises:
        InvalidArgument: a length below 0; `after` below 1.
    """

    def __init__(
        self,
        inner: Transport,
        *,
        after: int = 5,
        pause_s: float = 300.0,
        abstain_s: float = 600.0,
        probe_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(inner)
        at_least("after", after, 1, whole=True)
        for name, value in (("pause_s", pause_s), ("abstain_s", abstain_s), ("probe_s", probe_s)):
            at_least(name, value, 0)
        self._after, self._pause, self._abstain, self._probe = after, pause_s, abstain_s, probe_s
        self._clock = clock
        self._sleep = sleep
        self._line = asyncio.Lock()
        self._failures = 0
        self._since = math.inf
        self._next = math.inf
        self._last: TransportError | None = None
        self.outages = 0

    @property
    def down_s(self) -> float:
        """Seconds since the endpoint fails; 0 while it is healthy."""
        return max(0.0, self._clock() - self._since)

    def _paused(self) -> bool:
        return self.down_s < self._pause

    def _begin_anew_if_idle(self) -> None:
        # Between two steps of training nobody asks: what was known before is old.
        if not self._line.locked() and self._clock() > self._next + self._probe:
            self._since = self._clock()

    async def _attempt(self, request: Request) -> Response | TransportError:
        try:
            response = await self._inner.ask(request)
        except TransportError as error:
            if error.kind not in _OUTAGE:
                raise
            self._failures += 1
            self._last = error
            if self._failures >= self._after:
                self._next = self._clock() + self._probe
                if self._since == math.inf:
                    self._since = self._clock()
                    self.outages += 1
            return error
        self._failures, self._since = 0, math.inf
        return response

    async def _wait(self, request: Request) -> Response | TransportError | None:
        async with self._line:
            if self._since < math.inf and self._paused() and self._clock() < self._next:
                await self._sleep(min(self._next - self._clock(), self._since + self._pause - self._clock()))
            if self._since < math.inf and self._paused() and self._clock() >= self._next:
                return await self._attempt(request)
        return None

    async def ask(self, request: Request) -> Response:
        """The answer; `TransportError` while abstaining; `EndpointDown` at the end."""
        while True:
            if self._since < math.inf:
                self._begin_anew_if_idle()
            outcome: Response | TransportError | None
            if self._since == math.inf:
                outcome = await self._attempt(request)
            elif self._paused():
                outcome = await self._wait(request)
            elif self._line.locked() or self._clock() < self._next:
                why = f"abstaining: the endpoint fails since {self.down_s:.0f} s: {self._last}"
                raise TransportError("unavailable", why)
            else:
                async with self._line:
                    outcome = await self._attempt(request)
            if isinstance(outcome, Response):
                return outcome
            if outcome is not None:
                self._stop_if_over()
                if self._since == math.inf or not self._paused():
                    raise outcome

    def _stop_if_over(self) -> None:
        if self._since < math.inf and self.down_s >= self._pause + self._abstain:
            raise EndpointDown(
                f"the judge's endpoint has failed for {self.down_s:.0f} s ({self._pause:g} s of pause and "
                f"{self._abstain:g} s of abstaining are over); last failure: {self._last}. The run is stopped: "
                "going on would train without the judge."
            )
