"""What a state is worth: `Potential`, and the two observers that carry one into a recipe.

    state      s_0       s_1       s_2        s_0 = the prompt
    turn            1         2               s_k = everything up to and including turn k and what answered it
    value      Phi_0     Phi_1     Phi_2      `start` = Phi_0 (per trajectory), `after` = Phi_1, Phi_2 (per turn)

A trajectory of K turns passes through K + 1 states. Observers speak of trajectories and of turns, so a potential enters
a recipe as two of them; `apportion.advantages.states.state_values` joins their signals again.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.asking import AskedOnce
from apportion.rewards.base import Composable, Observation, Role, Rows
from apportion.rewards.running import Later, Limits
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Verdict

__all__ = ["Potential", "potential_rewards"]

Values: TypeAlias = Sequence[Sequence[Verdict]]


@runtime_checkable
class Potential(Protocol):
    """Anything that values the states of a trajectory.

    Attributes:
        name: of the values, in results and in the ledger.
    """

    @property
    def name(self) -> str:
        """Unique among the observers of one run."""

    def values(self, trajectories: Sequence[Trajectory]) -> Values | Awaitable[Values]:
        """For every trajectory, `n_turns` + 1 verdicts: Phi_0 of the prompt, then Phi_k after each turn."""


@dataclass(frozen=True, eq=False)
class _States(Composable):
    """One half of a potential; alone it would teach to search for ever."""

    _role: ClassVar[Role] = "shaping"
    asked: AskedOnce[Rows]
    level: Level
    name: str

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation | Awaitable[Observation]:
        """Phi_0 of every trajectory, or Phi_1 .. Phi_K."""
        answer = self.asked(trajectories)
        if isinstance(answer, list):
            return self._part(answer)
        return Later(functools.partial(self._wait, answer), answer)

    async def _wait(self, answer: Awaitable[Rows]) -> Observation:
        return self._part(await answer)

    def _part(self, rows: Rows) -> Observation:
        if self.level == Level.TRAJECTORY:
            return [row[0] for row in rows]
        return [row[1:] for row in rows]


def _ask(potential: Potential, trajectories: Sequence[Trajectory], limits: Limits) -> Rows | Awaitable[Rows]:
    answer = potential.values(trajectories)
    if inspect.isawaitable(answer):
        return Later(functools.partial(_later, potential, trajectories, answer), answer)
    return _checked(potential, trajectories, answer)


async def _later(potential: Potential, trajectories: Sequence[Trajectory], answer: Awaitable[Values]) -> Rows:
    return _checked(potential, trajectories, await answer)


def _checked(potential: Potential, trajectories: Sequence[Trajectory], values: Values) -> Rows:
    rows = [list(row) for row in values]
    states = [(t.id, t.n_turns + 1) for t in trajectories]
    if [len(row) for row in rows] != [count for _, count in states]:
        both = zip(states, rows, strict=False)
        wrong = [f"{name}: {len(row)} for {count} states" for (name, count), row in both if len(row) != count]
        raise InvalidArgument(
            f"values of potential {potential.name!r}",
            wrong[:10] or len(rows),
            f"{len(states)} rows with one verdict per state: the prompt, then the state after every turn",
        )
    return rows


def potential_rewards(potential: Potential) -> tuple[Composable, Composable]:
    """The observers of a potential: its value at the start (TRAJECTORY), and after every turn (TURN).

    Args:
        potential: what values the states; it is asked once for both, sync or async.

    Returns:
        `start`, named "<name> at start", and `after`, named as the potential; both of role "shaping".

    Raises:
        InvalidArgument: no potential; when observing, another number of values than states (all are listed).

    Example:
        >>> from apportion.rollouts import Turn
        >>> from apportion.verdicts import Scored
        >>> class Half:
        ...     name = "half"
        ...     def values(self, trajectories):
        ...         return [[Scored(0.5 * k) for k in range(t.n_turns + 1)] for t in trajectories]
        >>> start, after = potential_rewards(Half())
        >>> rollouts = [Trajectory(id="r", group="q", turns=[Turn(), Turn()])]
        >>> [v.value for v in start.observe(rollouts)], [v.value for v in after.observe(rollouts)[0]]
        ([0.0], [0.5, 1.0])
    """
    if not isinstance(potential, Potential):
        raise InvalidArgument("potential", potential, "an object with a name and values(trajectories)")
    name = _arguments.text("potential.name", potential.name)
    asked = AskedOnce(functools.partial(_ask, potential))
    return _States(asked, Level.TRAJECTORY, f"{name} at start"), _States(asked, Level.TURN, name)
