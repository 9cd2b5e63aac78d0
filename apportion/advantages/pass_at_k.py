"""Pass@k: reward the group for what its best of k attempts would earn, in closed form for binary rewards."""

from __future__ import annotations

import torch

from apportion.advantages.group_stat import group_stat, group_statistics
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["pass_at_k"]


def pass_at_k(x: Signal, *, k: int) -> Signal:
    """Analytic pass@k advantages of binary rewards.

        rho = 1 - C(N-c, k) / C(N, k)        sigma = sqrt(rho (1 - rho))        c successes of N
        A+  = (1 - rho) / sigma              A- = (1 - rho - C(N-c-1, k-1) / C(N-1, k-1)) / sigma

    Both are one line: A_i = (x_i - mean_g) * C(N-c-1, k-1) / C(N-1, k-1) / sigma, so a group sums to 0.

    Args:
        x: rewards 0 or 1, one per trajectory.
        k: attempts of which the best counts; k=1 is GRPO with the population standard deviation.

    Returns:
        Advantages at x's level; exactly 0 where sigma = 0 (no success, or so many that k attempts always hold one)
        and in groups with fewer than k known rewards; missing rewards ABSENT.

    Raises:
        InvalidArgument: k < 1, or a reward that is neither 0 nor 1 (positions are listed).

    Example:
        >>> from apportion.quick import rewards_signal
        >>> [round(a, 4) for a in pass_at_k(rewards_signal([1.0, 0.0, 0.0, 0.0]), k=2).values.tolist()]
        [1.0, -0.3333, -0.3333, -0.3333]

    Source: arXiv 2508.10751 (Pass@k Training). The single line is our algebra; tests compare it with the table.
    """
    if k < 1:
        raise InvalidArgument("k", k, "a whole number of attempts, at least 1")
    other = torch.nonzero(x.known & (x.values != 0) & (x.values != 1)).flatten()
    if other.numel():
        raise InvalidArgument("x", x.values[other[:10]].tolist(), f"0 or 1; elements {other[:10].tolist()} are neither")
    stats = group_statistics(x)
    n = stats.mass
    failures = (n - (stats.mean * n).round()).detach()
    # More draws than the largest group holds give 0 everywhere, however many more.
    draws = min(k, int(stats.count.max()) + 1) if n.numel() else 1
    draw = torch.arange(draws, dtype=torch.float64, device=n.device)

    def none_of(bad: torch.Tensor, all_: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        # C(bad, k) / C(all, k) as a product: no factorial overflows, and 0 exactly when bad < k, so also when all < k.
        return ((bad[:, None] - draws).clamp_min(0) / (all_[:, None] - draws).clamp_min(1)).prod(1)

    miss = none_of(failures, n, draw)
    sigma = torch.sqrt(miss * (1 - miss))
    usable = sigma > 0
    gain = torch.where(usable, none_of(failures - 1, n - 1, draw[:-1]) / torch.where(usable, sigma, 1.0), 0.0)
    return group_stat(x, scale="none").scaled(gain, Level.GROUP)
