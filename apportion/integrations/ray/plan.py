"""The plan of a run, kept in its folder: a run that resumes need not read the rollouts again to know its blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from apportion._replacing import naming, replacing
from apportion.errors import BadRow
from apportion.integrations.files.places import Places
from apportion.integrations.ray.blocks import Block

__all__ = ["Plan", "read_plan", "write_plan"]

_COLUMNS = ("lines", "offsets", "sizes")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Plan:
    """What an index found.

    Attributes:
        copied: the rows lie in a copy of the rollout file, which has another format than native lines.
        blocks: all of them, in order.
        skipped: the rows that were left out.
    """

    copied: bool
    blocks: tuple[Block, ...]
    skipped: tuple[BadRow, ...]


def write_plan(path: Path, plan: Plan) -> None:
    """Keep a plan; the file appears under its name only when it is complete."""
    chunks = [places for block in plan.blocks for places in block.chunks]
    columns: dict[str, Any] = {name: np.concatenate([getattr(places, name) for places in chunks]) for name in _COLUMNS}
    about = {"copied": plan.copied, "skipped": [row.__reduce__()[1] for row in plan.skipped]}
    with replacing(path) as part, naming(path), open(part, "wb") as file:
        np.savez(
            file,
            rows=np.array([len(places) for places in chunks], np.int64),
            chunks=np.array([len(block.chunks) for block in plan.blocks], np.int64),
            about=np.frombuffer(json.dumps(about).encode(), np.uint8),
            **columns,
        )


def read_plan(path: Path) -> Plan | None:
    """The plan that was kept; None where there is none."""
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as kept:
        about = json.loads(kept["about"].tobytes())
        cuts = np.cumsum(kept["rows"])[:-1]
        columns = [np.split(kept[name], cuts) for name in _COLUMNS]
        counts = kept["chunks"].tolist()
    chunks = (Places(lines=lines, offsets=offsets, sizes=sizes) for lines, offsets, sizes in zip(*columns, strict=True))
    return Plan(
        copied=about["copied"],
        blocks=tuple(_blocks(chunks, counts)),
        skipped=tuple(BadRow(*row) for row in about["skipped"]),
    )


def _blocks(chunks: Iterator[Places], counts: Sequence[int]) -> Iterator[Block]:
    for number, count in enumerate(counts):
        yield Block(number=number, chunks=tuple(next(chunks) for _ in range(count)))
