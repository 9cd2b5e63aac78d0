"""`@reward`: a plain function of a trajectory, sync or async, as a reward."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Composable, Observation
from apportion.rewards.running import UNLIMITED, Limits, each, each_async, flat, source_file
from apportion.rollouts import Level, Trajectory

__all__ = ["FunctionReward", "reward"]

F = TypeVar("F", bound=Callable[[Trajectory], object])


@dataclass(frozen=True)
class FunctionReward(Composable):
    """A function of one trajectory as a reward; made by `reward`. Calling it calls the function.

    Attributes:
        function: what is called with each trajectory.
        name: what the verdicts are called.
        level: TRAJECTORY or TURN.
    """

    function: Callable[[Trajectory], object]
    name: str
    level: Level = Level.TRAJECTORY

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidArgument("function", self.function, "a function of one trajectory")
        _arguments.text("name", self.name)
        _arguments.observable_level("level", self.level)
        # pickle looks a decorated function up where the function was defined.
        object.__setattr__(self, "__module__", getattr(self.function, "__module__", __name__))
        object.__setattr__(self, "__doc__", inspect.getdoc(self.function))

    def __call__(self, trajectory: Trajectory) -> Any:
        """What the function itself returns."""
        return self.function(trajectory)

    def named(self, name: str) -> FunctionReward:
        """The same function as a reward of another name."""
        return FunctionReward(self.function, name, self.level)

    @property
    def is_async(self) -> bool:
        """True when the function is a coroutine function, or an object whose call is one."""
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004 - the method itself is wanted
        )

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation | Awaitable[Observation]:
        """The verdicts, in the order of `trajectories`; an exception becomes that trajectory's `Failed`."""
        return self.observe_within(trajectories, UNLIMITED)

    def observe_within(
        self, trajectories: Sequence[Trajectory], limits: Limits
    ) -> Observation | Awaitable[Observation]:
        """Like `observe`, with limits on the time of each call and on how many async calls are under way."""
        if not self.is_async:
            return flat(self.level, each(self, self._call_sync, trajectories, limits, file=source_file(self.function)))
        return self._observe_async(trajectories, limits)

    def _call_sync(self, trajectory: Trajectory) -> object:
        value = self.function(trajectory)
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise InvalidArgument(
                f"function of reward {self.name!r}",
                self.function,
                "a function declared with `async def`, since it waits",
            )
        return value

    async def _observe_async(self, trajectories: Sequence[Trajectory], limits: Limits) -> Observation:
        function = cast("Callable[[Trajectory], Awaitable[object]]", self.function)
        return flat(self.level, await each_async(self, function, trajectories, limits))

    def __reduce__(self) -> str | tuple[Any, ...]:
        # A decorator puts the reward where the function was, so the function alone can no longer be found by name.
        path = getattr(self.function, "__qualname__", "")
        there: object = sys.modules.get(getattr(self.function, "__module__", "") or "")
        for part in path.split("."):
            there = getattr(there, part, None)
        if there is self:
            return str(path)
        if isinstance(there, FunctionReward) and there.function is self.function:
            return (_like, (there, self.name, self.level))
        return (FunctionReward, (self.function, self.name, self.level))


def _like(original: FunctionReward, name: str, level: Level) -> FunctionReward:
    return FunctionReward(original.function, name, level)


@overload
def reward(function: F, /) -> FunctionReward: ...


@overload
def reward(*, name: str | None = None, level: Level = Level.TRAJECTORY) -> Callable[[F], FunctionReward]: ...


def reward(
    function: F | None = None, /, *, name: str | None = None, level: Level = Level.TRAJECTORY
) -> FunctionReward | Callable[[F], FunctionReward]:
    """Turns a plain function into a reward.

    At TRAJECTORY level the function returns a number, a bool, `None` (it abstains) or a verdict; at TURN level a
    sequence with one such entry per turn (or `None` to abstain on all of them). It may be `async def`. A result that is
    no finite number and an exception are `Failed` for that trajectory only; the text says what, and in which file and
    line.

    Args:
        function: called with one `Trajectory`.
        name: what the verdicts are called; default: the function's name.
        level: `Level.TRAJECTORY` or `Level.TURN`.

    Returns:
        A reward that pickles when the function is defined in a module, and that can still be called like the function.

    Raises:
        InvalidArgument: a lambda without `name`, a level that no reward has; when observing: a number of entries that
            is not the number of turns.

    Example:
        >>> from apportion.rollouts import Trajectory, Turn
        >>> @reward
        ... def short(trajectory):
        ...     return trajectory.n_turns <= 2
        >>> short.observe([Trajectory(id="r0", group="q", turns=(Turn(text="done"),))])
        [Scored(value=1.0, evidence='')]
        >>> @reward(name="per_turn", level=Level.TURN)
        ... def tools(trajectory):
        ...     return [len(turn.actions) for turn in trajectory.turns]
        >>> tools.observe([Trajectory(id="r0", group="q", turns=(Turn(text="done"),))])
        [[Scored(value=0.0, evidence='')]]
    """

    def wrap(wrapped: F) -> FunctionReward:
        own = getattr(wrapped, "__name__", type(wrapped).__name__)
        if name is None and own == "<lambda>":
            raise InvalidArgument("name", None, "a name, since a lambda has none: reward(name=...)(lambda ...)")
        return FunctionReward(wrapped, name if name is not None else own, level)

    return wrap if function is None else wrap(function)
