"""A rate limit that holds in every window of time, not only on average."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from apportion.errors import InvalidArgument

__all__ = ["Window"]


class Window:
    """Lets at most `limit` units begin in any `seconds`; who comes first goes first.

    A leaky bucket lets up to twice its rate through in the first window, which servers that count by the minute refuse.

    Args:
        limit: units per window, > 0.
        seconds: length of the window.
        before: (seconds ago, units) of what began before this object did, oldest first.
        clock, sleep: time; for tests.

    Raises:
        InvalidArgument: when taking, more units at once than the limit.
    """

    def __init__(
        self,
        limit: float,
        *,
        seconds: float = 60.0,
        before: Iterable[tuple[float, float]] = (),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limit = limit
        self._seconds = seconds
        self._clock = clock
        self._sleep = sleep
        now = clock()
        self._taken = deque([now - ago, units] for ago, units in before)
        self._sum = sum(units for _, units in self._taken)
        self._turn = asyncio.Lock()

    def _forget(self) -> None:
        while self._taken and self._taken[0][0] + self._seconds <= self._clock():
            self._sum -= self._taken.popleft()[1]
        if not self._taken:
            self._sum = 0.0

    async def take(self, units: float) -> list[float]:
        """Waits until `units` fit; returns what `correct` takes."""
        if units > self._limit:
            raise InvalidArgument("units", units, f"at most {self._limit:g}: one request is above the rate limit")
        async with self._turn:
            self._forget()
            while self._sum + units > self._limit:
                await self._sleep(max(0.0, self._taken[0][0] + self._seconds - self._clock()))
                self._forget()
            entry = [self._clock(), units]
            self._taken.append(entry)
            self._sum += units
            return entry

    def correct(self, entry: list[float], units: float) -> None:
        """Books what a call really took, at the time when it began."""
        self._forget()
        if self._taken and entry[0] >= self._taken[0][0]:
            self._sum += units - entry[1]
            entry[1] = units
