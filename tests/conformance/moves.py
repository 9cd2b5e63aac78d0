"""What the laws do to a case: permute, rename, take out, refill. Each returns a new case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from apportion import segments
from apportion.batch import Batch
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.conformance.strategies import KNOWN, Case


def elements(batch: Batch, level: Level, rows: Sequence[int] | Tensor) -> Tensor:
    """Positions at `level` of the chosen rollouts, in the order chosen."""
    index = torch.as_tensor(rows, dtype=torch.int64)
    if level == Level.TRAJECTORY:
        return index
    return segments.gather_segments(batch.lengths(level, Level.TRAJECTORY), index)


def remake(x: Signal, batch: Batch, values: Tensor | None = None, presence: Tensor | None = None) -> Signal:
    """The same reward on another batch or with other values; what is not known stays without a value."""
    state = x.presence if presence is None else presence
    given = x.values if values is None else values
    made = Signal.of(batch, x.level, given, name=next(iter(x.terms)), known=state == KNOWN)
    return replace(made, presence=state)


def select(case: Case, rows: Sequence[int] | Tensor) -> Case:
    """Only these rollouts, in this order."""
    batch = case.batch.select(rows)
    picks = [elements(case.batch, x.level, rows) for x in case.signals]
    pairs = zip(case.signals, picks, strict=True)
    return Case(batch, tuple(remake(x, batch, x.values[at], x.presence[at]) for x, at in pairs))


def on(case: Case, batch: Batch) -> Case:
    """The same signals on a batch of the same sizes."""
    return Case(batch, tuple(remake(x, batch) for x in case.signals))


def refilled(case: Case, which: Sequence[int], change: Callable[[Signal], Tensor]) -> Case:
    """New values in the chosen signals."""
    made = [remake(x, case.batch, change(x)) if k in which else x for k, x in enumerate(case.signals)]
    return Case(case.batch, tuple(made))


def marked(case: Case, rows: Sequence[int], state: int) -> Case:
    """These rollouts become missing in every signal."""
    out = []
    for x in case.signals:
        presence = x.presence.clone()
        presence[elements(case.batch, x.level, rows)] = state
        out.append(remake(x, case.batch, presence=presence))
    return Case(case.batch, tuple(out))


def members(batch: Batch, group: int) -> list[int]:
    """The rollouts of a group."""
    return torch.nonzero(batch.group == group).flatten().tolist()


def inside(x: Signal, group: int) -> Tensor:
    """bool: the elements of a signal that lie in a group."""
    return x.batch.owner(x.level, Level.GROUP) == group


def renamed(case: Case, order: Sequence[int]) -> Case:
    """Other names for the groups, numbered in another order."""
    b = case.batch
    place = torch.tensor(order)
    names = [""] * len(order)
    for old, new in enumerate(order):
        names[new] = f"renamed {old}"
    return on(case, replace(b, group=place[b.group], group_ids=tuple(names)))


def retold(case: Case) -> Case:
    """The same policy tokens cut into other turns: one token each, and an empty turn after them."""
    b = case.batch
    counts = b.tokens_per_trajectory
    turns = counts + 1
    tokens = torch.ones(int(turns.sum()), dtype=torch.int64)
    tokens[torch.cumsum(turns, 0) - 1] = 0
    return on(case, replace(Batch.of(groups=b.group.tolist(), turns=turns, tokens=tokens), group=b.group))


def without_tokens(case: Case) -> Case:
    """The same rollouts as text only."""
    b = case.batch
    return on(case, replace(b, tokens=None, lead=torch.zeros_like(b.lead), gaps=torch.zeros_like(b.gaps)))


def cast(case: Case, dtype: torch.dtype) -> Case:
    """Rewards that came in another float type."""
    return Case(case.batch, tuple(remake(x, case.batch, x.values.to(dtype)) for x in case.signals))
