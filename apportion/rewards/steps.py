"""`step_reward`: what the environment itself paid for each turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from apportion.errors import MissingInput
from apportion.rewards import _arguments
from apportion.rewards.base import Composable, Observation
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Scored, Verdict, as_verdict

__all__ = ["step_reward"]

Unpaid: TypeAlias = Literal["abstain", "zero"]


@dataclass(frozen=True)
class StepReward(Composable):
    """See `step_reward`."""

    unpaid: Unpaid
    name: str
    level: Level = field(default=Level.TURN, init=False)

    def __post_init__(self) -> None:
        _arguments.choice("unpaid", self.unpaid, get_args(Unpaid))
        _arguments.text("name", self.name)

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation:
        """The recorded rewards."""
        paid = any(turn.reward is not None for t in trajectories for turn in t.turns)
        if self.unpaid == "abstain" and not paid and any(t.n_turns for t in trajectories):
            raise MissingInput(
                f"observer {self.name!r}",
                "the environment's reward of any turn",
                "record it as Turn.reward, or say unpaid='zero' if the environment pays for some turns only",
                [t.id for t in trajectories],
            )
        return [self._row(t) for t in trajectories]

    def _row(self, trajectory: Trajectory) -> list[Verdict]:
        why = "the environment gave no reward for this turn"
        unpaid = Scored(0.0, why) if self.unpaid == "zero" else Abstained(why)
        if not trajectory.turns:
            return [unpaid] * trajectory.n_turns
        return [
            unpaid if turn.reward is None else as_verdict(turn.reward, source="the environment's step reward")
            for turn in trajectory.turns
        ]


def step_reward(*, unpaid: Unpaid = "abstain", name: str = "step_reward") -> StepReward:
    """What the environment itself paid for each turn, as `Turn.reward` has it.

        r_k = Turn.reward of turn k;  its return-to-go is what the rest of the episode earned

    It is the task's own reward, so it can drive training alone (role "outcome"). Whether its sum is what you want is a
    question to the environment: one that pays for every step teaches to take more steps.

    Args:
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
    return StepReward(unpaid, name)
