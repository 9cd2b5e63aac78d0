"""PRIME: the log-ratio of a reward model to its reference is a reward for every token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import torch

from apportion import advantages as adv
from apportion.advantages.group_stat import group_stat
from apportion.advantages.return_to_go import return_to_go
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.columns import token_signal
from apportion.rewards import Truncated, outcome
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["prime"]

Norm: TypeAlias = Literal["none", "batch"]


def prime(
    *,
    beta: float = 0.05,
    process_weight: float = 5.0,
    norm: Norm = "none",
    rm_logps: str = "rm_logps",
    ref_logps: str = "ref_logps",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """Implicit rewards of every token and the outcome, each against the other rollouts, summed to the end and whitened.

        q_t = beta (ln pi_RM(y_t) - ln pi_ref(y_t))
        r_t = process_weight * (q_t - mean_g) n / (n - 1)        mean_g over the rollouts' means per token
        A_t = whiten( sum_{s >= t} r_s + R_i - mean_{j != i} R_j )

    Args:
        beta: of the reward model's own loss, BCE(sigmoid(sum_t q_t), success).
        process_weight: of the implicit rewards.
        norm: "batch" divides q by the largest |sum to the end| of the batch.
        rm_logps: token column with ln pi_RM, of the reward model as it is now; training it is another program's.
        ref_logps: token column with ln pi_ref.
        reward: trajectory column with the outcome R.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: equal log-ratios leave RLOO, whitened. A token without both log-probabilities pays nothing; a
    rollout without any leaves the mean. A single rollout with log-ratios in its group gets none of them.

    Raises:
        InvalidArgument: an unknown norm, or text-only rollouts.
        MissingInput: one of the two columns is absent.

    Source: arXiv 2502.01456 and its code, which also keeps only prompts with an accuracy in [0.2, 0.8].
    """
    if norm not in get_args(Norm):
        raise InvalidArgument("norm", norm, f"one of {', '.join(get_args(Norm))}")

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        size = batch.size(Level.TOKEN)
        how = "score the response under the implicit reward model and under its reference"
        model = token_signal(batch, rm_logps, needed_by="recipe 'prime'", how=how)
        reference = token_signal(batch, ref_logps, needed_by="recipe 'prime'", how=how)
        own = torch.ones(size, dtype=torch.bool, device=batch.device) if batch.own is None else batch.own
        both = model.known & reference.known & own
        implicit = (model.masked(both) - reference.masked(both)).named("implicit reward") * beta
        if norm == "batch":
            largest = float(return_to_go(implicit).values.abs().max()) if size else 0.0
            implicit = implicit / largest if largest else implicit
        process = return_to_go(_against_others(implicit) * process_weight)
        return adv.whiten((adv.rloo(signals["outcome"]).spread(Level.TOKEN) + process).masked(own))

    return Recipe(
        name="prime",
        observers=[outcome(reward, truncated=truncated)],
        assign_signals=assign,
        aggregation="token-mean",
        scope="batch",
        paper="2502.01456",
        needs=(f"trajectory column {reward!r}", f"token columns {rm_logps!r} and {ref_logps!r}"),
        parameters={
            "beta": beta,
            "process_weight": process_weight,
            "norm": norm,
            "rm_logps": rm_logps,
            "ref_logps": ref_logps,
            "reward": reward,
            "truncated": truncated,
        },
    )


def _against_others(x: Signal) -> Signal:
    """A token against the mean of the rollouts' means, n / (n - 1) times: the rollout leaves itself out."""
    batch = x.batch
    scored = batch.pool(x.known.to(torch.float64), Level.TOKEN, Level.TRAJECTORY, "sum") > 0
    n = batch.pool(scored.to(torch.float64), Level.TRAJECTORY, Level.GROUP, "sum")
    factor = torch.where(n > 1, n / (n - 1).clamp_min(1.0), 0.0)
    return group_stat(x, scale="none", unit="trajectory").scaled(factor, Level.GROUP)
