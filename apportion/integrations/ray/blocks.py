"""Blocks: what one worker scores and commits at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from apportion.integrations.files import RolloutIndex
from apportion.integrations.files.places import Places
from apportion.report.scoring import CHUNK_BYTES

__all__ = ["Block", "blocks_of"]

# As the local engine: a recipe is called on the same chunks, and so gives the same bits.
_CHUNK = 1024


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Block:
    """Chunks of whole groups (whole steps) that are scored and committed together.

    Attributes:
        number: from 0, in the order of the rollout file or of the steps.
        chunks: where the rows of each chunk lie.
    """

    number: int
    chunks: tuple[Places, ...]

    def __len__(self) -> int:
        return sum(map(len, self.chunks))

    @property
    def n_bytes(self) -> int:
        """What its rows take in the file."""
        return sum(places.n_bytes for places in self.chunks)


def blocks_of(index: RolloutIndex, walk: Literal["groups", "steps"], *, rows: int) -> Iterator[Block]:
    """The chunks of the local engine, so many to a block that it has up to `rows` rows.

    Args:
        index: of the rollout file.
        walk: whole groups or whole training steps.
        rows: a block takes another chunk only up to this many rows. Below 1024 the chunks are smaller too.
    """
    number, taken = 0, list[Places]()
    for places in index.places(walk, chunk_trajectories=min(_CHUNK, rows), chunk_bytes=CHUNK_BYTES):
        if taken and sum(map(len, taken)) + len(places) > rows:
            yield Block(number=number, chunks=tuple(taken))
            number, taken = number + 1, []
        taken.append(places)
    if taken:
        yield Block(number=number, chunks=tuple(taken))
