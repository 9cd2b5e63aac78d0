"""OPO: the variance-optimal baseline, a mean weighted by length."""

from __future__ import annotations

from apportion.advantages.group_stat import Singleton, group_stat
from apportion.signal import Signal

__all__ = ["opo"]


def opo(x: Signal, *, singleton: Singleton = "zero", constant_tol: float | None = None) -> Signal:
    """Reward minus the length-weighted mean of its group.

        A_i = x_i - sum_j n_j x_j / sum_j n_j

    Args:
        x: rewards, usually one per trajectory; n_j counts the policy tokens below each.
        singleton: what a group with one known reward gets.
        constant_tol: see `group_stat`.

    Returns:
        Advantages at x's level; constant groups (and groups without any policy token) exactly 0, missing ABSENT.

    Raises:
        InvalidArgument: text-only rollouts, which have no lengths.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> opo(rewards_signal([1.0, 0.0], tokens=[100, 300])).values.tolist()
        [0.75, -0.25]

    Source: arXiv 2505.23585; meant for strictly on-policy updates without KL or entropy terms.
    """
    return group_stat(x, scale="none", unit="token", singleton=singleton, constant_tol=constant_tol)
