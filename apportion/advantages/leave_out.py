"""The spread of a group without one of its elements, to full precision."""

from __future__ import annotations

import torch
from torch import Tensor

from apportion import segments
from apportion.advantages.order import lower_median

__all__ = ["squares_without"]


def squares_without(values: Tensor, weight: Tensor, key: Tensor, n_groups: int) -> Tensor:
    """For every element, the squared deviations of the *others* of its group from the others' mean.

        Q_i = sum_{j != i} w_j (x_j - m_i)^2        m_i = sum_{j != i} w_j x_j / sum_{j != i} w_j

    Taking an element's share out of the whole group's sum would leave the rounding error of that sum, and a division
    by it turns 7 x 0.35 and one 0.40 into an advantage of hundreds. Here the others are added up from both sides, as
    distances from the group's median, so equal others give exactly 0.

    Args:
        values: float64[n].
        weight: float64[n] how often an element counts; 0 = it does not.
        key: int64[n] the group of every element, numbers 0..n_groups-1.
        n_groups: number of groups.

    Returns:
        float64[n], never negative; 0 where fewer than two others count.

    Example:
        >>> values, key = torch.tensor([8.75, 7.75, 7.75], dtype=torch.float64), torch.zeros(3, dtype=torch.int64)
        >>> squares_without(values, torch.ones_like(values), key, 1).tolist()
        [0.0, 0.5, 0.5]
    """
    counts = weight > 0
    middle = lower_median(values, key, counts, torch.bincount(key[counts], minlength=n_groups))
    far = torch.where(counts, values - values.detach()[middle[key]], 0.0)
    order = torch.argsort(key, stable=True)
    lengths = torch.bincount(key, minlength=n_groups)

    def others(x: Tensor) -> Tensor:
        ahead = _after(x[order], lengths) + _after(x[order].flip(0), lengths.flip(0)).flip(0)
        return torch.empty_like(x).index_copy(0, order, ahead)

    mass, first, second = others(weight), others(weight * far), others(weight * far**2)
    some = mass > 0
    return torch.where(some, second - first**2 / torch.where(some, mass, 1.0), 0.0).clamp_min(0.0)


def _after(x: Tensor, lengths: Tensor) -> Tensor:
    """The sum of what follows an element in its segment, itself left out."""
    upto = segments.reverse_scan(x, lengths)
    last = torch.zeros_like(x, dtype=torch.bool)
    last[(torch.cumsum(lengths, 0) - 1)[lengths > 0]] = True
    return torch.where(last, 0.0, torch.cat((upto[1:], upto[:1])))
