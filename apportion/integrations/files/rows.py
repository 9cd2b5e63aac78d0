"""JSON objects out of a file: one per line, the elements of one list, or one document; plain or gzip-compressed.

A row that cannot be read is yielded as a `BadRow` instead of being raised, so that the caller can go on after it.
"""

from __future__ import annotations

import codecs
import gzip
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias, cast

from apportion.errors import BadRow, InvalidArgument, shorten
from apportion.integrations.strict_json import BadJson, decode_row

__all__ = ["Container", "Progress", "Row", "find_container", "is_plain_lines", "parse_row", "rows"]

Container: TypeAlias = Literal["lines", "list", "document", "parquet"]
Progress: TypeAlias = Callable[[int, int], None]

# No single rollout is larger, and a file without line ends must not be read into memory whole.
MAX_ROW = 256 * 2**20
_CHUNK = 2**20
_HEAD = 2**16
_SPACE = re.compile(r"[ \t\r\n]*+")
# A syntax error closer than this to the end of what was read may only mean that more has to be read.
_LONGEST_TOKEN = 16
_PRETTY_PRINTED = re.compile(rb'\{[ \t\r]*+\n\s*+"')
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True, slots=True)
class Row:
    """One JSON object, its line (or position in a list) from 1, and the bytes it takes in an uncompressed file."""

    line: int
    data: dict[str, Any]
    offset: int = 0
    size: int = 0


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The uncompressed bytes, and the file below them, whose position measures progress."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InvalidArgument(
            "path", str(path), "a regular file: it is read more than once, so save what a pipe brings"
        )
    with open(path, "rb") as raw:
        if raw.peek(2)[:2] != b"\x1f\x8b":
            yield raw, raw
            return
        with gzip.GzipFile(fileobj=raw) as stream:
            yield cast(BinaryIO, stream), raw


def find_container(path: Path) -> Container:
    """How the rows lie in a file, by its first bytes."""
    with _opened(path) as (stream, _):
        try:
            head = stream.read(_HEAD)
        except _DAMAGED:
            return "lines"
    if head.startswith(b"PAR1"):
        return "parquet"
    head = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if head.startswith(b"["):
        return "list"
    return "document" if _PRETTY_PRINTED.match(head) or path.name.removesuffix(".gz").endswith(".traj") else "lines"


def is_plain_lines(path: Path) -> bool:
    """True when a row's line can be read back by its offset: one row per line, and not compressed."""
    with _opened(path) as (stream, raw):
        return stream is raw and find_container(path) == "lines"


def rows(path: Path, kind: Container, progress: Progress | None = None) -> Iterator[Row | BadRow]:
    """Every row of a file that is not Parquet, good or bad; one with damaged compression ends in a bad one.

    Args:
        path: the file.
        kind: what `find_container` found.
        progress: called as `progress(bytes_done, bytes_total)` at least every MiB of the file as it lies on disk.
    """
    total, reported = path.stat().st_size, 0
    with _opened(path) as (stream, raw):
        read = _lines if kind == "lines" else _elements if kind == "list" else _document
        for row in read(str(path), stream):
            yield row
            if progress and raw.tell() - reported >= _CHUNK:
                reported = raw.tell()
                progress(reported, total)
    if progress:
        progress(total, total)


def parse_row(path: str, line: int, body: bytes, *, offset: int = 0, size: int = 0) -> Row | BadRow:
    """The JSON object in `body`, or what is wrong with it."""
    try:
        text = body.decode("utf-8").rstrip()
        start = cast(re.Match[str], _SPACE.match(text)).end()
        data, end = decode_row(text, start)
        if end < len(text):
            raise BadJson("text after the JSON", end)
    except UnicodeDecodeError as error:
        return BadRow(path, line, "line", f"byte {error.start} is not UTF-8", "save the file as UTF-8")
    except BadJson as error:
        at = line + text.count("\n", 0, error.position)
        return BadRow(path, at, "line", f"not JSON: {error}", "write one complete JSON object")
    return _object(path, line, data, offset, size)


def _object(path: str, line: int, data: Any, offset: int = 0, size: int = 0) -> Row | BadRow:
    if isinstance(data, dict):
        return Row(line, data, offset, size)
    problem = f"{shorten(type(data).__name__)} is not a row"
    return BadRow(path, line, "line", problem, "write a JSON object with named fields")


def _too_long(path: str, line: int) -> BadRow:
    problem = f"longer than {MAX_ROW >> 20} MiB; nothing after it was read"
    return BadRow(path, line, "line", problem, "write one rollout per line")


def _damaged(path: str, line: int, error: Exception) -> BadRow:
    problem = f"the compressed data is damaged ({error}); nothing from here on was read"
    return BadRow(path, line, "file", problem, "copy or compress the file again")


def _lines(path: str, stream: BinaryIO) -> Iterator[Row | BadRow]:
    line = offset = 0
    while True:
        line += 1
        try:
            chunk = stream.readline(MAX_ROW + 1)
        except _DAMAGED as error:
            yield _damaged(path, line, error)
            return
        if not chunk:
            return
        if len(chunk) > MAX_ROW:
            yield _too_long(path, line)
            return
        body = chunk.removeprefix(codecs.BOM_UTF8) if line == 1 else chunk
        if body.strip():
            yield parse_row(path, line, body, offset=offset, size=len(chunk))
        offset += len(chunk)


def _document(path: str, stream: BinaryIO) -> Iterator[Row | BadRow]:
    try:
        body = stream.read(MAX_ROW + 1)
    except _DAMAGED as error:
        yield _damaged(path, 1, error)
        return
    if len(body) > MAX_ROW:
        yield _too_long(path, 1)
    elif body.strip():
        yield parse_row(path, 1, body.removeprefix(codecs.BOM_UTF8))


def _elements(path: str, stream: BinaryIO) -> Iterator[Row | BadRow]:
    """The elements of one JSON list; memory holds the largest element twice over, not the list."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    text, place, count, ended = "", 0, 0, False
    expected: Literal["[", "first", "next", ",", "nothing"] = "["
    while True:
        place = cast(re.Match[str], _SPACE.match(text, place)).end()
        data, end, problem = None, place, "the list is never closed"
        if place < len(text) and expected == "[":
            place, expected = place + 1, "first"
            continue
        if place < len(text) and expected == "nothing":
            yield _unreadable(path, count, "something stands after the end of the list")
            return
        if ended and expected == "nothing":
            return
        if place < len(text) and expected in ("first", ",") and text[place] == "]":
            place, expected = place + 1, "nothing"
            continue
        if place < len(text) and expected == ",":
            if text[place] != ",":
                yield _unreadable(path, count, "a comma or the end of the list is missing")
                return
            place, expected = place + 1, "next"
            continue
        if place < len(text):
            try:
                data, end = decode_row(text, place)
            except BadJson as error:
                problem = f"not JSON: {error.problem} at character {error.position - place} of the element"
                if not (error.position >= len(text) - _LONGEST_TOKEN or "Unterminated" in error.problem):
                    yield _unreadable(path, count, problem)
                    return
        if end > place and (end < len(text) or ended):
            count += 1
            yield _object(path, count, data)
            place, expected = end, ","
            continue
        if ended or len(text) - place > MAX_ROW:
            yield _unreadable(path, count, problem)
            return
        try:
            chunk = stream.read(max(_CHUNK, len(text) - place))
            text, place, ended = text[place:] + decoder.decode(chunk, final=not chunk), 0, not chunk
        except UnicodeDecodeError as error:
            yield _unreadable(path, count, f"not UTF-8 ({error.reason})")
            return
        except _DAMAGED as error:
            yield _damaged(path, count + 1, error)
            return


def _unreadable(path: str, count: int, problem: str) -> BadRow:
    remedy = "write a list of JSON objects, or better one object per line"
    return BadRow(path, count + 1, "list", f"{problem}; nothing from here on was read", remedy)
