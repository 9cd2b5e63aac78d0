"""`step_reward`: what the environment itself paid for each turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from apportion.errors import MissingInput
from apportion.rewards import _arguments
from apportion.rewards.base import Composable, Observation
from apportion.rollouts import Level, Trajectory, Turn
from apportion.verdicts import Abstained, Scored, Verdict, as_verdict

__all__ = ["step_reward"]

Unpaid: TypeAlias = Literal["abstain", "zero"]


@dataclass(frozen=True)
class StepReward(Composable):
    """See `step_reward`."""

    unpaid: Unpaid
    name: str
    column: str | None = None
    level: Level = field(default=Level.TURN, init=False)

    def __post_init__(self) -> None:
        _arguments.choice("unpaid", self.unpaid, get_args(Unpaid))
        _arguments.text("name", self.name)
        if self.column is not None:
            _arguments.text("column", self.column)

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation:
        """The recorded rewards."""
        paid = any(self._paid(turn) is not None for t in trajectories for turn in t.turns)
        if self.unpaid == "abstain" and not paid and any(t.n_turns for t in trajectories):
            place = "Turn.reward" if self.column is None else f"the turn column {self.column!r}"
            raise MissingInput(
                f"observer {self.name!r}",
                "the environment's reward of any turn",
                f"record it as {place}, or say unpaid='zero' if the environment pays for some turns only",
                [t.id for t in trajectories],
            )
        return [self._row(t) for t in trajectories]

    def _paid(self, turn: Turn) -> Any:
        return turn.reward if self.column is None else turn.columns.get(self.column)

    def _row(self, trajectory: Trajectory) -> list[Verdict]:
        why = "the environment gave no reward for this turn"
        unpaid = Scored(0.0, why) if self.unpaid == "zero" else Abstained(why)
        if not trajectory.turns:
            return [unpaid] * trajectory.n_turns
        source = "the environment's step reward" if self.column is None else f"turn column {self.column!r}"
        found = [self._paid(turn) for turn in trajectory.turns]
        return [unpaid if value is None else as_verdict(value, source=source) for value in found]


def step_reward(*, column: str | None = None, unpaid: Unpaid = "abstain", name: str = "step_reward") -> StepReward:
    """What the environment itself paid for each turn, as `Turn.reward` (or a turn column) has it.

        r_k = Turn.reward of turn k;  its return-to-go is what the rest of the episode earned

    It is the task's own reward, so it can drive training alone (role "outcome"). Whether its sum is what you want is a
    question to the environment: one that pays for every step teaches to take more steps.

    Args:
        column: a key of `Turn.columns` that holds it instead.
        unpaid: a turn for which the environment gave nothing: "abstain", or "zero" where that is worth 0.
        name: what the verdicts are called.

    Returns:
        A TURN reward; a reward that is not finite is `Failed`.

    Raises:
        InvalidArgument: an unknown `unpaid`.
        MissingInput: when observing, no turn of any trajectory has a reward, and `unpaid` is "abstain".

    Example:
        >>> from apportion.rollouts import Turn
        >>> t = Trajectory(id="r0", group="q", turns=(Turn(reward=0.5), Turn()))
        >>> step_reward().observe([t])[0][0]
        Scored(value=0.5, evidence='')
    """
    return StepReward(unpaid, name, column)
