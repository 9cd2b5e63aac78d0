"""GPG: centred rewards, scaled up for the samples that carry no signal."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from apportion.advantages.group_stat import Singleton, group_stat, group_statistics
from apportion.errors import InvalidArgument
from apportion.signal import Signal

__all__ = ["GpgDialect", "gpg"]

GpgDialect: TypeAlias = Literal["paper", "verl"]


def gpg(
    x: Signal,
    *,
    dialect: GpgDialect = "paper",
    norm: float = 1.0,
    singleton: Singleton | None = None,
    constant_tol: float | None = None,
) -> Signal:
    """Centred rewards times alpha, the inverse share of samples that carry signal.

        A_i = alpha * (x_i - mean_g) / norm
        paper   alpha = B / (B - M)               M samples lie in groups without variance
        verl    alpha = B / max(1, #{x_i != 0})   counts non-zero rewards instead

    Args:
        x: rewards, usually one per trajectory; B counts the known ones.
        dialect: whose alpha.
        norm: the paper's F_norm.
        singleton: what a group with one known reward gets; default "zero", "raw" for veRL.
        constant_tol: see `group_stat`.

    Returns:
        Advantages at x's level; constant groups exactly 0 (all zeros when every group is), missing rewards ABSENT.

    Raises:
        InvalidArgument: an unknown dialect or a norm that is not positive.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> x = rewards_signal([1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0], groups=[0, 0, 0, 0, 1, 1, 1, 1])
        >>> gpg(x).values.tolist()
        [0.0, 0.0, 0.0, 0.0, 1.5, -0.5, -0.5, -0.5]

    Source: arXiv 2504.02546. No ratio, no clip, no KL in its loss.
    """
    if dialect not in get_args(GpgDialect):
        raise InvalidArgument("dialect", dialect, f"one of {', '.join(get_args(GpgDialect))}")
    if not norm > 0:
        raise InvalidArgument("norm", norm, "a positive number")
    policy: Singleton = singleton if singleton is not None else ("raw" if dialect == "verl" else "zero")
    centred = group_stat(x, scale="none", singleton=policy, constant_tol=constant_tol)
    stats = group_statistics(x, constant_tol=constant_tol)
    total = int(stats.count.sum())
    live = int((x.values != 0).sum()) if dialect == "verl" else int(stats.count[~stats.constant].sum())
    return centred * (total / max(live, 1) / norm)
