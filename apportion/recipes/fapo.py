"""FAPO: a right answer that was reached by a wrong step is worth less than a sound one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias, get_args

import torch

from apportion import advantages as adv
from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.recipe import Recipe, State
from apportion.recipes.note_inputs import GivenReward, reward_of
from apportion.rewards import Truncated, gate, outcome
from apportion.rewards.base import Reward, Role
from apportion.rewards.running import PerTrajectory
from apportion.rollouts import Level, Trajectory
from apportion.signal import Signal
from apportion.verdicts import Presence

__all__ = ["Undetected", "fapo", "flawed_reward"]

Undetected: TypeAlias = Literal["sound", "exclude"]


def fapo(
    *,
    weight: float = 1.0,
    at: float = 1.0,
    undetected: Undetected = "sound",
    detector: GivenReward = None,
    column: str = "first_wrong",
    dialect: str = "apportion",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """Group-normalised rewards, of which a right answer with a wrong step loses `weight`.

        R = -1   outcome < at
        R =  1   outcome >= at, no wrong step            R = 1 - weight   outcome >= at, and a wrong step
        A = (R - mean) / std over the group

    With n+ sound, n- wrong and any number of flawed rollouts of G, the centred advantage of a flawed one is
    (n- - n+) / G at `weight=1`: flawed successes are pushed up while failures prevail, and down afterwards.

    Args:
        weight: lambda, what a flaw costs.
        at: the outcome from which an answer is right.
        undetected: a right answer whose detector failed counts as "sound", as in the paper, or is taken out of its
            group ("exclude").
        detector: a TRAJECTORY reward that gives the number of the first wrong turn, -1 for none, such as
            `apportion.judges.first_wrong(...).position()`, or a Python file that defines `detector`; asked about right
            answers only. Default the column.
        column: trajectory column with that number.
        dialect: whose GRPO.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: without flaws it is GRPO on +1 and -1. A rollout of unknown outcome leaves its group.

    Raises:
        InvalidArgument: a weight outside [0, 2] (a flaw would be worse than a wrong answer), an unknown choice, or a
            detector of another level.
        MissingInput: neither a detector nor the column.

    Source: arXiv 2510.22543, known to us by its abstract and the reward of its veRL recipe.
    """
    if not 0 <= weight <= 2:
        raise InvalidArgument("weight", weight, "a number in [0, 2]")
    if undetected not in get_args(Undetected):
        raise InvalidArgument("undetected", undetected, f"one of {', '.join(get_args(Undetected))}")
    right = outcome(reward, truncated=truncated)
    flaw = gate(right, then=_detector(detector, column), otherwise=None, at=at, name="flaw")

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        earned = flawed_reward(signals["outcome"], signals["flaw"], weight=weight, at=at, undetected=undetected)
        return adv.grpo(earned, dialect=dialect)

    return Recipe(
        name="fapo",
        observers=[right, flaw],
        assign_signals=assign,
        aggregation=adv.dialect(dialect).aggregation,
        scope="group",
        paper="2510.22543",
        needs=(
            f"trajectory column {reward!r}",
            *([f"trajectory column {column!r}, or detector="] if detector is None else []),
        ),
        reconstruction="from the abstract and the reward of the authors' recipe; 'exclude' is ours",
        parameters={
            "weight": weight,
            "at": at,
            "undetected": undetected,
            "detector": getattr(detector, "name", detector),
            "column": column,
            "dialect": dialect,
            "reward": reward,
            "truncated": truncated,
        },
    )


def flawed_reward(
    outcomes: Signal, flaws: Signal, *, weight: float = 1.0, at: float = 1.0, undetected: Undetected = "sound"
) -> Signal:
    """R of `fapo`, in two terms: right or wrong, and what a flaw costs.

    Args:
        outcomes: per trajectory.
        flaws: number of the first wrong turn per trajectory, negative for none.
        weight: as in `fapo`.
        at: as in `fapo`.
        undetected: as in `fapo`.

    Example:
        >>> b = Batch.of(groups=["q"] * 3, turns=[1] * 3)
        >>> right = Signal.of(b, Level.TRAJECTORY, [1.0, 1.0, 0.0], name="outcome")
        >>> first = Signal.of(b, Level.TRAJECTORY, [-1.0, 2.0, None], name="flaw")
        >>> flawed_reward(right, first).values.tolist()
        [1.0, 0.0, -1.0]
    """
    won = outcomes.known & (outcomes.values >= at)
    side = torch.where(won, 1.0, -1.0).to(outcomes.values)
    sides = replace(outcomes, values=torch.where(outcomes.known, side, 0.0)).named("outcome")
    flawed = won & flaws.known & (flaws.values >= 0)
    cost = Signal.of(outcomes.batch, Level.TRAJECTORY, flawed.to(outcomes.values) * -weight, name="flaw")
    cost = cost.masked(outcomes.known)
    if undetected == "exclude":
        unknown = won & (flaws.presence == Presence.FAILED)
        cost = replace(cost, presence=torch.where(unknown, int(Presence.FAILED), cost.presence))
    return sides + cost


def _detector(given: GivenReward, column: str) -> Reward:
    return _Recorded(column) if given is None else reward_of(given, argument="detector")


@dataclass(frozen=True)
class _Recorded(PerTrajectory):
    _role: ClassVar[Role] = "shaping"
    column: str
    name: str = "first wrong turn"
    level: ClassVar[Level] = Level.TRAJECTORY

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        if trajectories and not any(self.column in t.columns for t in trajectories):
            raise MissingInput(
                "recipe fapo",
                f"a trajectory column {self.column!r}",
                "record the number of the first wrong turn of right answers (-1: none), name another column, or give "
                "detector= (such as a judge, or a Python file that defines `detector`)",
            )

    def score(self, trajectory: Trajectory) -> object:
        return trajectory.columns.get(self.column)
