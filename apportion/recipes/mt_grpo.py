"""MT-GRPO: the first turn also answers for what the environment paid for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal, TypeAlias, get_args

import torch

from apportion.advantages.group_stat import group_stat
from apportion.advantages.keys import step_index, within_group
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.rewards import Truncated, outcome, step_reward
from apportion.rewards.steps import Unpaid
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["mt_grpo"]

Turns: TypeAlias = Literal["first", "each"]


def mt_grpo(
    *,
    turn_weight: float = 1.0,
    turns: Turns = "first",
    turn_reward: str | None = None,
    unpaid: Unpaid = "abstain",
    eps: float = 1e-4,
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """The group-normalised outcome, and on the turn that the environment paid for its normalised reward as well.

        first   A_1 = z_g(R) + turn_weight * z_g(r_1),   A_k = z_g(R) for k > 1
                a rollout of one turn, which no result answered: A = z_g(R + r_1)
        each    A_k = z_g(R) + turn_weight * z_{g,k}(r_k)        compared with the k-th turns of its group

    Args:
        turn_weight: alpha.
        turns: "first" is the paper's, whose tasks have one search and one answer; "each" is ours.
        turn_reward: turn column with r_k; default the environment's own, `Turn.reward`.
        unpaid: a turn that was not paid: "abstain", or "zero". In training only the latter goes on through a batch in
            which the environment paid nobody, because nobody called it.
        eps: added to the standard deviation (n - 1).
        reward: trajectory column with the outcome R.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: equal turn rewards add nothing, which leaves GRPO; a turn without a reward adds nothing (in the
    sum for a rollout of one turn: as if it were 0, since no result came); an unknown outcome leaves its group, and
    turns keep what the environment paid.

    Raises:
        InvalidArgument: an unknown choice, or a weight that is not finite.
        MissingInput: when observing, no turn has a reward.

    Example:
        >>> from apportion.rollouts import Trajectory, Turn
        >>> paid = [(1.0, 0.5), (0.0, 0.0), (0.0, 0.5), (1.0, 0.0)]
        >>> rollouts = [
        ...     Trajectory(id=str(i), group="q", turns=[Turn(reward=r), Turn()], columns={"reward": R})
        ...     for i, (R, r) in enumerate(paid)
        ... ]
        >>> credit, _ = mt_grpo().score(rollouts)
        >>> [round(a, 4) for a in credit.advantages.values.tolist()]
        [1.7316, 0.8659, -1.7316, -0.8659, -0.0001, -0.8659, 0.0001, 0.8659]

    Source: arXiv 2505.11821 and its code. What answers the first turn counts as its result, whatever its words; the
    code's third, combined reward is read as the sum.
    """
    if turns not in get_args(Turns):
        raise InvalidArgument("turns", turns, f"one of {', '.join(get_args(Turns))}")
    normalised = partial(group_stat, ddof=1, eps=eps)

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        solved, paid = signals["outcome"], signals["turn_reward"]
        place = step_index(batch)
        if turns == "each":
            key = within_group(batch, Level.TURN, place)
            return normalised(solved).spread(Level.TURN) + normalised(paid, key=key) * turn_weight
        first = paid.masked(place == 0)
        outer = normalised(solved)
        answered = batch.turns > 1
        total = solved + first.pool(Level.TRAJECTORY, "sum").neutral()
        alone = normalised(total.masked(solved.known)).masked(~answered)
        return outer.masked(answered) + alone + normalised(first).masked(_spread(batch, answered)) * turn_weight

    return Recipe(
        name="mt_grpo",
        observers=[
            outcome(reward, truncated=truncated),
            step_reward(column=turn_reward, unpaid=unpaid, name="turn_reward"),
        ],
        assign_signals=assign,
        aggregation="token-mean",
        paper="2505.11821",
        needs=(f"trajectory column {reward!r}", _paid_by(turn_reward)),
        reconstruction="" if turns == "first" else "more than one paid turn: each is compared with turns of its place",
        parameters={
            "turn_weight": turn_weight,
            "turns": turns,
            "turn_reward": turn_reward,
            "unpaid": unpaid,
            "eps": eps,
            "reward": reward,
            "truncated": truncated,
        },
    )


def _spread(batch: Batch, flag: torch.Tensor) -> torch.Tensor:
    return batch.spread(flag, Level.TRAJECTORY, Level.TURN)


def _paid_by(column: str | None) -> str:
    return "rewards of turns (Turn.reward)" if column is None else f"turn column {column!r}"
