"""All ranks' rollouts and verdicts as one batch: groups may straddle ranks, so every rank assigns the whole of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import gather_object

from apportion.batch import Batch
from apportion.errors import ObserverFailing
from apportion.integrations.trl.rollouts import UNJOINED
from apportion.rewards import Reward
from apportion.rollouts import Trajectory
from apportion.verdicts import Failed, Verdict

__all__ = ["Gathered", "gathered"]


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """One generation batch over all ranks, in rank order.

    Attributes:
        batch: its structure.
        verdicts: of every observer, one per trajectory or nested by turn.
        unjoined: share of rollouts whose environment records could not be joined to their turns.
    """

    batch: Batch
    verdicts: Mapping[str, Sequence[Any]]
    unjoined: float

    def refuse_failing(self, observers: Sequence[Reward], limit: float) -> None:
        """Stop when an observer, other than a `metric`, failed on more than its share of what it was asked.

        Raises:
            ObserverFailing: the first such observer, with the first failure.
        """
        for observer in observers:
            if getattr(observer, "role", "outcome") == "metric":
                continue
            name, rows = observer.name, self.verdicts[observer.name]
            cells: list[tuple[str, Verdict]] = [
                (who, cell)
                for who, row in zip(self.batch.ids, rows, strict=True)
                for cell in (row if isinstance(row, list) else [row])
            ]
            failures = [f"{who!r}: {cell.error}" for who, cell in cells if isinstance(cell, Failed)]
            if len(failures) > limit * len(cells):
                raise ObserverFailing(name, len(failures), len(cells), limit, failures[0])


def gathered(rollouts: Sequence[Trajectory], verdicts: Mapping[str, Sequence[Any]]) -> Gathered:
    """What every rank knows about its own rollouts, put together on each of them."""
    records = []
    for i, t in enumerate(rollouts):
        layout = t.layout()
        lengths = (layout.lead, layout.turn_lengths.tolist(), layout.gap_lengths.tolist())
        found = {name: rows[i] for name, rows in verdicts.items()}
        own = t.own[t.policy].tolist() if t.own is not None and t.policy is not None else []
        records.append((t.id, t.group, t.status, *lengths, own, found, UNJOINED in t.columns))
    ids, groups, status, lead, turns, gaps, owned, said, unjoined = zip(*gather_object(records), strict=True)
    own = torch.tensor([token for row in owned for token in row], dtype=torch.bool)
    batch = Batch.of(
        groups=groups,
        ids=ids,
        status=status,
        lead=torch.tensor(lead),
        turns=[len(row) for row in turns],
        tokens=[n for row in turns for n in row],
        gaps=torch.tensor([n for row in gaps for n in row], dtype=torch.int64),
        own=None if bool(own.all()) else own,
    )
    return Gathered(
        batch=batch,
        verdicts={name: [row[name] for row in said] for name in verdicts},
        unjoined=sum(unjoined) / len(unjoined),
    )
