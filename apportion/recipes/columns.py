"""What the producer of the rollouts recorded already: per turn as an observer, per token as a signal."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.rollouts import Level, Trajectory
from apportion.signal import Signal
from apportion.verdicts import LARGEST, Abstained, Verdict, as_verdict

__all__ = ["TrajectoryColumn", "TurnColumn", "token_signal", "trajectory_column", "turn_column"]


class TurnColumn:
    """One verdict per turn from a turn column; a turn without it abstains."""

    role = "shaping"
    level = Level.TURN

    def __init__(self, column: str, *, name: str, how: str) -> None:
        self.column = column
        self.name = name
        self.how = how

    def observe(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]]:
        """The column's values.

        Raises:
            MissingInput: no turn of any trajectory has the column, which is a misnamed column, not an abstention.
        """
        if trajectories and not any(self.column in turn.columns for t in trajectories for turn in t.turns):
            raise MissingInput(
                f"observer {self.name!r}",
                f"a turn column {self.column!r}",
                self.how,
            )
        return [self._row(t) for t in trajectories]

    def _row(self, trajectory: Trajectory) -> list[Verdict]:
        absent = Abstained(f"no turn column {self.column!r}")
        turns = trajectory.turns
        if not turns:
            return [absent] * trajectory.n_turns
        return [
            as_verdict(turn.columns[self.column], source=f"turn column {self.column!r}")
            if self.column in turn.columns
            else absent
            for turn in turns
        ]


def turn_column(
    column: str, *, name: str | None = None, how: str = "record it per turn, or name another column"
) -> TurnColumn:
    """A number that was recorded with every turn, as a shaping reward.

    Args:
        column: key in `Turn.columns`.
        name: of the observer; default the column's.
        how: what to do where no turn has it, for the message.

    Example:
        >>> from apportion.rollouts import Turn
        >>> t = Trajectory(id="r", group="q", turns=[Turn(columns={"violations": 1}), Turn()])
        >>> turn_column("violations").observe([t])
        [[Scored(value=1.0, evidence=''), Abstained(reason="no turn column 'violations'")]]
    """
    return TurnColumn(column, name=name or column, how=how)


class TrajectoryColumn:
    """One verdict per trajectory from its column; a trajectory without it abstains."""

    role = "shaping"
    level = Level.TRAJECTORY

    def __init__(self, column: str, *, name: str) -> None:
        self.column = column
        self.name = name

    def observe(self, trajectories: Sequence[Trajectory]) -> list[Verdict]:
        """The column's values."""
        source = f"trajectory column {self.column!r}"
        return [
            Abstained(f"no {source}")
            if t.columns.get(self.column) is None
            else as_verdict(t.columns[self.column], source=source)
            for t in trajectories
        ]


def trajectory_column(column: str, *, name: str | None = None) -> TrajectoryColumn:
    """A number that was recorded with some trajectories, and need not be with all.

    Args:
        column: key in `Trajectory.columns`.
        name: of the observer; default the column's.

    Example:
        >>> t = Trajectory(id="r", group="q", columns={"bootstrap_value": 0.5})
        >>> trajectory_column("bootstrap_value").observe([t])
        [Scored(value=0.5, evidence='')]
    """
    return TrajectoryColumn(column, name=name or column)


def token_signal(batch: Batch, column: str, *, needed_by: str, how: str = "") -> Signal:
    """A number that was recorded with every policy token; NaN is ABSENT, and a behaviour's outside `own` is too.

    Args:
        batch: packed with its token columns.
        column: key in `Trajectory.token_columns`.
        needed_by: who asks, for the message.
        how: how the numbers come about, for the message.

    Raises:
        MissingInput: no trajectory has the column.
        InvalidArgument: an infinity, or a number beyond `LARGEST`; the rollouts are listed.

    Example:
        >>> b = Batch.of(groups=["q"], tokens=[2], token_columns={"values": torch.tensor([0.5, float("nan")])})
        >>> token_signal(b, "values", needed_by="recipe ppo").known.tolist()
        [True, False]
    """
    if column not in batch.token_columns:
        place = column if column == "behaviour_logps" else f"token_columns[{column!r}]"
        remedy = f"{how or 'record it'}, one number per response token, in Trajectory.{place}"
        raise MissingInput(needed_by, f"a token column {column!r}", remedy)
    numbers = batch.token_columns[column].to(torch.float64)
    if column == "behaviour_logps" and batch.own is not None:
        # Whatever stands there, nobody sampled these tokens in this rollout.
        numbers = torch.where(batch.own, numbers, torch.nan)
    beyond = torch.nonzero(numbers.abs() > LARGEST).flatten()
    if beyond.numel():
        owner = torch.unique(batch.owner(Level.TOKEN, Level.TRAJECTORY)[beyond])[:10].tolist()
        named = ", ".join(batch.ids[i] for i in owner)
        expected = f"numbers of at most {LARGEST:g}, NaN where unknown; not so in {named}"
        raise InvalidArgument(f"token column {column!r}", numbers[beyond[:10]].tolist(), expected)
    return Signal.of(batch, Level.TOKEN, numbers, name=column, known=~torch.isnan(numbers))
