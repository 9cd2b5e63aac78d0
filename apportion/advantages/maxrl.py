"""MaxRL: centred rewards divided by the mean, the gradient of a truncated log-likelihood."""

from __future__ import annotations

import torch

from apportion.advantages.group_stat import group_stat
from apportion.errors import InvalidArgument
from apportion.signal import Signal

__all__ = ["maxrl"]


def maxrl(x: Signal, *, constant_tol: float | None = None) -> Signal:
    """Reward relative to its group's mean.

        A_i = (x_i - mean_g) / mean_g        0 where mean_g = 0

    Args:
        x: rewards >= 0, usually one success per trajectory; a rare success weighs about 1 / success rate.
        constant_tol: see `group_stat`.

    Returns:
        Advantages at x's level; constant groups and singletons exactly 0, missing rewards ABSENT.

    Raises:
        InvalidArgument: a negative reward; positions are listed.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> maxrl(rewards_signal([1.0, 0.0, 0.0, 0.0])).values.tolist()
        [3.0, -1.0, -1.0, -1.0]

    Source: arXiv 2602.02710.
    """
    negative = torch.nonzero(x.known & (x.values < 0)).flatten()
    if negative.numel():
        where = negative[:10].tolist()
        raise InvalidArgument("x", x.values[negative[:10]].tolist(), f"rewards >= 0; elements {where} are negative")
    return group_stat(x, scale="mean", constant_tol=constant_tol)
