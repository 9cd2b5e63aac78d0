"""The file that credit is written to: JSON lines or Parquet, one header and one record per trajectory.

The schema, version 1, is in docs/credit_format.md. A file appears under its name only when it is complete.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self, cast

import apportion
from apportion._replacing import naming, replacing
from apportion.errors import BadRow, InvalidArgument
from apportion.recipe import Recipe
from apportion.report.credit_parquet import ParquetRecords, parquet_header, parquet_records
from apportion.report.credit_record import Record
from apportion.rewards.base import role_of
from apportion.rollouts import Level

__all__ = ["FORMAT", "VERSION", "CreditWriter", "credit_header", "read_credit", "read_header"]

FORMAT = "apportion-credit"
VERSION = 1
# What gzip, JSON and Arrow (whose errors are ValueErrors) raise where a file was cut or changed.
_DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error, ValueError)
_ENDINGS = (".jsonl", ".jsonl.gz", ".parquet")


def credit_header(recipe: Recipe, *, source: str) -> dict[str, Any]:
    """What the records of a file have in common.

    Args:
        recipe: the one that assigned the credit.
        source: where the rollouts came from, in words.
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "apportion": apportion.__version__,
        "source": source,
        "recipe": {
            "name": recipe.name,
            "parameters": {name: _plain(value) for name, value in recipe.parameters.items()},
            "aggregation": recipe.aggregation,
            "scope": recipe.scope,
            "paper": recipe.paper,
            "reconstruction": recipe.reconstruction,
        },
        "observers": {o.name: Level(o.level).name.lower() for o in recipe.observers},
        "labels": [o.name for o in recipe.observers if role_of(o) == "label"],
    }


class _Sink(Protocol):
    def write(self, record: Record) -> None: ...

    def close(self) -> None: ...


class _Lines:
    def __init__(self, path: Path, header: Mapping[str, Any], *, compress: bool) -> None:
        self._file = path.open("wb")
        # Neither name nor time goes into the file: the same credit gives the same bytes.
        zipped = (
            gzip.GzipFile(filename="", mode="wb", fileobj=self._file, mtime=0, compresslevel=6) if compress else None
        )
        self._stream = cast(BinaryIO, zipped or self._file)
        self._line(header)

    def _line(self, value: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n")

    def write(self, record: Record) -> None:
        self._line(record)

    def close(self) -> None:
        self._stream.close()
        self._file.close()


class CreditWriter:
    r"""Writes records, as a context manager; the file is there when the block ends well, and untouched otherwise.

    Args:
        path: ends in `.jsonl`, `.jsonl.gz` or `.parquet`.
        header: see `credit_header`.

    Raises:
        InvalidArgument: another ending.
        MissingExtra: `.parquet`, and pyarrow is not installed.
        OSError: the file cannot be written.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "credit.jsonl")
        >>> with CreditWriter(path, {"format": FORMAT, "version": VERSION}) as out:
        ...     out.write({"id": "r0", "advantages": {"per": "trajectory", "values": 0.1}})
        >>> path.read_text()
        '{"format":"apportion-credit","version":1}\n{"id":"r0","advantages":{"per":"trajectory","values":0.1}}\n'
    """

    def __init__(self, path: str | os.PathLike[str], header: Mapping[str, Any]) -> None:
        target = Path(path)
        if not target.name.endswith(_ENDINGS):
            raise InvalidArgument("out", str(path), f"a name that ends in {', '.join(_ENDINGS)}")
        with ExitStack() as undo:
            # Closed in reverse: the sink first, then the file takes its name or is gone.
            part = undo.enter_context(replacing(target))
            self._sink: _Sink = (
                ParquetRecords(part, header)
                if target.suffix == ".parquet"
                else _Lines(part, header, compress=target.suffix == ".gz")
            )
            undo.callback(self._close)
            self._target, self._finish = target, undo.pop_all()

    def write(self, record: Record) -> None:
        """Add one trajectory's record."""
        with naming(self._target):
            self._sink.write(record)

    def _close(self) -> None:
        with naming(self._target):
            self._sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish.__exit__(kind, error, trace)


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header of a credit file.

    Raises:
        BadRow: not a credit file, or one of a version that this code does not know.
    """
    try:
        if str(path).endswith(".parquet"):
            line = parquet_header(Path(path))
        else:
            with _opened(path) as lines:
                line = next(lines, b"")
    except _DAMAGED:
        line = b""
    return _checked(path, line)


def read_credit(path: str | os.PathLike[str]) -> Iterator[Record]:
    """The records of a credit file, one at a time, equal to what was written.

    Raises:
        BadRow: not a credit file, one of a version that this code does not know, or a damaged record.
    """
    read_header(path)
    binary, done = str(path).endswith(".parquet"), 0
    try:
        for record in parquet_records(Path(path)) if binary else _json_records(path):
            yield record
            done += 1
    except _DAMAGED as error:
        line = done + (1 if binary else 2)
        raise BadRow(str(path), line, "record", f"damaged ({error})", "copy the file again, or score again") from None


def _json_records(path: str | os.PathLike[str]) -> Iterator[Record]:
    with _opened(path) as lines:
        next(lines)
        for line in lines:
            yield json.loads(line)


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if str(path).endswith(".gz") else open(path, "rb")


def _checked(path: str | os.PathLike[str], line: bytes) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise BadRow(str(path), 1, "format", "no header of a credit file", "give a file that `apportion score` wrote")
    if header.get("version") != VERSION:
        found = header.get("version")
        raise BadRow(str(path), 1, "version", f"{found!r} is not {VERSION}", "read it with the apportion that wrote it")
    return header


def _plain(value: Any) -> Any:
    """A setting as JSON has it; what JSON cannot hold is described."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        # Not repr: it may hold an address, and then the same recipe would give another file.
        return getattr(value, "__qualname__", f"<{type(value).__qualname__}>")
