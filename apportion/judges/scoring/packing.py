"""From requests to rows of a batch: what is read in one causal pass, and what is packed behind it on its cache.

    causal pass    ids[: max at]                               one row per sequence, plain causal attention
    packed pass    | branch 0 | branch 1 | ... | branch K-1 |  each sees ids[:at[k]] in the cache, and itself

The first target token is read off the sequence's own hidden state at its boundary and the last one is never fed, so K
targets of a tokens cost K (a - 1) extra tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from apportion.judges.scoring.request import IntArray, Request
from apportion.verdicts import Abstained

# Which request and which of its boundaries.
Owner: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Reads:
    """Which hidden states predict which tokens, and where the log-probability goes.

    Attributes:
        positions: int64[n] index of the hidden state.
        tokens: int64[n] the token it predicts.
        slots: int64[n] index into the flat result.
    """

    positions: IntArray
    tokens: IntArray
    slots: IntArray

    @classmethod
    def join(cls, parts: Sequence[Reads], offsets: Sequence[int]) -> Reads:
        """One `Reads` over all parts, their positions shifted by `offsets`."""
        moved = [part.positions + offset for part, offset in zip(parts, offsets, strict=True)]
        empty = [np.empty(0, np.int64)]
        tokens = [part.tokens for part in parts]
        slots = [part.slots for part in parts]
        return cls(np.concatenate(moved or empty), np.concatenate(tokens or empty), np.concatenate(slots or empty))


@dataclass(frozen=True, slots=True)
class Branch:
    """Tokens fed after a boundary: the lead and the target without its last token."""

    at: int
    ids: IntArray
    reads: Reads


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence of the causal pass with its branches, and the boundaries that it answers."""

    ids: IntArray
    reads: Reads
    owners: tuple[Owner, ...]
    branches: tuple[Branch, ...] = ()
    branch_tokens: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "branch_tokens", sum(branch.ids.size for branch in self.branches))


def layout(requests: Sequence[Request]) -> list[list[tuple[int, int]]]:
    """Per request and boundary [start, stop) in the flat result."""
    stop = 0
    spans: list[list[tuple[int, int]]] = []
    for request in requests:
        sizes = [target.size for target in request.targets]
        edges = np.cumsum([stop, *sizes]).tolist()
        spans.append(list(itertools.pairwise(edges)))
        stop = edges[-1]
    return spans


def rows(
    requests: Sequence[Request],
    excused: Sequence[Sequence[Abstained | None]],
    *,
    longest_branch: int,
) -> list[Row]:
    """The rows that answer every boundary that is not excused.

    A boundary that is alone in its request, or whose branch is longer than `longest_branch`, becomes a plain row of its
    own; the others share one causal pass over their sequence. `longest_branch=-1` makes every row plain.
    """
    made: list[Row] = []
    for index, (request, spans) in enumerate(zip(requests, layout(requests), strict=True)):
        wanted = [k for k, excuse in enumerate(excused[index]) if excuse is None]
        shared = [k for k in wanted if request.lead.size + request.targets[k].size - 1 <= longest_branch]
        if len(shared) < 2 or not int(request.at[shared].max()):
            shared = []
        if shared:
            made.append(_shared_row(request, index, shared, spans))
        made.extend(_plain_row(request, index, k, spans[k]) for k in wanted if k not in set(shared))
    return made


def _plain_row(request: Request, index: int, k: int, span: tuple[int, int]) -> Row:
    context, target = request.context(k), request.targets[k]
    positions = np.arange(context.size - 1, context.size - 1 + target.size)
    reads = Reads(positions, target, np.arange(*span))
    return Row(np.concatenate((context, target[:-1])), reads, ((index, k),))


def _shared_row(request: Request, index: int, shared: Sequence[int], spans: Sequence[tuple[int, int]]) -> Row:
    lead = request.lead.size
    at_boundary: list[Reads] = []
    branches: list[Branch] = []
    for k in shared:
        at, target, slots = int(request.at[k]), request.targets[k], np.arange(*spans[k])
        # Without a lead the boundary's own hidden state predicts the first target token.
        first = 0 if lead else 1
        if first:
            at_boundary.append(Reads(np.array([at - 1]), target[:1], slots[:1]))
        fed = np.concatenate((request.lead, target[:-1]))
        if fed.size:
            inside = Reads(np.arange(lead - 1 + first, fed.size), target[first:], slots[first:])
            branches.append(Branch(at, fed, inside))
    sequence = request.ids[: int(request.at[list(shared)].max())]
    owners = tuple((index, k) for k in shared)
    return Row(sequence, Reads.join(at_boundary, [0] * len(at_boundary)), owners, tuple(branches))


def batches(made: Sequence[Row], *, tokens: int) -> Iterator[list[Row]]:
    """Rows of similar length together, at most `tokens` padded tokens a batch; a longer row is alone."""
    batch: list[Row] = []
    longest = [0, 0]
    for row in sorted(made, key=lambda row: (bool(row.branches), row.ids.size, row.branch_tokens)):
        size = [max(longest[0], row.ids.size), max(longest[1], row.branch_tokens)]
        mixed = bool(batch) and bool(batch[0].branches) != bool(row.branches)
        if batch and (mixed or sum(size) * (len(batch) + 1) > tokens):
            yield batch
            batch, size = [], [row.ids.size, row.branch_tokens]
        batch.append(row)
        longest = size
    if batch:
        yield batch


def passes(batch: Sequence[Row], *, room: int) -> Iterator[list[list[Branch]]]:
    """The branches of each row from the last boundary to the first, in portions of at most `room` tokens.

    A branch longer than `room` is a portion of its own. No later portion reaches further into the sequence.
    """
    portions = [_portions(sorted(row.branches, key=lambda branch: -branch.at), room) for row in batch]
    for number in range(max(map(len, portions))):
        yield [one[number] if number < len(one) else [] for one in portions]


def _portions(branches: Sequence[Branch], room: int) -> list[list[Branch]]:
    portions: list[list[Branch]] = []
    left = 0
    for branch in branches:
        if not portions or branch.ids.size > left:
            portions.append([])
            left = room
        portions[-1].append(branch)
        left -= branch.ids.size
    return portions
