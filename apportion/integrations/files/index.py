"""Whole groups out of a file that holds them scattered and does not fit into memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from os import PathLike
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from types import TracebackType
from typing import BinaryIO, Literal, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from apportion._replacing import naming
from apportion.errors import BadRow, InvalidArgument
from apportion.integrations.actions import Syntax
from apportion.integrations.files.detect import Format, detect_format
from apportion.integrations.files.native import to_line, to_row
from apportion.integrations.files.places import Places, changed, read_place
from apportion.integrations.files.reader import OnError, check_options, duplicate, found_in
from apportion.integrations.files.rows import Progress, is_plain_lines
from apportion.rollouts import Trajectory

__all__ = ["RolloutIndex"]

IntArray: TypeAlias = npt.NDArray[np.integer]
_BYTES = 64 * 2**20


class RolloutIndex:
    """Where each rollout of a file lies, so that whole groups can be read wherever their rows are.

    One pass checks every row and keeps six numbers of it, 32 bytes; the groups' names are dropped after it. Then
    `groups()` and `steps()` seek back. A plain native JSONL file is read in place; any other input (gzip, Parquet,
    another format) is first copied to an unnamed temporary file, which is gone when the index is closed.

    Args:
        path: a rollout file of any format that `read` knows.
        format: as in `read`.
        syntax: as in `read`.
        on_error: as in `read`; bad rows are found in the first pass, so nothing is bad afterwards.
        skipped: as in `read`.
        progress: called now and then during the first pass as `progress(bytes_done, bytes_total)`.
        copy: a name for the copy, so that other processes can read it; it stays when the index is closed.

    Attributes:
        format: what the file was read as.
        all_have_steps: no row lacks its training step.
        lines: the file that the places of `places()` lie in: `path` itself, or `copy`; None for an unnamed copy.

    Raises:
        InvalidArgument, BadRow, MissingExtra, OSError: as `read`, but on construction.

    Example:
        >>> import pathlib, tempfile
        >>> from apportion.integrations.files import write
        >>> path = pathlib.Path(tempfile.mkdtemp(), "rollouts.jsonl")
        >>> _ = write([Trajectory(id=f"r{k}", group=f"g{k % 2}", response_ids=[k]) for k in range(4)], path)
        >>> with RolloutIndex(path) as index:
        ...     [[t.id for t in chunk] for chunk in index.groups(chunk_trajectories=1)]
        [['r0', 'r2'], ['r1', 'r3']]
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        format: Format | Literal["auto"] = "auto",
        syntax: Syntax = "auto",
        on_error: OnError = "stop",
        skipped: list[BadRow] | None = None,
        progress: Progress | None = None,
        copy: Path | None = None,
    ) -> None:
        check_options(format, on_error, skipped)
        self._path = Path(path)
        self.format: Format = detect_format(self._path) if format == "auto" else format
        in_place = self.format == "jsonl" and is_plain_lines(self._path)
        self.lines = self._path if in_place else copy
        # Open for as long as the index is, which is a context manager itself.
        if in_place:
            self._file = cast(BinaryIO, open(self._path, "rb"))  # noqa: SIM115
        else:
            self._file = cast(BinaryIO, TemporaryFile() if copy is None else open(copy, "w+b"))  # noqa: SIM115
        try:
            self._scan(syntax, None if in_place else self._file, progress, skipped if on_error == "skip" else None)
        except BaseException:
            # A copy that found no room has none for the rest of its buffer either.
            with suppress(OSError):
                self._file.close()
            raise

    def _scan(
        self, syntax: Syntax, spool: BinaryIO | None, progress: Progress | None, skipped: list[BadRow] | None
    ) -> None:
        offsets, hashes = array("q"), array("q")
        sizes, lines, groups, steps = (array("I") for _ in range(4))
        group_codes: dict[str, int] = {}
        step_codes: dict[int | None, int] = {}
        problems: list[BadRow] = []
        place, copy = 0, f"a temporary copy of {self._path} in {gettempdir()} (TMPDIR names another place)"
        if spool is not None and self.lines is not None:
            copy = str(self.lines)
        for item in found_in(self._path, self.format, syntax=syntax, progress=progress):
            if isinstance(item, BadRow):
                if skipped is None:
                    raise item
                problems.append(item)
                continue
            trajectory, row = item.trajectory, item.row
            if spool is None:
                offsets.append(row.offset)
                sizes.append(row.size)
            else:
                offsets.append(place)
                sizes.append(len(line := to_line(to_row(trajectory))))
                place += sizes[-1]
                with naming(copy):
                    spool.write(line)
            lines.append(row.line)
            groups.append(group_codes.setdefault(trajectory.group, len(group_codes)))
            steps.append(step_codes.setdefault(trajectory.step, len(step_codes)))
            hashes.append(hash(trajectory.id))
        if spool is not None:
            with naming(copy):
                spool.flush()
        self._offsets, self._sizes, self._lines = np.asarray(offsets), np.asarray(sizes), np.asarray(lines)
        self.all_have_steps = None not in step_codes
        self._groups, self._steps, self._hashes = np.asarray(groups), _by_time(steps, step_codes), np.asarray(hashes)
        repeated = self._repeated_ids()
        if repeated and skipped is None:
            raise min(repeated.values(), key=lambda problem: problem.line)
        if repeated:
            self._drop(list(repeated))
        if skipped is not None:
            skipped.extend(sorted([*problems, *repeated.values()], key=lambda problem: problem.line))

    def _drop(self, places: list[int]) -> None:
        for name in ("_offsets", "_sizes", "_lines", "_groups", "_steps", "_hashes"):
            setattr(self, name, np.delete(getattr(self, name), places))

    def _repeated_ids(self) -> dict[int, BadRow]:
        """Rows whose id an earlier row has; equal hashes only point at them, the ids themselves are compared."""
        ranked = np.sort(self._hashes)
        if not (ranked[1:] == ranked[:-1]).any():
            return {}
        order = np.argsort(self._hashes, kind="stable")
        equal = np.flatnonzero(np.diff(self._hashes[order]) == 0)
        suspects = np.sort(order[np.union1d(equal, equal + 1)])
        first: dict[str, int] = {}
        repeated: dict[int, BadRow] = {}
        for place in suspects.tolist():
            id, line = self._read(place).id, int(self._lines[place])
            if id in first:
                repeated[place] = duplicate(self._path, id, first[id], line)
            else:
                first[id] = line
        return repeated

    def _read(self, place: int) -> Trajectory:
        offset, size, line = int(self._offsets[place]), int(self._sizes[place]), int(self._lines[place])
        trajectory = read_place(self._file, self._path, line=line, offset=offset, size=size)
        if hash(trajectory.id) != self._hashes[place]:
            raise changed(self._path, line)
        return trajectory

    def __len__(self) -> int:
        return self._offsets.size

    @property
    def n_groups(self) -> int:
        """How many groups the file holds."""
        return np.unique(self._groups).size

    @property
    def n_steps(self) -> int:
        """How many training steps the file holds; rows without one count as one together."""
        return np.unique(self._steps).size

    def groups(
        self, *, chunk_trajectories: int = 1024, chunk_bytes: int = _BYTES, progress: Progress | None = None
    ) -> Iterator[list[Trajectory]]:
        """Chunks of whole groups, in the order in which the groups first appear in the file.

        Args:
            chunk_trajectories: a chunk takes another group only up to this many trajectories.
            chunk_bytes: and up to this many bytes of rows. One group alone may exceed both, since it is never cut.
            progress: called after each chunk as `progress(bytes_done, bytes_total)`.

        Raises:
            InvalidArgument: a bound below 1.
            BadRow: the file was changed after it was indexed.
        """
        return self._chunks(self._groups, chunk_trajectories, chunk_bytes, progress)

    def steps(
        self, *, chunk_trajectories: int = 1024, chunk_bytes: int = _BYTES, progress: Progress | None = None
    ) -> Iterator[list[Trajectory]]:
        """Chunks of whole training steps, for recipes whose statistics run over a step; bounds as in `groups`.

        Steps come in the order of their numbers wherever they lie in the file, because a recipe's state goes from one
        to the next. Rows without a step belong to one step together, the last. Memory follows the largest step.
        """
        return self._chunks(self._steps, chunk_trajectories, chunk_bytes, progress)

    def places(
        self, walk: Literal["groups", "steps"], *, chunk_trajectories: int = 1024, chunk_bytes: int = _BYTES
    ) -> Iterator[Places]:
        """Where the rows of the chunks of `groups()` or `steps()` lie, for other processes to read; see `Places`.

        Args:
            walk: which of the two.
            chunk_trajectories: as there.
            chunk_bytes: as there.

        Raises:
            InvalidArgument: a bound below 1.
        """
        order, cuts = self._cut({"groups": self._groups, "steps": self._steps}[walk], chunk_trajectories, chunk_bytes)
        for start, stop in pairwise(cuts):
            wanted = order[start:stop]
            yield Places(lines=self._lines[wanted], offsets=self._offsets[wanted], sizes=self._sizes[wanted])

    def _chunks(
        self, units: IntArray, chunk_trajectories: int, chunk_bytes: int, progress: Progress | None
    ) -> Iterator[list[Trajectory]]:
        return self._load(*self._cut(units, chunk_trajectories, chunk_bytes), progress)

    def _cut(self, units: IntArray, chunk_trajectories: int, chunk_bytes: int) -> tuple[IntArray, list[int]]:
        for name, bound in (("chunk_trajectories", chunk_trajectories), ("chunk_bytes", chunk_bytes)):
            if bound < 1:
                raise InvalidArgument(name, bound, "at least 1")
        order = np.argsort(units, kind="stable")
        return order, _cuts(units[order], self._sizes[order], chunk_trajectories, chunk_bytes)

    def _load(self, order: IntArray, cuts: list[int], progress: Progress | None) -> Iterator[list[Trajectory]]:
        done, total = 0, int(self._sizes.sum())
        for start, stop in pairwise(cuts):
            wanted = order[start:stop]
            # In file order, because disks and caches like it; each row still lands in its group.
            by_place = {place: self._read(place) for place in np.sort(wanted).tolist()}
            yield [by_place.pop(place) for place in wanted.tolist()]
            done += int(self._sizes[wanted].sum())
            if progress:
                progress(done, total)

    def close(self) -> None:
        """Close the file; a temporary copy is gone with it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _by_time(steps: array[int], codes: Mapping[int | None, int]) -> IntArray:
    """The place of every row's step in time; rows without one come last."""
    order = sorted(codes, key=lambda step: (step is None, step or 0))
    place = np.empty(len(order), np.int64)
    place[[codes[step] for step in order]] = np.arange(len(order))
    placed: IntArray = place[np.asarray(steps)]
    return placed


def _cuts(units: IntArray, sizes: IntArray, most: int, most_bytes: int) -> list[int]:
    """Where chunks begin and end: at unit boundaries, as late as the bounds allow."""
    edges = np.concatenate((np.flatnonzero(np.diff(units, prepend=-1)), [units.size]))
    weight = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))[edges]
    cuts, k = [0], 0
    while k < edges.size - 1:
        by_count = np.searchsorted(edges, edges[k] + most, side="right") - 1
        by_bytes = np.searchsorted(weight, weight[k] + most_bytes, side="right") - 1
        k = max(int(min(by_count, by_bytes)), k + 1)
        cuts.append(int(edges[k]))
    return cuts
