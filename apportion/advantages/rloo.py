"""RLOO: the baseline of a rollout is the mean of the others."""

from __future__ import annotations

from apportion.advantages.group_stat import Singleton, group_stat
from apportion.signal import Signal

__all__ = ["rloo"]


def rloo(x: Signal, *, singleton: Singleton = "zero", constant_tol: float | None = None) -> Signal:
    """Reward minus the mean of the other rewards of its group.

        A_i = x_i - mean_{j != i} x_j = G / (G - 1) * (x_i - mean_g)

    Args:
        x: rewards, usually one per trajectory.
        singleton: what a group with one known reward gets; veRL's loop form returns the raw reward, its vectorised
            form 0.
        constant_tol: see `group_stat`.

    Returns:
        Advantages at x's level; constant groups exactly 0, missing rewards ABSENT. G counts known rewards only.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> [round(a, 4) for a in rloo(rewards_signal([1.0, 0.0, 0.0, 0.0])).values.tolist()]
        [1.0, -0.3333, -0.3333, -0.3333]

    Source: arXiv 2402.14740.
    """
    return group_stat(x, center="loo", scale="none", singleton=singleton, constant_tol=constant_tol)
