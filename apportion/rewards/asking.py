"""Asking a function about trajectories: each of them within limits, and once for several observers."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from apportion.errors import ApportionError, InvalidArgument
from apportion.rewards.running import UNLIMITED, Later, Limits, attempt, describe, gather, source_file, within
from apportion.rollouts import Trajectory
from apportion.verdicts import Failed

__all__ = ["AskedOnce", "ask_each"]

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
            return _Shared(self)
        answer = self._ask(trajectories, limits)
        self._seen, self._found, self._coming = list(trajectories), [], None
        if inspect.isawaitable(answer):
            self._coming = answer
            return _Shared(self)
        self._found = [answer]
        return answer

    def forget(self) -> None:
        """Drops an answer that nobody waits for."""
        coming, self._coming = self._coming, None
        if isinstance(coming, (Later, Coroutine)):
            coming.close()

    async def wait(self) -> T:
        """The answer that is under way."""
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


class _Shared(Later[T]):
    """What one of several observers awaits; the first to be closed drops the answer for all."""

    def __init__(self, asked: AskedOnce[T]) -> None:
        super().__init__(asked.wait)
        self.asked = asked

    def close(self) -> None:
        self.asked.forget()


def _is(one: object, other: object) -> bool:
    return one is other


def ask_each(
    function: Callable[..., Any], trajectories: Sequence[Trajectory], limits: Limits
) -> list[Any] | Awaitable[list[Any]]:
    """What a function, plain or async, returns for each trajectory; an exception is `Failed` for that one.

    Raises:
        InvalidArgument: a plain function that returns something to await.
    """
    whose = _innermost(function)
    file = source_file(whose)
    if inspect.iscoroutinefunction(whose) or inspect.iscoroutinefunction(
        getattr(whose, "__call__", None)  # noqa: B004 - the method itself is wanted
    ):
        return Later(functools.partial(_all, function, trajectories, limits, file))
    return [_answer(function, t, limits, file) for t in trajectories]


async def _all(
    function: Callable[..., Any], trajectories: Sequence[Trajectory], limits: Limits, file: str | None
) -> list[Any]:
    return await gather(attempt(_called(function, t), limits, file=file) for t in trajectories)


def _innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _answer(function: Callable[..., Any], trajectory: Trajectory, limits: Limits, file: str | None) -> Any:
    try:
        answer = within(limits.timeout, functools.partial(function, trajectory))
    except ApportionError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it raises: nobody knows what it would have said
        return Failed(describe(error, file=file))
    if inspect.isawaitable(answer):
        if isinstance(answer, Coroutine):
            answer.close()
        raise InvalidArgument("function", function, "a function declared with `async def`, since it waits")
    return answer


async def _called(function: Callable[..., Any], trajectory: Trajectory) -> Any:
    return await function(trajectory)
