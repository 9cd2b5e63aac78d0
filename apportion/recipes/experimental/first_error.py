"""Blame for a failure falls on its first wrong step, and on nothing before or after. Inspired by SCOPE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from apportion import advantages as adv
from apportion import segments
from apportion.advantages.modulate_weights import where_true
from apportion.batch import Batch
from apportion.recipe import Recipe, State
from apportion.recipes.columns import turn_column
from apportion.recipes.note_inputs import GivenReward, reward_of
from apportion.rewards import Truncated, outcome
from apportion.rewards import annotators as notes
from apportion.rewards.base import Reward
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["first_error"]


def first_error(
    *,
    below: float = 0.5,
    score: GivenReward = None,
    column: str = "step_score",
    dialect: str = "apportion",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """The outcome's advantage; where it is negative, on the first turn that a step score calls wrong and nowhere else.

        e = min{k: score_k < below}
        A_i < 0   A_k = A_i * [k = e]            A_i >= 0, or no such turn   A_k = A_i

    Args:
        below: tau, units of the score.
        score: a TURN reward, such as a process reward model, or a Python file that defines `score`; default the column.
            A reward of TRAJECTORY level gives the number of the first wrong turn itself, from 0.
        column: turn column of recorded scores.
        dialect: whose GRPO.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: rollouts without a wrong turn, or whose first wrong turn is unknown, are left as GRPO has them.

    Raises:
        InvalidArgument: a threshold that is not finite.
        MissingInput: neither a score nor the column.

    Source: inspired by arXiv 2602.24110, of which we know the abstract; replacing the rest of the rollout by a guide's
    needs rollouts of its own and is left out.
    """
    how = (
        "record a score of every turn, name another column, or give score= (a process reward model, or a Python file "
        "that defines `score`)"
    )
    steps: Reward = turn_column(column, name="step_score", how=how)
    if score is not None:
        steps = reward_of(score, argument="score")
    first: Reward = notes.first_error(steps, below=below) if steps.level == Level.TURN else steps

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        base = adv.grpo(signals["outcome"], dialect=dialect)
        found = signals[first.name].spread(Level.TURN)
        turn = torch.arange(found.values.numel(), device=batch.device)
        number = turn - segments.starts(batch.turns)[segments.owners(batch.turns)]
        here = replace(found, values=(number == found.values).to(found.values.dtype)).named("first error")
        failed = batch.spread(base.values < 0, Level.TRAJECTORY, Level.TURN)
        return adv.modulate(base, where_true(here).masked(failed))

    return Recipe(
        name="experimental/first_error",
        observers=[outcome(reward, truncated=truncated), first],
        assign_signals=assign,
        aggregation=adv.dialect(dialect).aggregation,
        paper="2602.24110",
        needs=(f"trajectory column {reward!r}", *([f"turn column {column!r}, or score="] if score is None else [])),
        reconstruction="inspired by the paper's abstract; its threshold, its guide and its weights are unknown to us",
        parameters={
            "below": below,
            "score": steps.name,
            "column": column,
            "dialect": dialect,
            "reward": reward,
            "truncated": truncated,
        },
    )
