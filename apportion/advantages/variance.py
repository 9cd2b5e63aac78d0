"""How much of the variance each part of a reward makes."""

from __future__ import annotations

import torch

from apportion.advantages.group_stat import group_statistics
from apportion.signal import Signal

__all__ = ["variance_shares"]


def variance_shares(x: Signal) -> dict[str, float] | None:
    """The share of every ledger term in the variance inside groups, which is all that group-relative credit sees.

        share_n = sum_g cov_g(term_n, x) / sum_g var_g(x)        the shares sum to 1

    Args:
        x: a sum of rewards, or the finished advantages; its known elements count.

    Returns:
        Term -> share. A term that is constant inside every group has exactly 0; one that works against the others is
        negative. None when x itself is constant inside every group (or nothing is known): no data, not 0.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> from apportion.rollouts import Level
        >>> letters = rewards_signal([0.25, 0.75], name="letters")
        >>> game = Signal.of(letters.batch, Level.TRAJECTORY, [0.0, 1.5], name="game")
        >>> variance_shares(letters + game)
        {'letters': 0.25, 'game': 0.75}
        >>> variance_shares(letters + 0 * game)
        {'letters': 1.0, 'game': 0.0}
        >>> print(variance_shares(0 * game))
        None
    """
    whole = group_statistics(x)
    live = ~whole.constant[whole.key] & (whole.weight > 0)
    total = float(whole.squares[~whole.constant].sum())
    if total == 0:
        return None
    away = x.values.detach() - whole.mean.detach()[whole.key]
    shares = {}
    for name, term in x.ledger().items():
        part = group_statistics(Signal.of(x.batch, x.level, term.detach(), name=name, known=x.known))
        moved = torch.where(live & ~part.constant[part.key], term.detach() - part.mean[part.key], 0.0)
        shares[name] = float((moved * away).sum()) / total
    return shares
