"""Kernels over ragged data: one flat tensor and the length of every segment. No loop over segments or elements.

values   a b c | d | e f        lengths = [3, 1, 2]
owners   0 0 0   1   2 2
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apportion.errors import InvalidArgument
from apportion.scans import reverse_scan, window_sum

__all__ = [
    "PoolHow",
    "cells",
    "checked_codes",
    "checked_door",
    "checked_labels",
    "checked_lengths",
    "checked_names",
    "checked_numbers",
    "checked_positions",
    "checked_rising",
    "gather_segments",
    "kept",
    "owners",
    "pool",
    "reverse_scan",
    "runs",
    "shifted",
    "starts",
    "window_sum",
]

PoolHow: TypeAlias = Literal["sum", "mean", "last", "min", "max"]
Kept = TypeVar("Kept")


def cells(row: Tensor, offsets: Tensor, width: int) -> Tensor:
    """int64[N]: places in a flattened [B, width] tensor, or `InvalidArgument` when the rows are too short for them.

    Example:
        >>> cells(torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1]), 3).tolist()
        [2, 3, 4]
    """
    if offsets.numel() and (least := int(offsets.max()) + 1) > width:
        raise InvalidArgument("width", width, f"at least {least}, up to the last policy token")
    return row * width + offsets


def kept(store: dict[str, Any], key: str, make: Callable[[], Kept]) -> Kept:
    """What stands under a key; made once."""
    if key not in store:
        store[key] = make()
    found: Kept = store[key]
    return found


def owners(lengths: Tensor) -> Tensor:
    """int64[N]: the segment of every element.

    Example:
        >>> owners(torch.tensor([3, 0, 2])).tolist()
        [0, 0, 0, 2, 2]
    """
    return torch.repeat_interleave(lengths)


def starts(lengths: Tensor) -> Tensor:
    """int64[S]: the index of the first element of every segment.

    Example:
        >>> starts(torch.tensor([3, 0, 2])).tolist()
        [0, 3, 3]
    """
    return torch.cumsum(lengths, 0) - lengths


def pool(values: Tensor, lengths: Tensor, how: PoolHow) -> Tensor:
    """One value per segment. The sum and mean of an empty segment are 0; min, max and last of one are 0 as well.

    Example:
        >>> pool(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([2, 0, 1]), "mean").tolist()
        [1.5, 0.0, 6.0]
    """
    if how == "last":
        ends = torch.cumsum(lengths, 0) - 1
        if not values.numel():
            return values.new_zeros(lengths.shape)
        return torch.where(lengths > 0, values[ends.clamp_min(0)], 0)
    if not values.is_floating_point():
        return pool(values.double(), lengths, how).to(values.dtype)
    if how in ("sum", "mean"):
        total: Tensor = torch.segment_reduce(values, "sum", lengths=lengths, unsafe=True, initial=0)
        return total if how == "sum" else total / lengths.clamp_min(1)
    reduced: Tensor = torch.segment_reduce(
        values, how, lengths=lengths, unsafe=True, initial=0 if not values.numel() else None
    )
    return torch.where(lengths > 0, reduced, 0)


def gather_segments(lengths: Tensor, index: Tensor) -> Tensor:
    """Element positions of the chosen segments, in the order chosen.

    Example:
        >>> gather_segments(torch.tensor([3, 1, 2]), torch.tensor([2, 0])).tolist()
        [4, 5, 0, 1, 2]
    """
    chosen = lengths[index]
    base = starts(lengths)[index] - starts(chosen)
    return torch.repeat_interleave(base, chosen) + torch.arange(int(chosen.sum()), device=lengths.device)


def shifted(values: Tensor, lengths: Tensor, edge: Tensor, *, take: Literal["previous", "next"]) -> Tensor:
    """Every element replaced by its neighbour in the segment; the one without a neighbour gets the segment's edge.

    Args:
        values: [N].
        lengths: int64[S], their sum is N.
        edge: [S].
        take: the "previous" neighbour (the edge comes first) or the "next" one (the edge comes last).

    Example:
        >>> shifted(torch.tensor([1, 2, 3]), torch.tensor([2, 0, 1]), torch.tensor([7, 8, 9]), take="previous").tolist()
        [7, 1, 9]
    """
    some = lengths > 0
    if take == "previous":
        at, moved = starts(lengths)[some], torch.cat((values[:1], values[:-1]))
    else:
        at, moved = (torch.cumsum(lengths, 0) - 1)[some], torch.cat((values[1:], values[-1:]))
    return moved.index_put((at,), edge[some])


def runs(mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Lengths of the runs of True in every row of a padded mask.

    Returns:
        int64[B] runs per row, int64[K] length of each run, int64[B] False before the first run (the whole width where a
        row has none), int64[K] False after each run.

    Example:
        >>> [r.tolist() for r in runs(torch.tensor([[0, 1, 1, 0, 1], [0, 0, 0, 0, 0]]) != 0)]
        [[2, 0], [2, 1], [1, 5], [1, 0]]
    """
    size, width = mask.shape
    edge = torch.zeros(size, 1, dtype=torch.int8, device=mask.device)
    change = torch.diff(mask.to(torch.int8), dim=1, prepend=edge, append=edge)
    row, start = torch.nonzero(change == 1, as_tuple=True)
    stop = torch.nonzero(change == -1, as_tuple=True)[1]
    count = torch.bincount(row, minlength=size)
    some = count > 0
    follows = torch.cat((start[1:], start.new_full((1,), width)))[: start.numel()]
    follows[(torch.cumsum(count, 0) - 1)[some]] = width
    lead = torch.full((size,), width, dtype=torch.int64, device=mask.device)
    lead[some] = start[starts(count)[some]]
    return count, stop - start, lead, follows - stop


def checked_labels(name: str, value: Sequence[object]) -> list[str]:
    """Group ids as text, at least one, or `InvalidArgument` that lists the positions of None and NaN.

    Read as text those would make one group of everything whose id got lost.

    Example:
        >>> checked_labels("groups", ["q7", 7])
        ['q7', '7']
    """
    if not len(value):
        raise InvalidArgument(name, value, "at least one trajectory")
    # A tensor is printed with four digits: read as text, two ids that differ in the fifth would be one group.
    plain = [one.item() if isinstance(one, (Tensor, np.generic)) and one.ndim == 0 else one for one in value]
    lost = [i for i, one in enumerate(plain) if one is None or (isinstance(one, float) and math.isnan(one))]
    if lost:
        raise InvalidArgument(name, lost[:10], "an id at every position; None or NaN stands at these")
    return [str(one) for one in plain]


def checked_names(name: str, value: Iterable[str], size: int) -> tuple[str, ...]:
    """So many different names, or `InvalidArgument` that lists those given twice."""
    names = tuple(value)
    if len(names) != size or len(set(names)) != size:
        twice = [one for one, times in Counter(names).items() if times > 1][:10]
        raise InvalidArgument(name, twice or len(names), f"{size} different ids, one per trajectory")
    return names


def checked_codes(name: str, value: Sequence[str], names: Sequence[str]) -> list[int]:
    """The number of every name, or `InvalidArgument` that lists the unknown ones."""
    number = {one: i for i, one in enumerate(names)}
    unknown = sorted({str(one) for one in value if one not in number})
    if unknown:
        raise InvalidArgument(name, unknown[:10], f"one of {', '.join(names)} each")
    return [number[one] for one in value]


def checked_lengths(name: str, value: Tensor | Sequence[int], size: int) -> Tensor:
    """int64[size] from what a caller gave as lengths, or `InvalidArgument` naming it."""
    given = torch.as_tensor(value)
    if given.ndim != 1 or given.numel() != size:
        raise InvalidArgument(name, tuple(given.shape), f"a flat list of {size} lengths")
    if given.numel() and (given.is_floating_point() or int(given.min()) < 0):
        raise InvalidArgument(name, given.tolist()[:20], "whole numbers that are not negative")
    return given.to(torch.int64)


def checked_numbers(name: str, value: Sequence[float | None] | npt.ArrayLike | Tensor) -> Tensor:
    """A tensor of what a caller gave as numbers, None as NaN, or `InvalidArgument` naming it; a tensor stays itself.

    Example:
        >>> checked_numbers("rewards", [[1, None], [0, 2]])
        tensor([[1., nan],
                [0., 2.]], dtype=torch.float64)
    """
    if isinstance(value, Tensor):
        return value
    try:
        array = np.asarray(value)
        # None makes an array of objects; as numbers it is NaN.
        return torch.as_tensor(array.astype(np.float64) if array.dtype == object else array)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(name, value, "numbers or None, in rows of equal length") from None


def checked_door(dtype: torch.dtype) -> torch.dtype:
    """The type that advantages leave in: whole numbers would turn 0.7 into a quiet 0."""
    if not dtype.is_floating_point:
        raise InvalidArgument("dtype", str(dtype), "a floating-point type")
    return dtype


def checked_rising(name: str, value: Tensor, owner: Tensor) -> Tensor:
    """int64[N] offsets that rise inside every segment, from 0, or `InvalidArgument` that lists those that do not.

    A token that stood before its neighbour would be padded onto the place of another one.
    """
    wrong = value < 0
    wrong[1:] |= (owner[1:] == owner[:-1]) & (value[1:] <= value[:-1])
    if bool(wrong.any()):
        where = torch.nonzero(wrong).flatten()[:10].tolist()
        raise InvalidArgument(name, where, "offsets that rise inside a trajectory, from 0; these do not")
    return value


def checked_positions(name: str, value: Tensor | Sequence[int], size: int) -> Tensor:
    """int64[n] different positions in [0, size), or `InvalidArgument` naming them; a mask is refused too."""
    given = torch.as_tensor(value)
    if given.dtype == torch.bool or given.ndim != 1 or (given.numel() and given.is_floating_point()):
        raise InvalidArgument(name, value, "positions; for a mask, torch.nonzero(mask).flatten()")
    positions = given.to(torch.int64)
    inside = bool(((positions >= 0) & (positions < size)).all())
    if not inside or int(torch.unique(positions).numel()) < positions.numel():
        raise InvalidArgument(name, positions.tolist()[:20], f"different positions in [0, {size})")
    return positions
