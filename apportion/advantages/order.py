"""Order statistics inside groups: which element is the median, the best, the second best. No loop over groups."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["at_rank", "lower_median"]


def at_rank(values: Tensor, key: Tensor, known: Tensor, rank: Tensor) -> Tensor:
    """int64[g]: the element that holds the given rank among the known elements of its group.

    Args:
        values: float64[n].
        key: int64[n] the group of every element, numbers 0..g-1.
        known: bool[n]; unknown elements rank after all known ones.
        rank: int64[g] 0 = the smallest. Equal values keep their order in the batch.

    Returns:
        Positions; any element of the group (or of the batch, for an empty group) where the rank does not exist. All 0
        for a batch without elements.

    Example:
        >>> key = torch.tensor([0, 1, 0, 0])
        >>> at_rank(torch.tensor([3.0, 5.0, 1.0, 2.0]), key, torch.ones(4) > 0, torch.tensor([1, 0])).tolist()
        [3, 1]
    """
    if not values.numel():
        return torch.zeros_like(rank)
    order = torch.argsort(torch.where(known, values.detach(), torch.inf), stable=True)
    order = order[torch.argsort(key[order], stable=True)]
    size = torch.bincount(key, minlength=rank.numel())
    first = torch.cumsum(size, 0) - size
    reach = rank.clamp_min(0).minimum((size - 1).clamp_min(0))
    return order[(first + reach).clamp_max(order.numel() - 1)]


def lower_median(values: Tensor, key: Tensor, known: Tensor, count: Tensor) -> Tensor:
    """int64[g]: the element that is the lower median of the known ones of its group.

    Args:
        values: float64[n].
        key: int64[n] the group of every element.
        known: bool[n].
        count: int64[g] known elements of every group.

    Example:
        >>> values, key = torch.tensor([4.0, 1.0, 3.0, 2.0]), torch.zeros(4, dtype=torch.int64)
        >>> lower_median(values, key, torch.ones(4) > 0, torch.tensor([4])).tolist()
        [3]
    """
    return at_rank(values, key, known, (count - 1).clamp_min(0) // 2)
