"""Pass@k, top-two form: only the best of a group is rewarded, by its lead over the second."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from apportion.advantages.group_stat import group_statistics
from apportion.advantages.order import at_rank
from apportion.errors import InvalidArgument
from apportion.signal import Signal

__all__ = ["pass_at_k_top"]


def pass_at_k_top(
    x: Signal,
    *,
    scale: Literal["std", "none"] = "std",
    ddof: int = 1,
    eps: float = 0.0,
    constant_tol: float | None = None,
) -> Signal:
    """The lead of the group's best over its second best; 0 for all others.

        A_best = (x_(1) - x_(2)) / (std_g + eps)        all 0 on a tie for the first place

    Args:
        x: rewards, usually one per trajectory.
        scale: "none" leaves the division out.
        ddof: 1 = sample, 0 = population standard deviation.
        eps: added to the standard deviation.
        constant_tol: see `group_stat`.

    Returns:
        Advantages at x's level; constant groups and singletons exactly 0, missing rewards ABSENT. Uncentred: a group
        sums to its lead.

    Raises:
        InvalidArgument: an unknown scale, a ddof other than 0 or 1, or a negative eps.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> [round(a, 4) for a in pass_at_k_top(rewards_signal([1.0, 0.6, 0.0])).values.tolist()]
        [0.7947, 0.0, 0.0]

    Source: arXiv 2503.19595, the case k = group size, as veRL's `grpo_passk` has it (which raises on a singleton).
    """
    if scale not in ("std", "none"):
        raise InvalidArgument("scale", scale, "std or none")
    if ddof not in (0, 1):
        raise InvalidArgument("ddof", ddof, "0 (population) or 1 (sample)")
    if not eps >= 0:
        raise InvalidArgument("eps", eps, "a number >= 0")
    stats = group_statistics(x, constant_tol=constant_tol)
    best = at_rank(x.values, stats.key, x.known, stats.count - 1)
    second = at_rank(x.values, stats.key, x.known, stats.count - 2)
    size = stats.std(ddof) if scale == "std" else torch.ones_like(stats.mean)
    live = ~stats.constant & (size > 0)
    factor = torch.where(live, 1.0 / torch.where(live, size + (eps if scale == "std" else 0.0), 1.0), 0.0)
    position = torch.arange(x.values.numel(), device=x.values.device)
    wins = position == best[stats.key]

    def move(values: Tensor) -> Tensor:
        return torch.where(wins, (values - values[second[stats.key]]) * factor[stats.key], 0.0)

    return x.linear(move).neutral()
