"""Credit records as a Parquet table: one row per trajectory, the header in the schema's metadata.

Names that vary (terms, observers) are values and not columns, so every file has the same schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from apportion._extras import require

__all__ = ["ParquetRecords", "parquet_header", "parquet_records"]

_KEY = b"apportion_credit"
_ROWS = 512


def _schema(header: Mapping[str, Any]) -> Any:
    pa = require("pyarrow", extra="parquet")
    numbers, flags = pa.list_(pa.float64()), pa.list_(pa.bool_())
    lengths = pa.list_(pa.int64())
    term = pa.struct([("term", pa.string()), ("per", pa.string()), ("values", numbers)])
    verdict = pa.struct(
        [
            ("observer", pa.string()),
            ("turn", pa.int64()),
            ("state", pa.string()),
            ("value", pa.float64()),
            ("text", pa.string()),
        ]
    )
    fields = [
        ("id", pa.string()),
        ("group", pa.string()),
        ("step", pa.int64()),
        ("status", pa.string()),
        ("n_turns", pa.int64()),
        ("lead", pa.int64()),
        ("turns", lengths),
        ("gaps", lengths),
        ("offsets", lengths),
        ("advantages", pa.struct([("per", pa.string()), ("values", numbers)])),
        ("in_loss", pa.struct([("per", pa.string()), ("values", flags)])),
        ("ledger", pa.list_(term)),
        ("residual", pa.float64()),
        ("verdicts", pa.list_(verdict)),
    ]
    return pa.schema(fields, metadata={_KEY: json.dumps(header, allow_nan=False).encode()})


class ParquetRecords:
    """Writes records in row groups of 512."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self._schema = _schema(header)
        self._arrow = require("pyarrow", extra="parquet")
        self._writer = require("pyarrow.parquet", extra="parquet").ParquetWriter(path, self._schema)
        self._rows: list[dict[str, Any]] = []

    def write(self, record: Mapping[str, Any]) -> None:
        """Add one record."""
        self._rows.append(_row(record))
        if len(self._rows) >= _ROWS:
            self._flush()

    def close(self) -> None:
        """Write what is left and the footer."""
        try:
            self._flush()
        finally:
            self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
            self._rows.clear()


def parquet_header(path: Path) -> bytes:
    """The header as it was written; empty where there is none."""
    metadata = require("pyarrow.parquet", extra="parquet").read_schema(path).metadata or {}
    found: bytes = metadata.get(_KEY, b"")
    return found


def parquet_records(path: Path) -> Iterator[dict[str, Any]]:
    """The records, equal to what was written."""
    with require("pyarrow.parquet", extra="parquet").ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS):
            for row in batch.to_pylist():
                yield _record(row)


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    layout, turns = record["layout"], record["layout"]["turns"]
    textual = isinstance(turns, int)
    return {
        **{name: record[name] for name in ("step", "status", "residual")},
        "id": _text(record["id"]),
        "group": _text(record["group"]),
        "n_turns": turns if textual else len(turns),
        "lead": layout.get("lead"),
        "turns": None if textual else turns,
        "gaps": layout.get("gaps"),
        "offsets": layout.get("offsets"),
        "advantages": _listed(record["advantages"]),
        "in_loss": _listed(record["in_loss"]),
        "ledger": [{"term": name, **_listed(column)} for name, column in record["ledger"].items()],
        "verdicts": [row for name, entry in record["verdicts"].items() for row in _verdict_rows(name, entry)],
    }


def _listed(column: Mapping[str, Any]) -> dict[str, Any]:
    values = column["values"]
    return {"per": column["per"], "values": values if isinstance(values, list) else [values]}


def _verdict_rows(name: str, entry: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(entry, list):
        yield _verdict_row(name, None, entry)
        return
    # A rollout without turns has no verdict per turn; the row keeps the observer's name.
    if not entry:
        yield {"observer": name, "turn": -1, "state": "none", "value": None, "text": None}
    for turn, verdict in enumerate(entry):
        yield _verdict_row(name, turn, verdict)


def _verdict_row(name: str, turn: int | None, verdict: Mapping[str, Any]) -> dict[str, Any]:
    state = next((state for state in ("abstained", "failed") if state in verdict), "scored")
    text = verdict.get("evidence") if state == "scored" else verdict[state]
    return {
        "observer": name,
        "turn": turn,
        "state": state,
        "value": verdict.get("value"),
        "text": None if text is None else _text(text),
    }


def _text(value: str) -> str:
    # Parquet text is UTF-8, which has no lone surrogates; JSON has.
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _record(row: Mapping[str, Any]) -> dict[str, Any]:
    layout = {name: row[name] for name in ("lead", "turns", "gaps", "offsets") if row[name] is not None}
    verdicts: dict[str, Any] = {}
    for entry in row["verdicts"]:
        if entry["turn"] is None:
            verdicts[entry["observer"]] = _verdict(entry)
            continue
        turns = verdicts.setdefault(entry["observer"], [])
        if entry["turn"] >= 0:
            turns.append(_verdict(entry))
    return {
        **{name: row[name] for name in ("id", "group", "step", "status")},
        "layout": layout or {"turns": row["n_turns"]},
        "advantages": _column(row["advantages"]),
        "in_loss": _column(row["in_loss"]),
        "ledger": {entry["term"]: _column(entry) for entry in row["ledger"]},
        "residual": row["residual"],
        "verdicts": verdicts,
    }


def _column(entry: Mapping[str, Any]) -> dict[str, Any]:
    values = entry["values"]
    return {"per": entry["per"], "values": values[0] if entry["per"] == "trajectory" else values}


def _verdict(entry: Mapping[str, Any]) -> dict[str, Any]:
    if entry["state"] != "scored":
        return {entry["state"]: entry["text"]}
    return {"value": entry["value"]} | ({"evidence": entry["text"]} if entry["text"] is not None else {})
