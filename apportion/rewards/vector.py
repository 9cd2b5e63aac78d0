"""`vector`: several rewards that stay apart, for estimators that normalise each by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Reward, check_reward, same_level, unique_names
from apportion.rewards.linear import Linear
from apportion.rollouts import Level

__all__ = ["Vector", "vector"]


@dataclass(frozen=True)
class Vector:
    """Named parts that are observed apart; made by `vector`.

    Attributes:
        parts: rewards of one level, with different names.
        weights: weight by part name; used by whoever combines them, never by observing.
    """

    parts: tuple[Reward, ...]
    weights: Mapping[str, float]

    @property
    def level(self) -> Level:
        """The level that all parts share."""
        return self.parts[0].level

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parts, in order."""
        return tuple(part.name for part in self.parts)

    def total(self) -> Linear:
        """The weighted sum, as one reward."""
        return Linear(tuple((self.weights[part.name], part) for part in self.parts))


def vector(rewards: Iterable[Reward], *, weights: Mapping[str, float] | None = None) -> Vector:
    """Rewards that `observe` keeps apart, so that each can be normalised before they are summed.

    Summing first makes different vectors indistinguishable: (0, 1) with (0, 0) and (0, 1) with (0, 1) normalise to the
    same advantages. Kept apart, the second pair counts twice.

    Args:
        rewards: of one level, with different names.
        weights: weight by name; default: 1 each. A part of weight 0 is recorded, and observing never stops for it.

    Returns:
        What `observe` takes in place of its parts; `.total()` is the plain weighted sum.

    Raises:
        InvalidArgument: no rewards, different levels, one name twice, weights that do not name exactly the parts, or
            that are all 0: at construction, before any judge call is paid for.

    Example:
        >>> from apportion.rewards import reward
        >>> right, brief = reward(name="right")(lambda t: 1.0), reward(name="brief")(lambda t: 0.5)
        >>> pair = vector([right, brief], weights={"right": 1, "brief": 0.2})
        >>> pair.names, pair.total().name
        (('right', 'brief'), 'right + 0.2*brief')
    """
    parts = tuple(check_reward("rewards", part) for part in rewards)
    if not parts:
        raise InvalidArgument("rewards", parts, "at least one reward")
    same_level("rewards", parts)
    unique_names("rewards", parts)
    names = {part.name for part in parts}
    given = dict.fromkeys((part.name for part in parts), 1.0) if weights is None else dict(weights)
    if set(given) != names:
        raise InvalidArgument("weights", given, f"one weight for each of {', '.join(sorted(names))}")
    numbers = {name: _arguments.number(f"weight of {name}", weight) for name, weight in given.items()}
    if not any(numbers.values()):
        raise InvalidArgument("weights", numbers, "a weight other than 0 for at least one part")
    return Vector(parts, numbers)
