"""Notes that the producer of the rollouts recorded, and those that a score implies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import _arguments
from apportion.rewards.base import Reward, Role, check_reward
from apportion.rewards.running import Combined, Plan
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["RecordedNotes", "first_error", "recorded_notes"]


@dataclass(frozen=True)
class RecordedNotes:
    """See `recorded_notes`."""

    column: str
    per: Level
    needed_by: str

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when the column is nowhere: misnamed, not an abstention."""
        if self.per is Level.TURN:
            there = any(self.column in turn.columns for t in trajectories for turn in t.turns)
        else:
            there = any(self.column in t.columns for t in trajectories)
        if not there and any(t.n_turns for t in trajectories):
            raise MissingInput(
                self.needed_by,
                f"a {self.per.name.lower()} column {self.column!r}",
                "record it, name another column, or give an annotator: a function of one trajectory, plain or async "
                "(of a recipe: annotator=, the function or a Python file that defines `annotator`)",
            )

    def __call__(self, trajectory: Trajectory) -> Any:
        """What the column holds; None where it is absent."""
        if self.per is Level.TRAJECTORY:
            return trajectory.columns.get(self.column)
        if not trajectory.turns:
            return Abstained(f"no turn column {self.column!r}")
        return [turn.columns.get(self.column) for turn in trajectory.turns]


def recorded_notes(
    column: str, *, per: Level = Level.TURN, needed_by: str = "an annotator of what was recorded"
) -> RecordedNotes:
    """An annotator that reads a column.

    Args:
        column: key in `Turn.columns`, or in `Trajectory.columns` where notes concern the whole (links).
        per: TURN or TRAJECTORY.
        needed_by: who asks, for the message.

    Raises:
        InvalidArgument: no name, or another level.
        MissingInput: when observing, the column is nowhere.

    Example:
        >>> from apportion.rewards.annotators import labelled
        >>> from apportion.rollouts import Turn
        >>> t = Trajectory(id="r", group="q", turns=[Turn(columns={"role": "explore"}), Turn()])
        >>> labelled(recorded_notes("role"), ["explore", "regress"]).observe([t])[0]
        [Scored(value=0.0, evidence='explore'), Abstained(reason='no label')]
    """
    return RecordedNotes(_arguments.text("column", column), _arguments.observable_level("per", per), needed_by)


@dataclass(frozen=True)
class FirstError(Combined):
    """See `first_error`."""

    _role: ClassVar[Role] = "shaping"
    inner: Reward
    below: float
    name: str
    level: Level = field(default=Level.TRAJECTORY, init=False)

    def __post_init__(self) -> None:
        if check_reward("first_error", self.inner).level is not Level.TURN:
            raise InvalidArgument("first_error", self.inner.name, "a reward of TURN level: a score of every step")
        _arguments.number("below", self.below)
        _arguments.text("name", self.name)

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks the one part."""
        (rows,) = yield [(self.inner, trajectories)]
        return [[self._first(cells)] for cells in rows]

    def _first(self, cells: Sequence[Verdict]) -> Verdict:
        for k, cell in enumerate(cells):
            if isinstance(cell, Failed):
                return Failed(f"the score of turn {k} is unknown: {_arguments.brief(cell.error)}")
            if isinstance(cell, Scored) and cell.value < self.below:
                why = f" ({_arguments.brief(cell.evidence)})" if cell.evidence else ""
                return Scored(float(k), f"turn {k} scores {cell.value:g} < {self.below:g}{why}")
        return Abstained(f"no turn scores below {self.below:g}")


def first_error(score: Reward, *, below: float = 0.5, name: str | None = None) -> FirstError:
    """The first turn that a step score calls wrong.

        value = min{k: score_k < below}, turns numbered from 0

    Args:
        score: a TURN reward, such as a process reward model.
        below: the threshold tau, units of the score.
        name: default "first_error".

    Returns:
        A TRAJECTORY observer of role "shaping". It abstains where no turn scores below the threshold; turns whose score
        abstains are passed over; `Failed` where a score before the first error failed.

    Raises:
        InvalidArgument: a reward of another level, or a threshold that is not finite.

    Example:
        >>> from apportion.rewards import reward
        >>> from apportion.rollouts import Turn
        >>> process = reward(name="process", level=Level.TURN)(lambda t: [0.9, 0.8, 0.3, 0.7])
        >>> first_error(process).observe([Trajectory(id="r", group="q", turns=[Turn()] * 4)])
        [Scored(value=2.0, evidence='turn 2 scores 0.3 < 0.5')]
    """
    return FirstError(score, below, "first_error" if name is None else name)
