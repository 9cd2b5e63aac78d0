"""GDPO: every reward normalised on its own before they are added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from apportion.advantages.combine import normalize_then_sum
from apportion.advantages.dialect import Dialect
from apportion.advantages.dialect import dialect as named
from apportion.advantages.whiten import whiten
from apportion.errors import InvalidArgument
from apportion.signal import Signal

__all__ = ["FinalStep", "gdpo"]

FinalStep: TypeAlias = Literal["sample", "token", "none"]


def gdpo(
    rewards: Sequence[Signal],
    *,
    weights: Sequence[float] | None = None,
    final: FinalStep = "sample",
    dialect: str | Dialect = "apportion",
    variance_eps: float = 0.0,
    constant_tol: float | None = None,
) -> Signal:
    """Group-normalise each reward, add them with weights, normalise the sum over the batch.

        z_{i,n} = (r_{i,n} - mean_g) / (std_g + eps)
        y_i     = sum_n w_n z_{i,n}
        A_i     = (y_i - mean_batch) / (std_batch + eps)

    Args:
        rewards: one signal per reward, usually per trajectory, of one batch. Weights act after the first step, so
            scaling a raw reward changes nothing.
        weights: one per reward; default 1 each.
        final: the last step over "sample" (the reference, TRL), weighted by policy "token" (veRL), or "none".
        dialect: whose first step, and whose eps in the last "sample" step; "trl" is the reference code's 1e-4 too.
        variance_eps: under the root of the last step; 1e-8 with final="token" and dialect="verl" is veRL.
        constant_tol: see `group_stat`.

    Returns:
        Advantages at the rewards' finest level. A missing reward leaves the statistics of the first step and adds 0 to
        the sum; an element without any known reward is ABSENT. A reward that is constant in a group adds exactly 0
        there; an element dead in every reward is exactly 0 after the "sample" step too (not after "token").

    Raises:
        InvalidArgument: no rewards, another number of weights, or an unknown final step.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> from apportion.rollouts import Level
        >>> a = rewards_signal([0.0, 1.0], name="correct")
        >>> b = Signal.of(a.batch, Level.TRAJECTORY, [0.0, 1.0], name="format")
        >>> [round(v, 4) for v in gdpo([a, b], final="none").values.tolist()]
        [-1.4142, 1.4142]

    Source: arXiv 2601.05242; the reference code replaces a NaN reward by 0, here it is missing.
    """
    if final not in get_args(FinalStep):
        raise InvalidArgument("final", final, f"one of {', '.join(get_args(FinalStep))}")
    d = named(dialect)
    total = normalize_then_sum(rewards, weights=weights, dialect=d, constant_tol=constant_tol)
    if final == "none":
        return total
    if final == "token":
        return whiten(total, unit="token", variance_eps=variance_eps, constant_tol=constant_tol)
    # Unless raw singletons are in it every group sums to 0, hence so does the batch: subtracting the rounding error of
    # its mean would only move dead groups off 0.
    center: Literal["mean", "none"] = "mean" if d.singleton == "raw" else "none"
    return whiten(total, center=center, eps=d.eps, variance_eps=variance_eps, constant_tol=constant_tol)
