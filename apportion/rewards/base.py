"""What a reward is, and the arithmetic that every built-in reward shares.

A reward looks at trajectories and gives verdicts: one per trajectory, or one per turn of each trajectory. It may be
sync or async. Rewards of one level combine into rewards; rewards of different levels combine as signals, in a recipe.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Verdict

if TYPE_CHECKING:
    from apportion.rewards.linear import Linear

__all__ = ["Composable", "Observation", "Reward", "Role", "Rows"]

# What a reward can carry in a recipe: an outcome can drive training by itself, shaping alone teaches the wrong thing, a
# metric is only recorded. A label is a code that names something: it never drives, and its mean would mean nothing.
Role: TypeAlias = Literal["outcome", "shaping", "metric", "label"]

# One verdict per trajectory, or one list per trajectory with one verdict per turn.
Observation: TypeAlias = Sequence[Verdict] | Sequence[Sequence[Verdict]]
# The same for both levels: one row per trajectory, with one cell (TRAJECTORY) or one cell per turn (TURN).
Rows: TypeAlias = list[list[Verdict]]

Self = TypeVar("Self", bound="Composable")


@runtime_checkable
class Reward(Protocol):
    """Anything that observes trajectories.

    Attributes:
        name: what the verdicts are called in results, logs and the ledger; unique among the rewards of one run.
        level: `Level.TRAJECTORY` (one verdict per trajectory) or `Level.TURN` (one list per trajectory, with one
            verdict for each of its `n_turns` turns).
    """

    @property
    def name(self) -> str:
        """Unique among the rewards of one run."""

    @property
    def level(self) -> Level:
        """`Level.TRAJECTORY` or `Level.TURN`."""

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation | Awaitable[Observation]:
        """The verdicts, in the order of `trajectories`; a coroutine when observing has to wait for something."""


class Composable:
    """Gives a reward `a + b`, `a - b`, `-a`, `0.5 * a` and `.named(...)`; all built-in rewards have it.

        (w * a + v * b)(trajectory) = w * a(trajectory) + v * b(trajectory)

    In a sum an `Abstained` part adds nothing and is marked absent in the evidence, a `Failed` part makes the sum
    `Failed`, and a sum of abstentions abstains. A part of weight 0 never makes a sum unknown. `sum([a, b])` works.

    Raises:
        InvalidArgument: parts of different levels, two parts with one name, a weight that is not finite.
    """

    _role: ClassVar[Role] = "outcome"

    @property
    def role(self) -> Role:
        """`shaping` for penalties, progress and form, on which no recipe trains alone; `metric`; `label`; `outcome`."""
        return self._role

    if TYPE_CHECKING:

        @property
        def name(self) -> str: ...  # noqa: D102 - documented by Reward

        @property
        def level(self) -> Level: ...  # noqa: D102

        def observe(  # noqa: D102
            self, trajectories: Sequence[Trajectory]
        ) -> Observation | Awaitable[Observation]: ...

    def named(self: Self, name: str) -> Self:
        """The same reward under another name."""
        renamed = copy.copy(self)
        object.__setattr__(renamed, "name", _arguments.text("name", name))
        return renamed

    def __add__(self, other: Reward) -> Linear:
        return _linear((1.0, self), (1.0, other)) if isinstance(other, Reward) else NotImplemented

    def __radd__(self, other: Reward | int) -> Reward:
        # The built-in sum() starts from the number 0.
        if isinstance(other, int) and other == 0:
            return self
        return _linear((1.0, other), (1.0, self)) if isinstance(other, Reward) else NotImplemented

    def __sub__(self, other: Reward) -> Linear:
        return _linear((1.0, self), (-1.0, other)) if isinstance(other, Reward) else NotImplemented

    def __rsub__(self, other: Reward) -> Linear:
        return _linear((1.0, other), (-1.0, self)) if isinstance(other, Reward) else NotImplemented

    def __neg__(self) -> Linear:
        return _linear((-1.0, self))

    def __mul__(self, weight: float) -> Linear:
        return _linear((weight, self)) if isinstance(weight, (int, float)) else NotImplemented

    __rmul__ = __mul__


def _linear(*terms: tuple[float, Reward]) -> Linear:
    # linear.py builds on this module.
    from apportion.rewards.linear import linear

    return linear(*terms)


def check_reward(argument: str, value: object) -> Reward:
    """`value` as a reward with a usable name and level, or `InvalidArgument` that says what is missing."""
    if not isinstance(value, Reward):
        hint = "; wrap a plain function with @reward" if callable(value) else ""
        raise InvalidArgument(argument, value, f"a reward: an object with name, level and observe(trajectories){hint}")
    _arguments.text(f"{argument}.name", value.name)
    _arguments.observable_level(f"{argument}.level ({value.name})", value.level)
    return value


def role_of(*rewards: Reward) -> Role:
    """The role of what these rewards are parts of: "outcome" when one of them is. Rewards of users' own drive."""
    roles = {getattr(value, "role", "outcome") for value in rewards}
    for role in ("metric", "label"):
        if roles <= {role}:
            return role
    return "outcome" if "outcome" in roles else "shaping"


def same_level(argument: str, rewards: Sequence[Reward]) -> Level:
    """The level that all `rewards` share, or `InvalidArgument` that lists the levels and says where to combine them."""
    for value in rewards:
        check_reward(argument, value)
    levels = {value.level for value in rewards}
    if len(levels) > 1:
        listed = ", ".join(f"{value.name} is {value.level.name}" for value in rewards)
        raise InvalidArgument(
            argument,
            [value.name for value in rewards],
            f"rewards of one level ({listed}); combine different levels as signals, in a recipe",
        )
    return levels.pop()


def unique_names(argument: str, rewards: Sequence[Reward]) -> None:
    """Raises `InvalidArgument` that lists every name used twice."""
    names = [value.name for value in rewards]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgument(argument, names, f"unique names ({', '.join(twice)} repeats); use reward.named(...)")
