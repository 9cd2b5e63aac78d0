"""Scans of ragged segments from their ends, in rows of equal width cut straight through the segments.

    values     a a a b | b b b b | b b c c       three rows of width 4; segments a, b, c begin where they do
    in rows    every row times one triangular matrix; the few rows that hold a border are done piece by piece
    heads      the scan at the first element of every row, scanned over the rows of a segment by the same method
    carry      the head of the next row joins the last element of a row whose segment goes on

Nothing is laid out anew, so the cost is that of a few passes over the memory; and what lies beyond a border is never
multiplied, not even by 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

__all__ = ["Plan", "plan", "reverse_scan", "scan", "window_sum"]

_WIDEST, _NARROWEST = 32, 8
# Below this many elements log2(longest) passes take less time than the planning of rows.
_FEW = 1 << 15
# Rows of one product, whose result stays in the cache.
_AT_ONCE = 1 << 13


def reverse_scan(values: Tensor, lengths: Tensor | Plan, discount: float | Tensor = 1.0) -> Tensor:
    """Discounted sum from every element to the end of its segment.

        y[i] = x[i] + discount * y[i+1]        y[last] = x[last]

    Args:
        values: float[N].
        lengths: int64[S], their sum is N; or the `plan` of them, made once for many scans.
        discount: one number, or float[S] with one per segment.

    Returns:
        float[N]. No value crosses the border of a segment, not even as rounding. Differentiable in values.

    Example:
        >>> reverse_scan(torch.tensor([1.0, 1.0, 1.0, 5.0]), torch.tensor([3, 1]), 0.5).tolist()
        [1.75, 1.5, 1.0, 5.0]
    """
    if not values.numel():
        return values
    scanned: Tensor = _ReverseScan.apply(values, lengths, discount)  # type: ignore[no-untyped-call]
    return scanned


class _ReverseScan(torch.autograd.Function):
    """What an element adds to those before it, a gradient adds to those after it: the scan the other way round."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, lengths: Tensor | Plan, discount: float | Tensor) -> Tensor:
        ctx.lengths = lengths.lengths if isinstance(lengths, Plan) else lengths
        ctx.discount = discount
        return scan(values, lengths, discount)[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        discount = ctx.discount.flip(0) if isinstance(ctx.discount, Tensor) else ctx.discount
        return reverse_scan(gradients[0].flip(0), ctx.lengths.flip(0), discount).flip(0), None, None


def window_sum(values: Tensor, lengths: Tensor, window: int, discount: float | Tensor = 1.0) -> Tensor:
    """Discounted sum of every element and those after it, at most `window` of them, inside its segment.

        y[i] = sum_{j < window} discount^j x[i+j]

    Args:
        values: float[N].
        lengths: int64[S], their sum is N.
        window: how many elements, at least 0.
        discount: one number, or float[S] with one per segment.

    Returns:
        float[N] after log2(window) passes. Nothing is subtracted again, so nothing cancels. Differentiable in values.

    Example:
        >>> window_sum(torch.tensor([1.0, 1.0, 1.0, 5.0]), torch.tensor([3, 1]), 2, 0.5).tolist()
        [1.5, 1.5, 1.0, 5.0]
    """
    if not values.numel():
        return values
    owner = torch.repeat_interleave(lengths)
    ahead = torch.cumsum(lengths, 0)[owner] - torch.arange(values.numel(), device=values.device)
    factor = discount.to(torch.float64)[owner] if isinstance(discount, Tensor) else discount

    def later(x: Tensor, step: int) -> Tensor:
        reached = torch.where(ahead > step, torch.cat((x[step:], x[:step])), 0)
        power = factor**step
        return reached * (power.to(x.dtype) if isinstance(power, Tensor) else power)

    window = min(window, int(lengths.max()))
    total, block, done, size = torch.zeros_like(values), values, 0, 1
    while done < window:
        if window & size:
            total, done = total + later(block, done), done + size
        if done < window:
            block, size = block + later(block, size), size * 2
    return total


@dataclass(frozen=True, eq=False)
class Plan:
    """Where borders lie, from lengths alone.

    Attributes:
        lengths: int64[S] what it was made of.
        size: N elements.
        width: elements of a row, W; there are R rows, the last one padded.
        heads: int64[S] rows that begin inside each segment.
        owner: int64[R] the segment that a row begins in.
        ended: int64[] rows whose last element ends a segment.
        cut: int64[C] rows that hold a border between two elements.
        row: int64[P] the row of every piece of those.
        piece_owner: int64[P] its segment.
        inside: bool[P, W] the elements of every piece.
        first: int64[C] the first piece of every cut row.
        last: int64[C] the last piece of every cut row.
        source: int64[C, W] where every element of a cut row is among the P * W of the pieces.
        place: int64[C, W] where it is among the N elements.
        below: the plan of the heads, or their lengths where they are few.
    """

    lengths: Tensor
    size: int
    width: int
    heads: Tensor
    owner: Tensor
    ended: Tensor
    cut: Tensor
    row: Tensor
    piece_owner: Tensor
    inside: Tensor
    first: Tensor
    last: Tensor
    source: Tensor
    place: Tensor
    below: Plan | Tensor


def plan(lengths: Tensor, size: int) -> Plan:
    """Cut `size` elements into rows; lengths int64[S] sum to it.

    Example:
        >>> plan(torch.tensor([5, 20]), 25).heads.tolist()
        [1, 3]
    """
    device = lengths.device
    filled = torch.nonzero(lengths).flatten()
    typical = size // max(filled.numel(), 1)
    width = min(_WIDEST, max(_NARROWEST, (1 << typical.bit_length()) // 4))
    stop = torch.cumsum(lengths, 0)
    upto = (stop + width - 1) // width
    heads = upto - (stop - lengths + width - 1) // width
    begin = (stop - lengths)[filled]
    at = begin % width
    inner = at > 0
    cut, count = torch.unique_consecutive(begin[inner] // width, return_counts=True)
    pieces = torch.cumsum(count + 1, 0)
    last, first = pieces - 1, pieces - count - 1
    later = torch.ones(int(inner.sum()) + cut.numel(), dtype=torch.bool, device=device).index_fill(0, first, False)
    begins = torch.zeros(later.numel(), dtype=torch.int64, device=device).masked_scatter(later, at[inner])
    ends = torch.cat((begins[1:], begins[:1])).index_fill(0, last, width)
    column = torch.arange(width, device=device)
    inside = (column >= begins[:, None]) & (column < ends[:, None])
    owner = torch.repeat_interleave(heads)
    row = torch.repeat_interleave(cut, count + 1)
    piece_owner = owner[row].masked_scatter(later, filled[inner])
    marks = torch.zeros(cut.numel() * width, dtype=torch.int64, device=device)
    marks[torch.repeat_interleave(torch.arange(cut.numel(), device=device), count) * width + at[inner]] = 1
    piece = torch.cumsum(marks.view(-1, width), 1) + first[:, None]
    return Plan(
        lengths=lengths,
        size=size,
        width=width,
        heads=heads,
        owner=owner,
        ended=begin[~inner & (begin > 0)] // width - 1,
        cut=cut,
        row=row,
        piece_owner=piece_owner,
        inside=inside,
        first=first,
        last=last,
        source=piece * width + column,
        place=(cut[:, None] * width + column).clamp_max(max(size - 1, 0)),
        below=heads if owner.numel() < _FEW else plan(heads, owner.numel()),
    )


def scan(
    x: Tensor,
    lengths: Tensor | Plan,
    discount: float | Tensor,
    *,
    beside: Tensor | None = None,
    before: float = 0.0,
    after: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The scan of `x + before * beside`, plus `after * beside`; not differentiable.

    Arguments as `reverse_scan`; what stands beside is added while a part of the rows is in the cache.

    Returns:
        float[N], and one number that is not finite if any of what went in is not.

    Example:
        >>> x, v = torch.tensor([1.0, 1.0]), torch.tensor([1.0, 2.0])
        >>> scan(x, torch.tensor([2]), 0.5, beside=v, before=1.0, after=-1.0)[0].tolist()
        [2.5, 1.0]
    """
    if not isinstance(lengths, Plan):
        if beside is None and x.numel() < _FEW:
            few = window_sum(x, lengths, x.numel(), discount)
            return few, few.sum()
        lengths = plan(lengths, x.numel())
    at, width = lengths, lengths.width
    room = x.new_empty(-(-at.size // width) * width)
    room[at.size :] = 0
    made, rows = room[: at.size], room.view(-1, width)

    def fill(some: slice) -> None:
        if beside is None:
            made[some] = x[some]
        else:
            torch.add(x[some], beside[some], alpha=before, out=made[some])

    def move(scanned: Tensor, some: slice) -> None:
        if beside is None:
            made[some] = scanned[: made[some].numel()]
        else:
            torch.add(scanned[: made[some].numel()], beside[some], alpha=after, out=made[some])

    whole = _kernel(rows, discount, at.owner)
    head = whole.heads(fill)
    pieces = torch.where(at.inside, rows[at.row], 0)
    parts = _kernel(pieces, discount, at.piece_owner)
    part_heads = parts.heads(_nothing)
    head[at.cut] = part_heads[at.first]
    # Every element is in the head of its row, or in that of its piece.
    sound = head.sum() + part_heads.sum()
    if len(rows) > 1:
        factor = discount[at.owner[1:]].to(x.dtype) if isinstance(discount, Tensor) else discount
        total, _ = scan(head, at.below, discount**width)
        sound = sound + total.sum()
        head[:-1] = (total[1:] * factor).index_fill_(0, at.ended, 0)
    head[-1] = 0
    ending = torch.zeros_like(pieces[:, 0]).index_copy_(0, at.last, head[at.cut])
    patch = pieces.new_empty(pieces.numel())
    parts.scan(ending, lambda scanned, some: patch[some].copy_(scanned))
    whole.scan(head, move)
    patch = patch[at.source]
    rows[at.cut] = patch if beside is None else patch.add_(beside[at.place], alpha=after)
    return made, sound


def _nothing(some: slice) -> None:
    """For rows that are filled already."""


def _kernel(rows: Tensor, discount: float | Tensor, owner: Tensor) -> _Powers | _Columns:
    return _Columns(rows, discount[owner]) if isinstance(discount, Tensor) else _Powers(rows, discount)


@lru_cache(maxsize=32)
def _powers(discount: float, width: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """discount^0 .. discount^(width-1), and the triangle of those that a product with a row takes."""
    step = torch.arange(width, device=device)
    power = torch.tensor(discount, dtype=torch.float64, device=device) ** step
    # Denormal numbers change no digit of a sum, and slow a product down tenfold.
    power = torch.where(power < torch.finfo(dtype).tiny, 0, power).to(dtype)
    distance = step[:, None] - step
    return power, torch.where(distance >= 0, power[distance.clamp_min(0)], 0)


class _Powers:
    """Rows of one discount: products with its powers, some rows at a time."""

    def __init__(self, rows: Tensor, discount: float) -> None:
        self.rows = rows
        self.power, self.triangle = _powers(discount, rows.shape[1], rows.dtype, rows.device)

    def heads(self, fill: Callable[[slice], None]) -> Tensor:
        """The scan at the first element of each row, once that is filled."""
        head = self.rows.new_empty(len(self.rows))
        for few, some in self._spans():
            fill(some)
            torch.mv(self.rows[few], self.power, out=head[few])
        return head

    def scan(self, carried: Tensor, move: Callable[[Tensor, slice], object]) -> None:
        """The scan inside each row to whose last element something is carried, handed on flat; overwrites the rows."""
        for few, some in self._spans():
            self.rows[few, -1] += carried[few]
            move((self.rows[few] @ self.triangle).view(-1), some)

    def _spans(self) -> Iterator[tuple[slice, slice]]:
        width = self.rows.shape[1]
        for begin in range(0, len(self.rows), _AT_ONCE):
            yield slice(begin, begin + _AT_ONCE), slice(begin * width, (begin + _AT_ONCE) * width)


class _Columns:
    """Rows with a discount each: column after column, from the last."""

    def __init__(self, rows: Tensor, discount: Tensor) -> None:
        self.rows, self.columns = rows, rows.new_empty(rows.shape[1], rows.shape[0])
        # In two parts, the small one added first: a discount near 1, rounded to float32, would be another horizon.
        self.discount = discount.to(rows.dtype)
        self.rest = (discount - self.discount).to(rows.dtype)

    def heads(self, fill: Callable[[slice], None]) -> Tensor:
        """As in `_Powers`."""
        fill(slice(None))
        self.columns.copy_(self.rows.t())
        run = self.columns[-1]
        for column in reversed(self.columns[:-1].unbind(0)):
            run = torch.addcmul(column, self.rest, run).addcmul_(self.discount, run)
        return run.clone()

    def scan(self, carried: Tensor, move: Callable[[Tensor, slice], object]) -> None:
        """As in `_Powers`."""
        following = self.columns[-1].add_(carried)
        for column in reversed(self.columns[:-1].unbind(0)):
            following = column.addcmul_(self.rest, following).addcmul_(self.discount, following)
        move(self.columns.t().reshape(-1), slice(None))
