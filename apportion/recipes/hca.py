"""Hindsight credit: an action earns the return as far as the outcome, once known, makes the action more likely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import torch

from apportion import advantages as adv
from apportion.advantages.modulate_weights import hindsight_ratio
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.columns import token_signal
from apportion.rewards import Truncated, outcome
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["hca"]

Action: TypeAlias = Literal["turn", "token"]
Baseline: TypeAlias = Literal["none", "group"]

_HOW = (
    "score the response's tokens again with the outcome in the context (apportion.judges.scoring) and record their "
    "log-probabilities"
)


def hca(
    *,
    action: Action = "turn",
    limit: float = 5.0,
    baseline: Baseline = "none",
    hindsight: str = "hindsight_logps",
    policy: str = "behaviour_logps",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """The return, times how much more likely hindsight makes the action.

        A = (1 - min(pi(a | s) / h(a | s, outcome), limit)) * Z

    Args:
        action: what is one action: a "turn" (the log-probabilities of what was sampled in it add up) or a "token".
        limit: the largest ratio pi / h; one turn can turn the return around by at most limit - 1 times.
        baseline: "none": Z is the outcome itself, as in the paper; "group": its advantage inside the group.
        hindsight: token column with log h.
        policy: token column with log pi.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: where hindsight changes nothing (h = pi) credit is 0; an action whose log-probabilities are
    unknown gets Z itself. An unknown outcome gives nothing.

    Raises:
        InvalidArgument: an unknown choice, or a limit that is not positive.
        MissingInput: a token column is absent.

    Source: arXiv 1912.02503, return form. The limit, and a turn as one action, are choices of this library; the form
    over states needs h for every pair of states and is left out.
    """
    for name, value, choices in (("action", action, get_args(Action)), ("baseline", baseline, get_args(Baseline))):
        if value not in choices:
            raise InvalidArgument(name, value, f"one of {', '.join(choices)}")
    if not 0 < limit < float("inf"):
        raise InvalidArgument("limit", limit, "a positive number")

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        before = token_signal(batch, policy, needed_by="recipe hca", how="record it when sampling")
        after = token_signal(batch, hindsight, needed_by="recipe hca", how=_HOW)
        if action == "turn":
            # A turn is known when all that was sampled in it is: a sum over some of it is another action.
            own = torch.ones_like(before.known) if batch.own is None else batch.own
            holes = batch.pool((own & ~(before.known & after.known)).to(torch.float64), Level.TOKEN, Level.TURN, "sum")
            before, after = (x.masked(own).pool(Level.TURN, "sum").masked(holes == 0) for x in (before, after))
        z = signals["outcome"].neutral()
        return adv.modulate(
            z if baseline == "none" else adv.group_center(z), hindsight_ratio(before, after, limit=limit)
        )

    return Recipe(
        name="hca",
        observers=[outcome(reward, truncated=truncated)],
        assign_signals=assign,
        aggregation="token-mean",
        paper="1912.02503",
        needs=(f"trajectory column {reward!r}", f"token columns {policy!r} and {hindsight!r}"),
        reconstruction="for language models: the ratio's limit, and a turn as one action",
        parameters={
            "action": action,
            "limit": limit,
            "baseline": baseline,
            "hindsight": hindsight,
            "policy": policy,
            "reward": reward,
            "truncated": truncated,
        },
    )
