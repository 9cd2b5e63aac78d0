"""Where rows lie in a file of native lines, and reading them back."""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from apportion.errors import BadRow, InvalidArgument
from apportion.integrations.files.fields import FieldProblem
from apportion.integrations.files.native import from_row
from apportion.integrations.files.rows import Row, parse_row
from apportion.rollouts import Trajectory

__all__ = ["Places", "changed", "read_place"]

IntArray: TypeAlias = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Places:
    """Rows of one file, in the order in which they are wanted.

    Attributes:
        lines: int[n] the line of each row in the file it came from, for messages.
        offsets, sizes: int[n] where its bytes begin and how many they are.
    """

    lines: IntArray
    offsets: IntArray
    sizes: IntArray

    def __len__(self) -> int:
        return self.offsets.size

    @property
    def n_bytes(self) -> int:
        """What all rows take in the file."""
        return int(self.sizes.sum())

    def read(self, file: BinaryIO, path: Path) -> list[Trajectory]:
        """The trajectories.

        Args:
            file: holds the rows.
            path: the name of the rollout file, for messages.

        Raises:
            BadRow: the file was changed after its places were taken.
        """
        found: dict[int, Trajectory] = {}
        # In file order, because disks and caches like it.
        for k in np.argsort(self.offsets, kind="stable").tolist():
            line, offset, size = int(self.lines[k]), int(self.offsets[k]), int(self.sizes[k])
            found[k] = read_place(file, path, line=line, offset=offset, size=size)
        return [found[k] for k in range(len(self))]


def read_place(file: BinaryIO, path: Path, *, line: int, offset: int, size: int) -> Trajectory:
    """The trajectory of one native line.

    Raises:
        BadRow: there is none; the file was changed.
    """
    file.seek(offset)
    row = parse_row(str(path), line, file.read(size).removeprefix(BOM_UTF8))
    try:
        trajectory = next(from_row(row.data)) if isinstance(row, Row) else None
    except (FieldProblem, InvalidArgument):
        trajectory = None
    if trajectory is None:
        raise changed(path, line)
    return trajectory


def changed(path: Path, line: int) -> BadRow:
    """What to say of a row that is not what it was."""
    return BadRow(
        str(path), line, "line", "the file changed after it was indexed", "index a file that nobody writes to"
    )
