"""Trajectories into a native file."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from apportion._replacing import naming, replacing
from apportion.errors import InvalidArgument
from apportion.integrations.files.native import to_line, to_row
from apportion.integrations.files.parquet import ParquetSink
from apportion.rollouts import Trajectory

__all__ = ["write"]


class _Sink(Protocol):
    def add(self, row: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


class _LineSink:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def add(self, row: dict[str, Any]) -> None:
        self._stream.write(to_line(row))

    def close(self) -> None:
        self._stream.close()


def write(trajectories: Iterable[Trajectory], path: str | PathLike[str]) -> int:
    r"""Write trajectories as native JSONL or Parquet, and return how many there were.

    What `read` gives back equals what was written, field by field and bit by bit; free data comes back as JSON has it
    (tuples as lists, keys as text). The file appears under its name only when it is complete.

    Args:
        trajectories: at least one, each with its own id; consumed one by one.
        path: ends in `.jsonl`, `.jsonl.gz` or `.parquet`.

    Raises:
        InvalidArgument: another ending, no trajectory, an id given twice, or free data that the format cannot hold.
        MissingExtra: `.parquet`, and pyarrow is not installed.
        OSError: the file cannot be written.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "rollouts.jsonl")
        >>> write([Trajectory(id="a", group="g", response_ids=[5, 6], columns={"reward": 1.0})], path)
        1
        >>> path.read_text()
        '{"apportion":1,"id":"a","group":"g","response_ids":[5,6],"columns":{"reward":1.0}}\n'
    """
    target = Path(path)
    if not target.name.endswith((".jsonl", ".jsonl.gz", ".parquet")):
        raise InvalidArgument("path", str(target), "a name that ends in .jsonl, .jsonl.gz or .parquet")
    with replacing(target) as part:
        return _write(trajectories, _sink(part, target.name), target)


def _sink(path: Path, name: str) -> _Sink:
    if name.endswith(".parquet"):
        return ParquetSink(path)
    return _LineSink(cast(BinaryIO, gzip.open(path, "wb")) if name.endswith(".gz") else open(path, "wb"))


def _write(trajectories: Iterable[Trajectory], sink: _Sink, target: Path) -> int:
    seen: set[str] = set()
    try:
        for trajectory in trajectories:
            row = to_row(trajectory)
            if trajectory.id in seen:
                raise InvalidArgument("trajectories", trajectory.id, "an id of its own for every trajectory")
            seen.add(trajectory.id)
            with naming(target):
                sink.add(row)
    finally:
        with naming(target):
            sink.close()
    if not seen:
        raise InvalidArgument("trajectories", [], "at least one trajectory")
    return len(seen)
