"""RUDDER: the outcome handed out to the turns that made its prediction move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import torch

from apportion import advantages as adv
from apportion.advantages.modulate_weights import tokens_that_count
from apportion.advantages.place import on_last_turn, wrote
from apportion.advantages.td import td
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.state_inputs import Given, States
from apportion.rewards import Truncated, outcome
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["rudder"]

Residual: TypeAlias = Literal["last", "spread"]


def rudder(
    *,
    max_error: float = 0.2,
    reward_range: float = 1.0,
    residual: Residual = "last",
    potential: Given = None,
    column: str = "potential",
    start_value: float | None = None,
    dialect: str = "apportion",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """Credit from a predictor of the return: what each turn changed in the prediction.

        A_k = g_k - g_{k-1}, and R_i - g_K on the last turn (or in equal parts on all)        sum_k A_k = R_i - g_0

    Only rollouts whose return the predictor got right, |R_i - g_K| <= max_error * reward_range, get this credit; the
    others get the outcome's advantage.

    Args:
        max_error: largest relative error of the prediction at the end.
        reward_range: best minus worst return, what the error is relative to.
        residual: where the predictor's error at the end goes: on the "last" turn, or "spread" over all turns.
        potential: predicts the return from a state: an object, or a Python file that defines `potential`; default the
            columns.
        column: turn column of recorded predictions, after the turn; "<column>_start" of the prompt.
        start_value: the prediction for the prompt where that column is absent; 0 hands out all of the return.
        dialect: whose GRPO, for rollouts that were predicted badly.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: a predictor that is wrong everywhere leaves GRPO. A rollout in which a prediction is unknown
    counts as predicted badly. An unknown outcome leaves its group.

    Raises:
        InvalidArgument: a negative error, a range that is not positive, or an unknown residual.
        MissingInput: neither a potential nor the columns.

    Source: arXiv 1806.07857. The threshold, per rollout, is a reconstruction: the paper weighs by the predictor's
    quality.
    """
    if not 0 <= max_error < float("inf"):
        raise InvalidArgument("max_error", max_error, "a finite number >= 0")
    if not 0 < reward_range < float("inf"):
        raise InvalidArgument("reward_range", reward_range, "a finite number > 0")
    if residual not in get_args(Residual):
        raise InvalidArgument("residual", residual, f"one of {', '.join(get_args(Residual))}")
    states = States(potential, column=column, start_value=start_value)

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        scored, values = signals["outcome"].neutral(), states.of(signals)
        base, moves = adv.grpo(scored, dialect=dialect), td(values)
        holes = batch.pool((wrote(batch) & ~moves.known).to(torch.float64), Level.TURN, Level.TRAJECTORY, "sum")
        predicted = values.after.pool(Level.TRAJECTORY, "last").neutral()
        usable = scored.known & predicted.known & (holes == 0)
        gap = scored.masked(usable) - predicted.masked(usable).named("prediction")
        good = usable & (gap.values.abs() <= max_error * reward_range)
        trusted = batch.spread(good, Level.TRAJECTORY, Level.TURN)
        left = gap.masked(good)
        credit = moves.masked(trusted) + (on_last_turn(left) if residual == "last" else _in_parts(left))
        return base.masked(~good) + credit.masked(trusted)

    return Recipe(
        name="rudder",
        observers=[outcome(reward, truncated=truncated), *states.observers],
        assign_signals=assign,
        aggregation="token-mean",
        paper="1806.07857",
        needs=(f"trajectory column {reward!r}", *states.needs),
        reconstruction="when a prediction counts as good, and that the others fall back on GRPO",
        parameters={
            "max_error": max_error,
            "reward_range": reward_range,
            "residual": residual,
            "potential": states.source.name,
            "column": column,
            "start_value": start_value,
            "dialect": dialect,
            "reward": reward,
            "truncated": truncated,
        },
    )


def _in_parts(x: Signal) -> Signal:
    counts = (tokens_that_count(x.batch, Level.TURN) > 0).to(torch.float64)
    number = x.batch.pool(counts, Level.TURN, Level.TRAJECTORY, "sum").clamp_min(1.0)
    return x.scaled(counts / x.batch.spread(number, Level.TRAJECTORY, Level.TURN), Level.TURN)
