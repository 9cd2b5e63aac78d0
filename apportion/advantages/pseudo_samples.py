"""Pseudo-samples: a group in which every rollout succeeds is compared with failures that nobody sampled."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from apportion.advantages.group_stat import group_stat, group_statistics
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["pseudo_samples"]


def pseudo_samples(
    x: Signal,
    *,
    count: int | Tensor = 4,
    success: float = 1.0,
    scale: Literal["std", "none"] = "std",
    ddof: int = 1,
    eps: float = 0.0,
    constant_tol: float | None = None,
) -> Signal:
    """GRPO in which saturated groups count z more rollouts of reward 0 in their mean and standard deviation.

        A_i = (x_i - m) / (s + eps)      m, s over the known rewards and, where all of them are >= success, z zeros

    Args:
        x: one reward per trajectory, 0 for a failure.
        count: z, or [g] one z per group (the paper also draws it from 1 to 7; draw before, assigning is not random).
        success: a group is saturated when its lowest known reward reaches this.
        scale: s above, or 1.
        ddof: 1 = sample, 0 = population standard deviation.
        eps: added to it.
        constant_tol: see `group_stat`.

    Returns:
        Advantages per trajectory. Saturated groups of equal rewards are pushed up as a whole: for 8 rewards of 1 and
        z = 4 each gets .6770. All other groups get plain GRPO. A lone success stays exactly 0: pseudo-samples make no
        group larger. Missing rewards are ABSENT.

    Raises:
        InvalidArgument: x not per trajectory, a success that is not above 0, an unknown scale, or a count below 0.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> x = rewards_signal([1.0] * 8 + [1.0, 0.0], groups=["a"] * 8 + ["b"] * 2)
        >>> [round(v, 4) for v in pseudo_samples(x).values.tolist()[6:]]
        [0.677, 0.677, 0.7071, -0.7071]

    Source: arXiv 2609.33126, of which the abstract and the repository's description were read. That a group of graded
    rewards above `success` counts as saturated too is a reconstruction.
    """
    if x.level != Level.TRAJECTORY:
        raise InvalidArgument("x", x.level.name, "one reward per trajectory (level TRAJECTORY)")
    if not success > 0:
        raise InvalidArgument("success", success, "a number > 0, since a pseudo-sample is a failure of reward 0")
    if scale not in ("std", "none"):
        raise InvalidArgument("scale", scale, "std or none")
    stats = group_statistics(x, constant_tol=constant_tol)
    number = torch.as_tensor(count, dtype=torch.float64, device=x.values.device)
    if number.shape not in ((), stats.mass.shape) or not bool((number >= 0).all()):
        raise InvalidArgument("count", count, f"a number >= 0, or a tensor of {stats.mass.numel()}, one per group")
    virtual = torch.where(stats.low >= success - stats.tolerance, number, 0.0)
    return group_stat(x, scale=scale, ddof=ddof, eps=eps, virtual=virtual, constant_tol=constant_tol)
