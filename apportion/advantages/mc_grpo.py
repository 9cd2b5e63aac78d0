"""MC-GRPO: centred at the median, whose rollout leaves the loss."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch

from apportion.advantages.group_stat import group_stat, group_statistics
from apportion.advantages.order import lower_median
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["MedianScale", "mc_grpo"]

MedianScale: TypeAlias = Literal["mad", "std", "none"]


def mc_grpo(
    x: Signal,
    *,
    scale: MedianScale = "mad",
    eps: float = 0.0,
    mad_floor: float = 0.1,
    rescale: Literal["none", "released"] = "none",
    constant_tol: float | None = None,
) -> Signal:
    """Median-centred advantages; the median rollout, exactly one per group, is dropped from the loss.

        A_i = (x_i - median_g) / (scale_g + eps)        the pivot is ABSENT: no gradient, in no denominator
        mad      median |x - median|, or the sample standard deviation where the mad is below mad_floor of it
        std      the sample standard deviation
        none     1

    Args:
        x: one reward per trajectory; sample one rollout more than you want to train on.
        scale: the divisor above.
        eps: added to it; the released code has 1e-3.
        mad_floor: share of the standard deviation under which a mad is not trusted. Binary rewards often have a mad of
            0, and the released code then divides by eps alone: (1, 0, 0) becomes 3000.
        rescale: "released" multiplies a group by (known rewards / non-zero advantages), as the released code does.
        constant_tol: see `group_stat`.

    Returns:
        Advantages per trajectory; constant groups exactly 0, the pivot and missing rewards ABSENT. For an even number
        of rewards the pivot is the lower median; of several rewards equal to it one is dropped.

    Raises:
        InvalidArgument: x not per trajectory, an unknown name, or a negative number.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> a = mc_grpo(rewards_signal([0.2, 0.5, 1.0]), eps=1e-3, rescale="released")
        >>> [round(v, 3) for v in a.values.tolist()], a.known.tolist()
        ([-1.495, 0.0, 2.492], [True, False, True])

    Source: arXiv 2601.22582; scale and rescale are from the released code, the floor is ours.
    """
    if x.level != Level.TRAJECTORY:
        raise InvalidArgument("x", x.level.name, "one reward per trajectory (level TRAJECTORY)")
    if scale not in get_args(MedianScale):
        raise InvalidArgument("scale", scale, f"one of {', '.join(get_args(MedianScale))}")
    if rescale not in ("none", "released"):
        raise InvalidArgument("rescale", rescale, "none or released")
    for name, value in (("eps", eps), ("mad_floor", mad_floor)):
        if not value >= 0:
            raise InvalidArgument(name, value, "a number >= 0")
    stats = group_statistics(x, constant_tol=constant_tol)
    centred = group_stat(x, center="median", scale="none", constant_tol=constant_tol)
    if scale != "none":
        size = stats.std(1)
        if scale == "mad":
            far = centred.values.abs()
            mad = far[lower_median(far, stats.key, x.known, stats.count)]
            size = torch.where(mad > mad_floor * size, mad, size)
        live = ~stats.constant & (size > 0)
        factor = torch.where(live, 1.0 / torch.where(live, size + eps, 1.0), 0.0)
        centred = centred.scaled(factor, Level.GROUP)
    if rescale == "released":
        moving = torch.bincount(stats.key[centred.values != 0], minlength=stats.count.numel()).clamp_min(1)
        centred = centred.scaled(stats.count.to(torch.float64) / moving, Level.GROUP)
    pivot = lower_median(x.values, stats.key, x.known, stats.count)
    position = torch.arange(x.values.numel(), device=x.values.device)
    return centred.masked(position != pivot[stats.key])
