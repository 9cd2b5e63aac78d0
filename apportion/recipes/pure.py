"""PURE: a chain of steps is worth about as much as its worst step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from apportion import advantages as adv
from apportion.advantages.keys import step_index
from apportion.advantages.place import wrote
from apportion.advantages.return_to_go import return_to_go
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.columns import turn_column
from apportion.rewards import Truncated, outcome
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["pure"]

_HOW = "score every turn with a process reward model, p(good) - p(bad), or name another column"

Form: TypeAlias = Literal["softmin", "min"]
Per: TypeAlias = Literal["token", "turn"]


def pure(
    *,
    form: Form = "softmin",
    temperature: float = 0.1,
    step_weight: float = 1.0,
    baseline: Per = "token",
    score: str = "step_score",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """Process scores reduced by their (soft) minimum, and the outcome, each against the other rollouts of the prompt.

        softmin   r_k = w_k s_k,  w = softmax(-s / temperature) over the rollout;   y_k = sum_{j >= k} r_j
        min       y_k = min(s_k, ..., s_K)
        token     b_i = sum_{j != i} y_{j,1} / sum_{j != i} L_j       per token: turn k answers for its L_k tokens
        turn      b_i = mean_{j != i} (y_{j,1} / K_j)                 per scored turn
        A_k = (R_i - mean_{j != i} R_j) + step_weight (y_k - b_i * tokens (turns) from k on)

    Args:
        form: above; "min" is the strict one.
        temperature: T of "softmin".
        step_weight: of the process part.
        baseline: b; "token" needs token counts.
        score: turn column with the score of a step by a process reward model, p(good) - p(bad) in [-1, 1].
        reward: trajectory column with the outcome R.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: scores of 0 everywhere leave RLOO; equal scores do not, since rollouts differ in length. A turn
    without a score is no step; a rollout without any leaves the baseline and keeps its outcome's part, as does the only
    scored one of its group.

    Raises:
        InvalidArgument: an unknown choice, a temperature that is not positive, or text-only rollouts under "token".
        MissingInput: when observing, no turn has a score.

    Source: arXiv 2504.15275 and its code.
    """
    for name, value, choices in (("form", form, Form), ("baseline", baseline, Per)):
        if value not in get_args(choices):
            raise InvalidArgument(name, value, f"one of {', '.join(get_args(choices))}")
    if not temperature > 0:
        raise InvalidArgument("temperature", temperature, "a positive number")

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        if baseline == "token" and not batch.has_tokens:
            raise InvalidArgument("baseline", baseline, "'turn' for text-only rollouts, which have no token counts")
        # A turn in which the policy wrote nothing is no step of its.
        scored = signals["score"].neutral().masked(wrote(batch))
        ahead = return_to_go(scored, form=form, temperature=temperature)
        whole = ahead.masked(step_index(batch) == 0).pool(Level.TRAJECTORY, "sum")
        length = batch.lengths(Level.TOKEN, Level.TURN) if baseline == "token" else scored.known
        size = length.to(torch.float64)
        total = batch.pool(size, Level.TURN, Level.TRAJECTORY, "sum")
        expected = _others(whole, total, per=baseline)
        part = ahead - expected.scaled(batch.scan(size, Level.TURN), Level.TURN)
        compared = batch.spread(expected.known, Level.TRAJECTORY, Level.TURN) & ahead.known
        return adv.rloo(signals["outcome"]).spread(Level.TURN) + part.masked(compared) * step_weight

    return Recipe(
        name="pure",
        observers=[outcome(reward, truncated=truncated), turn_column(score, name="score", how=_HOW)],
        assign_signals=assign,
        aggregation="token-mean",
        paper="2504.15275",
        needs=(f"trajectory column {reward!r}", f"turn column {score!r}"),
        parameters={
            "form": form,
            "temperature": temperature,
            "step_weight": step_weight,
            "baseline": baseline,
            "score": score,
            "reward": reward,
            "truncated": truncated,
        },
    )


def _others(whole: Signal, size: Tensor, *, per: Per) -> Signal:
    """What the other rollouts of the group got per token (turn); ABSENT without another one."""
    group, known = whole.batch.group, whole.known & (size > 0)
    whole = whole.masked(known)
    used = torch.where(known, size, 0.0)
    weight = used if per == "token" else known.to(used)
    count = used.new_zeros(whole.batch.size(Level.GROUP)).index_add(0, group, weight)
    rest = count[group] - weight
    alone = rest <= 0

    def move(values: Tensor) -> Tensor:
        value = values if per == "token" else values / torch.where(known, size, 1.0)
        total = value.new_zeros(count.shape).index_add(0, group, value)
        return torch.where(alone, 0.0, (total[group] - value) / torch.where(alone, 1.0, rest))

    return whole.linear(move).masked(~alone)
