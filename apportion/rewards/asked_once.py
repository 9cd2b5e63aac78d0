"""`AskedOnce`: one answer about the same trajectories, for several observers that read it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from apportion.rewards.running import UNLIMITED, Limits
from apportion.rollouts import Trajectory

__all__ = ["AskedOnce"]

T = TypeVar("T")


class AskedOnce(Generic[T]):
    """Asks when the trajectories are other ones than before; observers look at the same ones one after the other.

    Args:
        ask: (trajectories, limits) -> the answer, or an awaitable of it.
    """

    def __init__(self, ask: Callable[[Sequence[Trajectory], Limits], T | Awaitable[T]]) -> None:
        self._ask = ask
        self._seen: list[Trajectory] = []
        self._found: list[T] = []
        self._coming: Awaitable[T] | None = None

    def __call__(self, trajectories: Sequence[Trajectory], limits: Limits = UNLIMITED) -> T | Awaitable[T]:
        """The answer, or what to await for it. What fails is not remembered."""
        same = len(self._seen) == len(trajectories) and all(map(_is, self._seen, trajectories))
        if same and self._found:
            return self._found[0]
        if same and self._coming is not None:
            return self._wait()
        answer = self._ask(trajectories, limits)
        self._seen, self._found, self._coming = list(trajectories), [], None
        if inspect.isawaitable(answer):
            self._coming = answer
            return self._wait()
        self._found = [answer]
        return answer

    async def _wait(self) -> T:
        if not self._found and self._coming is not None:
            coming = self._coming = asyncio.ensure_future(self._coming)
            try:
                self._found = [await coming]
            finally:
                self._coming = None
        if not self._found:
            raise RuntimeError("the answer that was asked for did not come")
        return self._found[0]

    def __reduce__(self) -> tuple[Any, ...]:
        # Answers under way belong to this process.
        return (AskedOnce, (self._ask,))


def _is(one: object, other: object) -> bool:
    return one is other
