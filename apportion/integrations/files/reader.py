"""Trajectories out of a file of any known format, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from apportion.errors import BadRow, InvalidArgument
from apportion.integrations.actions import Syntax
from apportion.integrations.files.detect import CONVERTERS, Format, detect_format, empty_file
from apportion.integrations.files.fields import FieldProblem
from apportion.integrations.files.messages import Place
from apportion.integrations.files.native import TOKEN_FIELDS
from apportion.integrations.files.parquet import parquet_rows
from apportion.integrations.files.rows import Progress, Row, find_container, rows
from apportion.integrations.strict_json import MAX_DEPTH, too_deep
from apportion.rollouts import Trajectory

__all__ = ["Found", "OnError", "check_options", "found_in", "read"]

OnError: TypeAlias = Literal["stop", "skip"]


@dataclass(frozen=True, slots=True)
class Found:
    """A trajectory and the row it came from."""

    trajectory: Trajectory
    row: Row


def read(
    path: str | PathLike[str],
    *,
    format: Format | Literal["auto"] = "auto",
    syntax: Syntax = "auto",
    on_error: OnError = "stop",
    skipped: list[BadRow] | None = None,
    progress: Progress | None = None,
) -> Iterator[Trajectory]:
    """The trajectories of a rollout file, in file order, without reading it whole.

    Args:
        path: a file, plain or gzip-compressed; its rows are lines, the elements of one JSON list, or one document.
        format: "jsonl", "parquet" (both native), "messages", "replies", "sweagent", or "auto" to recognise it.
        syntax: how actions are written in message lists and replies; see `parse_actions`.
        on_error: "stop" raises at the first bad row; "skip" appends it to `skipped` and goes on.
        skipped: where bad rows are collected; required with "skip", because nothing may be lost unseen.
        progress: called now and then as `progress(bytes_done, bytes_total)`.

    Returns:
        An iterator. It remembers every id in order to refuse a second one; for files with more rows than memory has
        room for ids, use `RolloutIndex`.

    Raises:
        InvalidArgument: an unknown option, or "skip" without a list.
        BadRow: while iterating, with file, line, field and remedy. A file without rows is one.
        MissingExtra: a Parquet file, and pyarrow is not installed.
        OSError: the file cannot be opened.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "group.jsonl")
        >>> _ = path.write_text('{"prompt": "2+2", "replies": ["4", "5"], "rewards": [1, 0]}')
        >>> [(t.id, t.turns[0].text, t.columns["reward"]) for t in read(path)]
        [('line1-0', '4', 1.0), ('line1-1', '5', 0.0)]
    """
    check_options(format, on_error, skipped)
    return _read(Path(path), format, syntax, on_error, skipped, progress)


def check_options(format: str, on_error: str, skipped: list[BadRow] | None) -> None:
    """Refuse options that no file could make right."""
    if format not in ("auto", *get_args(Format)):
        raise InvalidArgument("format", format, f"one of auto, {', '.join(get_args(Format))}")
    if on_error not in get_args(OnError):
        raise InvalidArgument("on_error", on_error, f"one of {', '.join(get_args(OnError))}")
    if on_error == "skip" and skipped is None:
        raise InvalidArgument("skipped", None, "a list that collects the rows that on_error='skip' leaves out")


def _read(
    path: Path,
    format: Format | Literal["auto"],
    syntax: Syntax,
    on_error: OnError,
    skipped: list[BadRow] | None,
    progress: Progress | None,
) -> Iterator[Trajectory]:
    lines: dict[str, int] = {}
    for item in found_in(path, format, syntax=syntax, progress=progress):
        if isinstance(item, Found):
            first = lines.setdefault(item.trajectory.id, item.row.line)
            if first == item.row.line:
                yield item.trajectory
                continue
        problem = item if isinstance(item, BadRow) else duplicate(path, item.trajectory.id, first, item.row.line)
        if on_error == "stop" or skipped is None:
            raise problem
        skipped.append(problem)


def duplicate(path: Path, id: str, first: int, line: int) -> BadRow:
    """A row whose id was already taken."""
    return BadRow(
        str(path), line, "id", f"{id[:80]!r} is already the id of line {first}", "give every rollout its own id"
    )


def found_in(
    path: Path, format: Format | Literal["auto"], *, syntax: Syntax, progress: Progress | None
) -> Iterator[Found | BadRow]:
    """Every trajectory and every bad row of a file; ids are not compared."""
    if format == "auto":
        format = detect_format(path)
    kind = find_container(path)
    if (kind == "parquet") != (format == "parquet"):
        problem = f"named as {format}, but it {'is' if kind == 'parquet' else 'is not'} a Parquet file"
        yield BadRow(str(path), 1, "file", problem, "name the format that the file has")
        return
    empty = True
    for row in parquet_rows(path, progress) if kind == "parquet" else rows(path, kind, progress):
        empty = False
        yield from [row] if isinstance(row, BadRow) else _convert(row, path, format, syntax)
    if empty:
        yield empty_file(str(path))


def _convert(row: Row, path: Path, format: Format, syntax: Syntax) -> list[Found | BadRow]:
    native = format in ("jsonl", "parquet")
    convert = CONVERTERS["jsonl" if format == "parquet" else format]
    stem = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    try:
        if too_deep(value for name, value in row.data.items() if not (native and name in TOKEN_FIELDS)):
            raise FieldProblem("row", f"nested deeper than {MAX_DEPTH} levels", "write flatter data")
        # All or nothing: a row that fails half way through must not have yielded the first half.
        return [Found(trajectory, row) for trajectory in convert(row.data, Place(row.line, stem, syntax))]
    except FieldProblem as bad:
        return [BadRow(str(path), row.line, bad.field, bad.problem, bad.remedy)]
    except InvalidArgument as bad:
        return [BadRow(str(path), row.line, bad.argument, "refused", f"expected {bad.expected}")]
