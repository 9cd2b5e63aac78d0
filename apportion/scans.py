"""Scans of ragged segments from their ends, in rows of equal width cut straight through the segments.

    values     a a a b | b b b b | b b c c       three rows of width 4; segments a, b, c begin where they do
    in rows    every row times one triangular matrix; the few rows that hold a border are done piece by piece
    heads      the scan at the first element of every row, scanned over the rows of a segment by the same method
    carry      the head of the next row joins the last element of a row whose segment goes on

Nothing is laid out anew, so the cost is that of a few passes over the memory; and what lies beyond a border is never
multiplied, not even by 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Plan", "blank", "plan", "reverse_scan", "scan_", "window_sum"]

_WIDEST, _NARROWEST = 32, 8
# Below this many elements log2(longest) passes take less time than the planning of rows.
_FEW = 1 << 15
# Rows of one product, whose result stays in the cache.
_AT_ONCE = 1 << 12


def reverse_scan(values: Tensor, lengths: Tensor, discount: float | Tensor = 1.0) -> Tensor:
    """Discounted sum from every element to the end of its segment.

        y[i] = x[i] + discount * y[i+1]        y[last] = x[last]

    Args:
        values: float[N].
        lengths: int64[S], their sum is N.
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
    def forward(ctx: Any, values: Tensor, lengths: Tensor, discount: float | Tensor) -> Tensor:
        ctx.lengths, ctx.discount = lengths, discount
        return _scan(values, lengths, discount)

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
    """

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


def plan(lengths: Tensor, size: int) -> Plan:
    """Cut `size` elements into rows; lengths int64[S] sum to it."""
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
    )


def blank(values: Tensor, at: Plan) -> tuple[Tensor, Tensor]:
    """Room for whole rows, and the part of it that holds the elements; not filled, but for zeros after their end."""
    rows = -(-at.size // at.width)
    room = values.new_empty(rows * at.width)
    room[at.size :] = 0
    return room, room[: at.size]


def scan_(room: Tensor, at: Plan, discount: float | Tensor) -> Tensor:
    """The scan of `room` from `blank`, in its place; float[N]."""
    rows = room.view(-1, at.width)
    pieces = torch.where(at.inside, rows[at.row], 0)
    if isinstance(discount, Tensor):
        whole: _Powers | _Columns = _Columns(rows, discount[at.owner])
        parts: _Powers | _Columns = _Columns(pieces, discount[at.piece_owner])
        factor: float | Tensor = discount[at.owner[1:]].to(room.dtype)
    else:
        power = _powers(discount, at.width, room)
        whole, parts, factor = _Powers(rows, power), _Powers(pieces, power), discount
    if len(rows) > 1:
        head = whole.heads()
        head[at.cut] = parts.heads()[at.first]
        carried = _scan(head, at.heads, discount**at.width)[1:] * factor
        whole.last[:-1] += carried.index_fill(0, at.ended, 0)
        parts.last[at.last] = whole.last[at.cut]
    whole.scan_()
    parts.scan_()
    rows[at.cut] = pieces.view(-1)[at.source]
    return room[: at.size]


def _scan(values: Tensor, lengths: Tensor, discount: float | Tensor) -> Tensor:
    if values.numel() < _FEW:
        return window_sum(values, lengths, values.numel(), discount)
    at = plan(lengths, values.numel())
    room, elements = blank(values, at)
    elements.copy_(values)
    return scan_(room, at, discount)


def _powers(discount: float, width: int, like: Tensor) -> Tensor:
    power = torch.tensor(discount, dtype=torch.float64, device=like.device) ** torch.arange(width, device=like.device)
    # Denormal numbers change no digit of a sum, and slow a product down tenfold.
    return torch.where(power < torch.finfo(like.dtype).tiny, 0, power).to(like.dtype)


class _Powers:
    """Rows of one discount: products with its powers."""

    def __init__(self, rows: Tensor, power: Tensor) -> None:
        self.rows, self.power, self.last = rows, power, rows[:, -1]

    def heads(self) -> Tensor:
        """The scan at the first element of each row."""
        return self.rows @ self.power

    def scan_(self) -> None:
        """The scan inside each row, in its place."""
        step = torch.arange(self.power.numel(), device=self.power.device)
        distance = step[:, None] - step
        triangle = torch.where(distance >= 0, self.power[distance.clamp_min(0)], 0)
        # A second array of this size would cost more than the product: its pages are new to the process.
        for some in torch.split(self.rows, _AT_ONCE):
            some.copy_(some @ triangle)


class _Columns:
    """Rows with a discount each: column after column, from the last."""

    def __init__(self, rows: Tensor, discount: Tensor) -> None:
        self.rows, self.columns = rows, rows.t().contiguous()
        self.last = self.columns[-1]
        # In two parts, the small one added first: a discount near 1, rounded to float32, would be another horizon.
        self.discount = discount.to(rows.dtype)
        self.rest = (discount - self.discount).to(rows.dtype)

    def heads(self) -> Tensor:
        """As in `_Powers`."""
        run = self.last
        for column in reversed(self.columns[:-1].unbind(0)):
            run = torch.addcmul(column, self.rest, run).addcmul_(self.discount, run)
        return run.clone()

    def scan_(self) -> None:
        """As in `_Powers`."""
        following = self.last
        for column in reversed(self.columns[:-1].unbind(0)):
            following = column.addcmul_(self.rest, following).addcmul_(self.discount, following)
        self.rows.copy_(self.columns.t())
