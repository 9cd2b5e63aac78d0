"""Which format a file has: by how it begins and by the fields of its first readable row, never by luck."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

from apportion.errors import BadRow
from apportion.integrations.files import messages, native, replies, sweagent
from apportion.integrations.files.messages import CONVERSATIONS, Place
from apportion.integrations.files.native import VERSION_KEY
from apportion.integrations.files.replies import REPLIES
from apportion.integrations.files.rows import Row, find_container, rows
from apportion.rollouts import Trajectory

__all__ = ["CONVERTERS", "Format", "detect_format"]

Format: TypeAlias = Literal["jsonl", "parquet", "messages", "replies", "sweagent"]
Convert: TypeAlias = Callable[[Mapping[str, Any], Place], Iterator[Trajectory]]


def _native(row: Mapping[str, Any], place: Place) -> Iterator[Trajectory]:
    return native.from_row(row)


CONVERTERS: Mapping[Format, Convert] = {
    "jsonl": _native,
    "messages": messages.from_row,
    "replies": replies.from_row,
    "sweagent": sweagent.from_row,
}
# Rows that cannot be read do not stop recognition before this many, since the reader may be told to skip them.
_LOOK = 100


def detect_format(path: str | PathLike[str]) -> Format:
    """The format of a rollout file.

    Parquet by its first bytes; otherwise by the first row that is a JSON object: native if it has "apportion",
    SWE-agent if its "trajectory" is a list of steps with an "action" (or it has a "history" and no conversation),
    replies if it has a list of texts, messages if it has a list of objects with a "role".

    Raises:
        BadRow: no row could be read, or the first one fits no format; names the fields that were found.
        OSError: the file cannot be opened.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "group.jsonl")
        >>> _ = path.write_text('{"prompt": "2+2", "replies": ["4", "5"], "rewards": [1, 0]}')
        >>> detect_format(path)
        'replies'
    """
    source = Path(path)
    kind = find_container(source)
    if kind == "parquet":
        return "parquet"
    first: BadRow | None = None
    for row in islice(rows(source, kind), _LOOK):
        if isinstance(row, Row):
            return _by_fields(str(source), row)
        first = first or row
    raise first or empty_file(str(source))


def empty_file(path: str) -> BadRow:
    """An empty file is not an empty list of rollouts: something before it went wrong."""
    return BadRow(path, 1, "file", "the file holds no rows", "check what wrote it")


def _by_fields(path: str, row: Row) -> Format:
    data = row.data
    steps = _first(data.get("trajectory"))
    if VERSION_KEY in data:
        return "jsonl"
    if (isinstance(steps, Mapping) and "action" in steps) or ("history" in data and not _conversation(data)):
        return "sweagent"
    if any(isinstance(_first(data.get(name)), str) for name in REPLIES):
        return "replies"
    if _conversation(data):
        return "messages"
    found = ", ".join(sorted(map(repr, data)))[:300] or "none"
    remedy = (
        f"native rows start with {VERSION_KEY!r}; message lists have one of {', '.join(CONVERSATIONS)}; "
        f"replies have one of {', '.join(REPLIES)}; SWE-agent runs have 'trajectory'; or name the format"
    )
    raise BadRow(path, row.line, "row", f"no known format has the fields {found}", remedy)


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _conversation(data: Mapping[str, Any]) -> bool:
    heads = (_first(data.get(name)) for name in CONVERSATIONS)
    return any(isinstance(head, Mapping) and "role" in head for head in heads)
