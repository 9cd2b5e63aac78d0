"""Dr.GRPO: centred rewards, never divided by a standard deviation."""

from __future__ import annotations

from apportion.advantages.group_stat import Singleton, group_stat
from apportion.signal import Signal

__all__ = ["dr_grpo"]


def dr_grpo(x: Signal, *, singleton: Singleton = "zero", constant_tol: float | None = None) -> Signal:
    """Reward minus the mean of its group.

        A_i = x_i - mean_g

    Args:
        x: rewards, usually one per trajectory.
        singleton: what a group with one known reward gets.
        constant_tol: see `group_stat`.

    Returns:
        Advantages at x's level; constant groups exactly 0, missing rewards ABSENT.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> dr_grpo(rewards_signal([1.0, 0.0, 0.0, 0.0])).values.tolist()
        [0.75, -0.25, -0.25, -0.25]

    Source: arXiv 2503.20783. Only half of the method: the loss must also divide by a constant length
    (`seq-mean-token-sum-norm`), otherwise the length bias that the paper removes stays.
    """
    return group_stat(x, scale="none", singleton=singleton, constant_tol=constant_tol)
