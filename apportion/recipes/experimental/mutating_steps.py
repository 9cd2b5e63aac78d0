"""Blame for a failure falls on the turns that changed something. Inspired by SABER."""

from __future__ import annotations

from collections.abc import Mapping

from apportion import advantages as adv
from apportion.advantages.modulate_weights import where_true
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.columns import turn_column
from apportion.recipes.note_inputs import GivenReward, reward_of
from apportion.rewards import Truncated, outcome
from apportion.rewards.base import Reward
from apportion.rewards.mutating import mutations
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["mutating_steps"]


def mutating_steps(
    *,
    emphasis: float = 1.0,
    flags: GivenReward = None,
    column: str | None = None,
    dialect: str = "apportion",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """The outcome's advantage; where it is negative, turns that changed something carry more of it.

        A_i < 0   A_k = A_i w_k * L / sum_j L_j w_j,   w = 1 + emphasis * [turn k changed something]
        A_i >= 0  A_k = A_i

    Args:
        emphasis: kappa >= 0; 0 is GRPO.
        flags: an observer of 1 and 0 per turn, or a Python file that defines `flags`; default
            `apportion.rewards.mutating.mutations()`, which reads the tools' names (give it their definitions, and
            nothing is guessed).
        column: turn column of recorded flags, instead.
        dialect: whose GRPO.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: where all turns or none changed something the blame is even; an unknown flag weighs 1.

    Raises:
        InvalidArgument: a negative emphasis, an observer of another level, or both `flags` and `column`.

    Source: inspired by arXiv 2512.07850, which finds that deviations in such actions predict failure and has no rule
    for training.
    """
    if not 0 <= emphasis < float("inf"):
        raise InvalidArgument("emphasis", emphasis, "a finite number >= 0")
    if flags is not None and column is not None:
        raise InvalidArgument("column", column, "None, since flags is given too")
    observer: Reward = mutations()
    if column is not None:
        observer = turn_column(column, name="mutating")
    elif flags is not None:
        observer = reward_of(flags, argument="flags")
    if observer.level != Level.TURN:
        raise InvalidArgument("flags", observer.name, "an observer of TURN level")

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        base = adv.grpo(signals["outcome"], dialect=dialect)
        failed = batch.spread(base.values < 0, Level.TRAJECTORY, Level.TURN)
        weights = where_true(signals[observer.name], then=1.0 + emphasis, otherwise=1.0)
        return adv.modulate(base, weights.masked(failed), conserve="mass")

    return Recipe(
        name="experimental/mutating_steps",
        observers=[outcome(reward, truncated=truncated), observer],
        assign_signals=assign,
        aggregation=adv.dialect(dialect).aggregation,
        paper="2512.07850",
        needs=(
            f"trajectory column {reward!r}",
            "the calls of every turn" if column is None else f"turn column {column!r}",
        ),
        reconstruction="inspired by the paper, a safeguard at test time that has no rule for training",
        parameters={
            "emphasis": emphasis,
            "flags": observer.name,
            "column": column,
            "dialect": dialect,
            "reward": reward,
            "truncated": truncated,
        },
    )
