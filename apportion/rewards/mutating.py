"""Calls that change something: a predicate for all of them, and a flag per turn.

A departure in a call that changes the environment is what decides most failures; one in a call that only looks hardly
matters. How a call is known to change something is in tool_effects.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Role
from apportion.rewards.predicates import Before, Predicate
from apportion.rewards.recorded import require_turns
from apportion.rewards.running import PerTrajectory
from apportion.rewards.tool_effects import Effect, ToolEffects, Undeclared, tool_effects
from apportion.rollouts import Action, Level, Trajectory, Turn
from apportion.verdicts import Abstained, Scored, Verdict

__all__ = ["mutating", "mutations"]

_LISTED = 5


@dataclass(frozen=True)
class Mutating(Predicate):
    """See `mutating`."""

    effects: ToolEffects

    @property
    def words(self) -> str:
        """What is asked."""
        return "call that changes something"

    def holds(self, action: Action, before: Before) -> bool | None:
        """None for a tool that nobody knows."""
        return self.effects.of(action.name).changes

    def because(self, action: Action, before: Before) -> str:
        """How that is known."""
        return f"{_arguments.brief(str(action.name), 60)}: {self.effects.of(action.name).why}"


def mutating(
    tools: Sequence[Mapping[str, Any]] | ToolEffects = (),
    *,
    changes: Sequence[str] = (),
    reads: Sequence[str] = (),
    undeclared: Undeclared = "guess",
) -> Predicate:
    """The action calls a tool that changes something: one predicate for all of them.

    Args:
        tools: as in `tool_effects`, or what it returned.
        changes: as in `tool_effects`.
        reads: as in `tool_effects`.
        undeclared: as in `tool_effects`.

    Returns:
        A predicate that cannot tell (None) about a tool that nobody knows.

    Raises:
        InvalidArgument: as `tool_effects`.

    Example:
        >>> start = Before(Trajectory(id="r", group="q"))
        >>> [mutating(reads=["book_search"]).holds(Action(name), start) for name in ("book", "book_search", "bash")]
        [True, False, None]
    """
    return Mutating(_effects(tools, changes, reads, undeclared))


@dataclass(frozen=True)
class Mutations(PerTrajectory):
    """See `mutations`."""

    _role: ClassVar[Role] = "shaping"
    effects: ToolEffects
    name: str
    level: Level = field(default=Level.TURN, init=False)

    def __post_init__(self) -> None:
        _arguments.text("name", self.name)

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when a trajectory has no table of turns."""
        require_turns(self.name, trajectories)

    def score(self, trajectory: Trajectory) -> list[Verdict]:
        """One flag per turn."""
        return [self._flag(turn) for turn in trajectory.turns]

    def _flag(self, turn: Turn) -> Verdict:
        if not turn.actions:
            return Scored(0.0, "no action")
        if not turn.executed:
            return Scored(0.0, "the move never reached the environment")
        told = {True: list[str](), None: list[str](), False: list[str]()}
        for at, action in enumerate(turn.actions):
            effect = Effect(None, "did not parse") if action.error is not None else self.effects.of(action.name)
            words = f"action {at}, {_arguments.brief(str(action.name), 60)}: {effect.why}"
            told[effect.changes].append(words)
        for changes in (True, None, False):
            if told[changes]:
                break
        listed = "; ".join(told[changes][:_LISTED])
        more = f"; and {len(told[changes]) - _LISTED} more" if len(told[changes]) > _LISTED else ""
        if changes is None:
            return Abstained(f"nobody knows what it changes: {listed}{more}")
        return Scored(float(changes), f"{'changes something' if changes else 'only looks'}: {listed}{more}")


def mutations(
    tools: Sequence[Mapping[str, Any]] | ToolEffects = (),
    *,
    changes: Sequence[str] = (),
    reads: Sequence[str] = (),
    undeclared: Undeclared = "guess",
    name: str = "mutating",
) -> Mutations:
    """A flag per turn: whether it changed something. A weight for credit, not a reward of its own.

        flag_k = 1 if any call of turn k changes something, 0 if all of them only look

    Args:
        tools: as in `tool_effects`, or what it returned.
        changes: as in `tool_effects`.
        reads: as in `tool_effects`.
        undeclared: as in `tool_effects`.
        name: what the verdicts are called.

    Returns:
        A TURN reward of 1 and 0. A turn without calls, or that never reached the environment, is 0. It abstains where
        no call is known to change anything and one is unknown or did not parse.

    Raises:
        InvalidArgument: as `tool_effects`.
        MissingInput: when observing, trajectories without a table of turns.

    Example:
        >>> turns = [Turn(actions=(Action(name),)) for name in ("get_user", "cancel_order", "bash")]
        >>> [type(v).__name__ for v in mutations().observe([Trajectory(id="r", group="q", turns=turns)])[0]]
        ['Scored', 'Scored', 'Abstained']

    Source: arXiv 2512.07850 finds that departures in such calls predict failure; it has no rule for training.
    """
    return Mutations(_effects(tools, changes, reads, undeclared), name)


def _effects(
    tools: Sequence[Mapping[str, Any]] | ToolEffects,
    changes: Sequence[str],
    reads: Sequence[str],
    undeclared: Undeclared,
) -> ToolEffects:
    if not isinstance(tools, ToolEffects):
        return tool_effects(tools, changes=changes, reads=reads, undeclared=undeclared)
    if changes or reads or undeclared != "guess":
        raise InvalidArgument("tools", "ToolEffects", "definitions, since changes, reads or undeclared is given too")
    return tools
