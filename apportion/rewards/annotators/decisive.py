"""The turn at which success was lost: where a potential falls below a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from apportion.rewards import _arguments
from apportion.rewards.base import Composable, Role
from apportion.rewards.potential import Potential, potential_rewards
from apportion.rewards.running import Combined, Plan
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["Decisive", "decisive_turn"]


@dataclass(frozen=True)
class Decisive(Combined):
    """See `decisive_turn`."""

    _role: ClassVar[Role] = "shaping"
    halves: tuple[Composable, Composable]
    below: float
    name: str
    level: Level = field(default=Level.TRAJECTORY, init=False)

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks the potential."""
        starts, afters = yield [(half, trajectories) for half in self.halves]
        return [[self._turn([*start, *after])] for start, after in zip(starts, afters, strict=True)]

    def _turn(self, values: Sequence[Verdict]) -> Verdict:
        before: Scored | None = None
        for k, value in enumerate(values):
            if isinstance(value, Failed):
                return Failed(f"the value of state {k} is unknown: {_arguments.brief(value.error)}")
            if isinstance(value, Abstained):
                continue
            if before is not None and before.value >= self.below > value.value:
                return Scored(float(k - 1), f"turn {k - 1}: {before.value:g} -> {value.value:g}, below {self.below:g}")
            before = value
        return Abstained(f"the value never falls below {self.below:g}")


def decisive_turn(potential: Potential, *, below: float = 0.5, name: str = "decisive turn") -> Decisive:
    """The first turn after which a state is no longer worth enough.

        value = min{k: Phi(before turn k) >= below > Phi(after turn k)}, turns numbered from 0

    Args:
        potential: such as the chance of success from fresh continuations, or the share of checks that hold.
        below: the threshold tau, units of the potential.
        name: what the verdicts are called.

    Returns:
        A TRAJECTORY observer of role "shaping". It abstains where the value never falls below the threshold; states of
        which the potential abstains are passed over; `Failed` where a value before that turn failed.

    Raises:
        InvalidArgument: no potential, or a threshold that is not finite.

    Example:
        >>> from apportion.rewards.potentials import learned_potential
        >>> from apportion.rollouts import Turn
        >>> chance = learned_potential(lambda t: [0.6, 0.7, 0.2, 0.1], sees="trajectory")
        >>> decisive_turn(chance).observe([Trajectory(id="r", group="q", turns=[Turn()] * 3)])
        [Scored(value=1.0, evidence='turn 1: 0.7 -> 0.2, below 0.5')]

    Source: what arXiv 2512.07850 calls the decisive deviation, located by a potential; the locating is ours.
    """
    _arguments.number("below", below)
    return Decisive(potential_rewards(potential), below, _arguments.text("name", name))
