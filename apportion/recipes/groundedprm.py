"""GroundedPRM: a tool verifies every step, and the outcome joins its verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import torch

from apportion.advantages.group_stat import group_stat
from apportion.advantages.place import wrote
from apportion.advantages.return_to_go import return_to_go
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.columns import turn_column
from apportion.rewards import Truncated, outcome
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["groundedprm", "simulated_value"]

_HOW = "let a tool verify every step, +1 where it holds and -1 where it does not, or name another column"

Form: TypeAlias = Literal["steps", "value"]


def groundedprm(
    *,
    form: Form = "steps",
    step_weight: float = 1.0,
    outcome_weight: float = 1.0,
    eps: float = 1e-6,
    verdict: str = "step_verdict",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """Verified steps as rewards beside the outcome, or as the value of the path from each step on.

        steps   A_k = outcome_weight * z_g(F) + sum_{j >= k} step_weight * z_g(v)_j      z of v over the turns of g
        value   A_k = z_g(U_k),   U_k = (1/N) sum_{j < N} v_{k+j} (N - j) / N + outcome_weight * F / max(N, 1)
                N = K - k steps lie between turn k and the last one, in whose place F stands;  F = 2 R - 1

    Args:
        form: above. U is a return: it looks ahead, so it is compared with other turns' and never differenced.
        step_weight: w_s, of the verdicts.
        outcome_weight: w_o. The code divides F by N too, so that longer paths weigh it less.
        eps: added to the standard deviation (n - 1).
        verdict: turn column with a tool's verdict v on the step: +1 or -1.
        reward: trajectory column with the outcome R in [0, 1].
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: equal verdicts leave GRPO ("steps"). A step that nobody could verify counts as 0, halfway between
    good and bad, in U, and leaves the pool in "steps". An unknown outcome leaves "value" as a whole; in "steps" the
    turns keep their verdicts' part.

    Raises:
        InvalidArgument: an unknown form, or weights that are not finite.
        MissingInput: when observing, no turn has a verdict.

    Source: arXiv 2510.14942 and its code give U, for a tree search that labels data. Its use as credit is ours.
    """
    if form not in get_args(Form):
        raise InvalidArgument("form", form, f"one of {', '.join(get_args(Form))}")
    for name, weight in (("step_weight", step_weight), ("outcome_weight", outcome_weight)):
        if not math.isfinite(weight):
            raise InvalidArgument(name, weight, "a finite number")

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        # A turn in which the policy wrote nothing is no step of its.
        solved, verified = signals["outcome"], signals["verdict"].masked(wrote(batch))
        if form == "steps":
            steps = return_to_go(group_stat(verified, ddof=1, eps=eps)) * step_weight
            return group_stat(solved, ddof=1, eps=eps).spread(Level.TURN) * outcome_weight + steps
        return group_stat(_path_value(solved, verified, step_weight, outcome_weight), ddof=1, eps=eps)

    return Recipe(
        name="groundedprm",
        observers=[outcome(reward, truncated=truncated), turn_column(verdict, name="verdict", how=_HOW)],
        assign_signals=assign,
        aggregation="seq-mean-token-mean",
        paper="2510.14942",
        needs=(f"trajectory column {reward!r}", f"turn column {verdict!r}"),
        reconstruction="the use of step verdicts as credit: the paper labels data with them",
        parameters={
            "form": form,
            "step_weight": step_weight,
            "outcome_weight": outcome_weight,
            "eps": eps,
            "verdict": verdict,
            "reward": reward,
            "truncated": truncated,
        },
    )


def _path_value(solved: Signal, verified: Signal, step_weight: float, outcome_weight: float) -> Signal:
    """U of the path from every turn on."""
    batch = solved.batch
    between = (batch.scan(wrote(batch).to(torch.float64), Level.TURN) - 1.0).clamp_min(0.0)
    # Seen from any turn before it, step j has weight N - j = steps between it and the last turn: one scan does all.
    ahead = return_to_go(verified.neutral().scaled(between, Level.TURN))
    one = Signal.of(batch, Level.TRAJECTORY, [1.0] * len(batch), name="outcome")
    final = (solved * 2.0 - one).masked(solved.known).spread(Level.TURN)
    steps = ahead.scaled(step_weight / between.clamp_min(1.0) ** 2, Level.TURN)
    both = final.scaled(outcome_weight / between.clamp_min(1.0), Level.TURN) + steps
    return both.masked(final.known)


def simulated_value(verdicts: list[float], outcome: float, *, outcome_weight: float = 1.0) -> float:
    """The value that one simulated path gives to the node it starts from.

        U = (1/N) sum_{j < N} v_j (N - j) / N + outcome_weight * F / N        N = 0: outcome_weight * F

    An ancestor at distance d receives 0.9^d U.

    Args:
        verdicts: v of the intermediate steps, +1 or -1.
        outcome: F, +1 or -1; it stands in the place of the last step.
        outcome_weight: 1 in the code.

    Example:
        >>> simulated_value([1.0, -1.0], 1.0), round(0.9 * simulated_value([1.0, -1.0], 1.0), 3)
        (0.75, 0.675)
    """
    n = len(verdicts)
    steps = sum(v * (n - j) for j, v in enumerate(verdicts)) / max(n, 1) ** 2
    return steps + outcome_weight * outcome / max(n, 1)
