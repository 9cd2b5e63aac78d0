"""Whitening: centre and scale over the whole batch instead of the group."""

from __future__ import annotations

from typing import Literal

import torch

from apportion.advantages.group_stat import Unit, group_stat, group_statistics
from apportion.errors import InvalidArgument
from apportion.signal import Signal

__all__ = ["whiten", "whitening_skipped"]


def whiten(
    x: Signal,
    *,
    unit: Unit = "element",
    center: Literal["mean", "none"] = "mean",
    ddof: int = 1,
    eps: float = 0.0,
    variance_eps: float = 0.0,
    constant_tol: float | None = None,
) -> Signal:
    """Zero mean and unit variance over every known element of the batch.

        A_i = (x_i - mean) / (sqrt(var + variance_eps) + eps)

    Args:
        x: values at any level.
        unit: what counts once: an "element", or a "token" (each element weighs the policy tokens below it).
        center: "none" divides without subtracting the mean; for values that sum to 0 by construction.
        ddof: 1 = sample, 0 = population variance.
        eps: added to the standard deviation.
        variance_eps: added to the variance under the root; veRL's masked_whiten has 1e-8.
        constant_tol: see `group_stat`.

    Returns:
        A signal at x's level; exactly 0 when all known values are equal, unknown ones ABSENT. With fewer than two known
        elements there is nothing to whiten: x comes back as it is, and `whitening_skipped` says so.

    Raises:
        InvalidArgument: an unknown center, a ddof other than 0 or 1, or a negative epsilon.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> whiten(rewards_signal([1.0, 0.0], tokens=[1, 3]), unit="token").values.tolist()
        [1.5, -0.5]
        >>> whiten(rewards_signal([2.0, None])).values.tolist()
        [2.0, 0.0]
    """
    if ddof not in (0, 1):
        raise InvalidArgument("ddof", ddof, "0 (population) or 1 (sample)")
    if center not in ("mean", "none"):
        raise InvalidArgument("center", center, "mean or none")
    for name, value in (("eps", eps), ("variance_eps", variance_eps)):
        if not value >= 0:
            raise InvalidArgument(name, value, "a number >= 0")
    stats = group_statistics(x, key="batch", unit=unit, constant_tol=constant_tol)
    if whitening_skipped(x):
        return x.neutral()
    std = stats.std(ddof)
    live = ~stats.constant & (std > 0)
    divisor = torch.sqrt(torch.where(live, std, 1.0) ** 2 + variance_eps) + eps
    factor = torch.where(live, 1.0 / divisor, 0.0)
    if center == "mean":
        x = group_stat(x, key="batch", scale="none", unit=unit, constant_tol=constant_tol)
    return x.neutral().scaled(factor[stats.key], x.level)


def whitening_skipped(x: Signal) -> str:
    """Why `whiten` leaves a signal as it is, for the log; "" when it whitens.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> whitening_skipped(rewards_signal([2.0, None])), whitening_skipped(rewards_signal([2.0, 1.0]))
        ('one known element of 2, whitening needs two', '')
    """
    count = int(x.known.sum())
    if count > 1:
        return ""
    return f"{'one' if count else 'no'} known element of {x.known.numel()}, whitening needs two"
