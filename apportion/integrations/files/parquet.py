"""Native Parquet: the native row in columns.

    id, group, status, error      string
    step                          int64
    prompt_ids, response_ids      list<int32>     an Arrow list column is the packed layout: values and offsets
    policy, own                   list<bool>
    behaviour_logps               list<double>    what was recorded, to the last bit
    policy_version                list<int64>
    token_columns                 map<string, list<double>>
    turns                         list<struct<text, actions: list<struct<...>>, observation, start, stop, reward, ...>>
    messages                      list<string>    each a JSON object
    reference, columns            string          JSON; so are `arguments` and the `columns` of a turn

A null means what a field left out means in native JSONL. The schema version is in the file's metadata as "apportion".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from apportion._extras import require
from apportion.errors import BadRow, InvalidArgument
from apportion.integrations.files.native import SCHEMA_VERSION, TOKEN_FIELDS, VERSION_KEY, as_json
from apportion.integrations.files.rows import Progress, Row
from apportion.integrations.strict_json import BadJson, decode_row

__all__ = ["ParquetSink", "parquet_rows"]

_READ_ROWS = 64
_GROUP_BYTES = 16 * 2**20
_JSON_FIELDS = ("reference", "columns")


def _schema(pa: Any) -> Any:
    action = pa.struct([(name, pa.string()) for name in ("name", "arguments", "raw", "syntax", "call_id", "error")])
    turn = pa.struct(
        [
            ("text", pa.string()),
            ("actions", pa.list_(action)),
            ("observation", pa.string()),
            ("start", pa.int64()),
            ("stop", pa.int64()),
            ("reward", pa.float64()),
            ("executed", pa.bool_()),
            ("columns", pa.string()),
        ]
    )
    tokens = {"prompt_ids": pa.int32(), "response_ids": pa.int32(), "behaviour_logps": pa.float64()}
    tokens |= {"policy": pa.bool_(), "own": pa.bool_(), "policy_version": pa.int64()}
    fields = [("id", pa.string()), ("group", pa.string()), ("step", pa.int64())]
    fields += [(name, pa.list_(tokens[name])) for name in TOKEN_FIELDS]
    fields += [("token_columns", pa.map_(pa.string(), pa.list_(pa.float64())))]
    fields += [("status", pa.string()), ("error", pa.string()), ("reference", pa.string())]
    fields += [("turns", pa.list_(turn)), ("messages", pa.list_(pa.string())), ("columns", pa.string())]
    return pa.schema(fields, metadata={VERSION_KEY: str(SCHEMA_VERSION)})


class ParquetSink:
    """Writes native rows into a Parquet file, one row group per 16 MiB or so."""

    def __init__(self, path: Path) -> None:
        self._pa = require("pyarrow", extra="parquet")
        self._schema = _schema(self._pa)
        parquet = require("pyarrow.parquet", extra="parquet")
        self._writer = parquet.ParquetWriter(path, self._schema, compression="zstd", compression_level=1)
        self._rows: list[Mapping[str, Any]] = []
        self._bytes = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Take one row; free data must be JSON."""
        stored = _stored(row)
        self._rows.append(stored)
        self._bytes += sum(
            value.nbytes if isinstance(value, np.ndarray) else len(str(value)) for value in stored.values()
        )
        if self._bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is left and finish the file."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if not self._rows:
            return
        arrays = [self._array(field) for field in self._schema]
        self._writer.write_table(self._pa.Table.from_arrays(arrays, schema=self._schema))
        self._rows, self._bytes = [], 0

    def _array(self, field: Any) -> Any:
        values = [row.get(field.name) for row in self._rows]
        try:
            if field.name not in TOKEN_FIELDS:
                return self._pa.array(values, type=field.type)
            parts = [value for value in values if value is not None]
            flat = self._pa.array(np.concatenate(parts) if parts else [], type=field.type.value_type)
            offsets = np.cumsum([0] + [0 if value is None else value.size for value in values], dtype=np.int32)
            absent = self._pa.array([value is None for value in values], type=self._pa.bool_())
            return self._pa.ListArray.from_arrays(self._pa.array(offsets), flat, type=field.type, mask=absent)
        except (self._pa.ArrowInvalid, UnicodeEncodeError, OverflowError) as error:
            ids = f"trajectories {self._rows[0]['id']!r} to {self._rows[-1]['id']!r}"
            expected = f"values that Parquet can hold as {field.type} ({error}); native JSONL takes any"
            raise InvalidArgument(field.name, ids, expected) from None


def _stored(row: Mapping[str, Any]) -> dict[str, Any]:
    where = f"trajectory {row['id']!r}"
    stored = {name: value for name, value in row.items() if name != VERSION_KEY}
    for name in TOKEN_FIELDS:
        if name in stored:
            stored[name] = np.asarray(stored[name])
    for name in _JSON_FIELDS:
        if name in stored:
            stored[name] = as_json(stored[name], where=where)
    if "token_columns" in stored:
        stored["token_columns"] = list(stored["token_columns"].items())
    if "messages" in stored:
        stored["messages"] = [as_json(message, where=where) for message in stored["messages"]]
    if "turns" in stored:
        stored["turns"] = [_stored_turn(turn, where) for turn in stored["turns"]]
    return stored


def _stored_turn(turn: Mapping[str, Any], where: str) -> dict[str, Any]:
    stored = {name: value for name, value in turn.items() if name != "span"}
    if "span" in turn:
        stored["start"], stored["stop"] = turn["span"]
    if "columns" in stored:
        stored["columns"] = as_json(stored["columns"], where=where)
    if "actions" in stored:
        stored["actions"] = [
            action | ({"arguments": as_json(action["arguments"], where=where)} if "arguments" in action else {})
            for action in stored["actions"]
        ]
    return stored


def parquet_rows(path: Path, progress: Progress | None = None) -> Iterator[Row | BadRow]:
    """The rows of a native Parquet file as native JSONL would hold them; token fields are arrays."""
    pa = require("pyarrow", extra="parquet")
    parquet = require("pyarrow.parquet", extra="parquet")
    expected, total, line = _schema(pa), path.stat().st_size, 0
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            version = (file.schema_arrow.metadata or {}).get(VERSION_KEY.encode())
            if version is None or len(set(names)) < len(names):
                problem = f"Parquet with columns {', '.join(names)[:200]}, not written by apportion"
                remedy = "convert it: read your rows, build Trajectory, call write"
                yield BadRow(str(path), 1, "schema", problem, remedy)
                return
            for batch in file.iter_batches(batch_size=_READ_ROWS):
                columns = {name: _column(name, batch.column(name), expected) for name in names}
                for k in range(batch.num_rows):
                    line += 1
                    stored = {name: column[k] for name, column in columns.items() if column[k] is not None}
                    yield _row(str(path), line, {VERSION_KEY: _version(version)} | stored)
                if progress:
                    progress(total * line // file.metadata.num_rows, total)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        yield BadRow(str(path), line + 1, "file", f"damaged Parquet ({str(error)[:200]})", "write the file again")


def _version(written: bytes) -> int | str:
    text = written.decode("utf-8", "replace")
    return int(text) if text.isdecimal() and len(text) < 10 else text


def _column(name: str, array: Any, expected: Any) -> list[Any]:
    # Other tools rewrite the same data with wider offsets or integers; what does not convert back is damage.
    if name in expected.names:
        array = array.cast(expected.field(name).type)
    if name not in TOKEN_FIELDS:
        listed: list[Any] = array.to_pylist()
        return listed
    values = array.values.to_numpy(zero_copy_only=False)
    offsets = array.offsets.to_numpy()
    present = array.is_valid().to_numpy(zero_copy_only=False)
    return [values[offsets[k] : offsets[k + 1]] if present[k] else None for k in range(len(present))]


def _row(path: str, line: int, data: dict[str, Any]) -> Row | BadRow:
    parsers: Mapping[str, Callable[[Any], Any]] = {
        "reference": _parsed,
        "columns": _parsed,
        "token_columns": _token_columns,
        "messages": lambda stored: [_parsed(message) for message in stored],
        "turns": lambda stored: [_turn(turn) for turn in stored],
    }
    for field, parse in parsers.items():
        try:
            if field in data:
                data[field] = parse(data[field])
        except BadJson as error:
            return BadRow(path, line, field, f"not JSON: {error}", "write the file with apportion")
    return Row(line, data)


def _token_columns(stored: list[tuple[str, list[float | None] | None]]) -> dict[str, list[float | None]]:
    return {name: values or [] for name, values in stored}


def _parsed(text: str | None) -> Any:
    if text is None:
        raise BadJson("null", 0)
    value, end = decode_row(text)
    if end < len(text):
        raise BadJson("text after the JSON", end)
    return value


def _turn(stored: dict[str, Any] | None) -> dict[str, Any]:
    if stored is None:
        raise BadJson("null", 0)
    turn = {name: value for name, value in stored.items() if value is not None}
    start, stop = turn.pop("start", None), turn.pop("stop", None)
    if start is not None:
        turn["span"] = [start, stop]
    if "columns" in turn:
        turn["columns"] = _parsed(turn["columns"])
    if "actions" in turn:
        turn["actions"] = [_action(action) for action in turn["actions"]]
    return turn


def _action(stored: dict[str, Any] | None) -> dict[str, Any]:
    if stored is None:
        raise BadJson("null", 0)
    action = {name: value for name, value in stored.items() if value is not None}
    if "arguments" in action:
        action["arguments"] = _parsed(action["arguments"])
    return action
