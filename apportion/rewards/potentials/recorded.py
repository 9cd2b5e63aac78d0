"""Values of states that the producer of the rollouts recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.errors import MissingInput
from apportion.rewards import _arguments
from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Scored, Verdict, as_verdict

__all__ = ["RecordedPotential", "recorded_potential"]


@dataclass(frozen=True)
class RecordedPotential:
    """See `recorded_potential`."""

    column: str
    start: str
    start_value: float | None
    name: str

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]]:
        """Phi_0 from the trajectory's column, Phi_k from the turn's; where one is absent it abstains.

        Raises:
            MissingInput: no turn of any trajectory has the column, or no trajectory has the start and no value was
                declared for it: a misnamed column, not an abstention.
        """
        turns = [turn for t in trajectories for turn in t.turns]
        if turns and not any(self.column in turn.columns for turn in turns):
            raise MissingInput(
                f"potential {self.name!r}",
                f"a turn column {self.column!r}",
                "record what the state is worth after every turn, name another column, or give another potential "
                "(of a recipe: potential=, an object or a Python file that defines `potential`)",
            )
        if trajectories and self.start_value is None and not any(self.start in t.columns for t in trajectories):
            raise MissingInput(
                f"potential {self.name!r}",
                f"a trajectory column {self.start!r}",
                "record what the prompt alone is worth, name another column, or declare start_value=0",
            )
        return [self._row(t) for t in trajectories]

    def _row(self, trajectory: Trajectory) -> list[Verdict]:
        first: Verdict = Abstained(f"no trajectory column {self.start!r}")
        if self.start in trajectory.columns:
            first = as_verdict(trajectory.columns[self.start], source=f"trajectory column {self.start!r}")
        elif self.start_value is not None:
            first = Scored(self.start_value, "declared")
        absent = Abstained(f"no turn column {self.column!r}")
        if not trajectory.turns:
            return [first, *[absent] * trajectory.n_turns]
        source = f"turn column {self.column!r}"
        return [
            first,
            *(
                as_verdict(turn.columns[self.column], source=source) if self.column in turn.columns else absent
                for turn in trajectory.turns
            ),
        ]


def recorded_potential(
    column: str = "potential", *, start: str | None = None, start_value: float | None = None, name: str | None = None
) -> RecordedPotential:
    """Phi from columns: one per turn, and one per trajectory for the state before the first turn.

    Args:
        column: key in `Turn.columns`, Phi_k of the state after the turn.
        start: key in `Trajectory.columns`, Phi_0; default "<column>_start".
        start_value: Phi_0 of trajectories without that column, where it is known by definition (0 of no progress).
        name: default the column's.

    Example:
        >>> from apportion.rollouts import Turn
        >>> t = Trajectory(id="r", group="q", turns=[Turn(columns={"potential": 0.5}), Turn()])
        >>> recorded_potential(start_value=0.0).values([t])[0][:2]
        [Scored(value=0.0, evidence='declared'), Scored(value=0.5, evidence='')]
    """
    _arguments.text("column", column)
    if start_value is not None:
        _arguments.number("start_value", start_value)
    return RecordedPotential(column, start or f"{column}_start", start_value, name or column)
