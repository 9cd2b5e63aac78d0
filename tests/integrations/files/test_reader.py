from __future__ import annotations

import contextlib
import gzip
import importlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import BadRow, InvalidArgument
from apportion.integrations.files import detect_format, read, write
from apportion.rollouts import Trajectory
from tests.integrations.files.builders import native, write_lines


def test_stop_gives_the_rows_before_the_bad_one(tmp_path: Path) -> None:
    rollouts = read(write_lines(tmp_path / "a.jsonl", native("a"), "{", native("b")))
    assert next(rollouts).id == "a"
    with pytest.raises(BadRow, match=r"a\.jsonl:2: field 'line': not JSON"):
        next(rollouts)


def test_skip_lists_every_row_it_leaves_out(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "a.jsonl", "{", native("a"), native("b", policy=[1]), native("a"), {"apportion": 2}, native("c")
    )
    skipped: list[BadRow] = []
    assert [t.id for t in read(path, on_error="skip", skipped=skipped)] == ["a", "c"]
    assert [(bad.line, bad.field) for bad in skipped] == [
        (1, "line"),
        (3, "response_ids"),
        (4, "id"),
        (5, "apportion"),
    ]


def test_a_second_row_with_an_id_names_both_lines(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", native(3), native("b"), "", native("3"))
    with pytest.raises(BadRow, match="'3' is already the id of line 1") as caught:
        list(read(path))
    assert (caught.value.line, caught.value.field) == (4, "id")


@pytest.mark.parametrize("content", [b"", b"\n \n", gzip.compress(b"", mtime=0), b"[]", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("format", ["auto", "jsonl", "messages"])
def test_a_file_without_rows_is_an_error_and_not_an_empty_result(tmp_path: Path, content: bytes, format: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(BadRow, match="the file holds no rows"):
        list(read(path, format=format))  # type: ignore[arg-type]


def test_reading_is_lazy(tmp_path: Path) -> None:
    """A file far larger than memory is read row by row: the first row comes without a look at the last."""
    path = write_lines(tmp_path / "a.jsonl", native("a"), *["{"] * 1000)
    assert next(read(path)).id == "a"


def test_progress_reaches_the_whole_file(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.jsonl.gz", "a.parquet"):
        path = tmp_path / name
        write([Trajectory(id="a", group="g")], path)
        calls: list[tuple[int, int]] = []
        list(read(path, progress=lambda done, total, calls=calls: calls.append((done, total))))  # type: ignore[misc]
        assert calls[-1] == (path.stat().st_size,) * 2


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"format": "csv"}, "format"),
        ({"on_error": "ignore"}, "on_error"),
        ({"on_error": "skip"}, "skipped"),
    ],
)
def test_options_are_refused_before_the_file_is_opened(options: dict[str, str], argument: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read("no such file", **options)  # type: ignore[arg-type]
    assert caught.value.argument == argument


def test_a_missing_file_is_the_usual_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read(tmp_path / "a.jsonl"))


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    """It would be read empty while its format is recognised, and then hold no rows."""
    path = tmp_path / "a.jsonl"
    os.mkfifo(path)
    with pytest.raises(InvalidArgument, match="a regular file"):
        list(read(path))


# --- recognising formats


def test_a_row_of_no_known_format_lists_what_was_found_and_what_would_do(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", {"question": "?", "response": "!"})
    with pytest.raises(BadRow) as caught:
        detect_format(path)
    assert "'question', 'response'" in caught.value.problem
    assert "name the format" in caught.value.remedy


def test_unreadable_first_rows_do_not_hide_the_format(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", "{", "", native("a"))
    assert detect_format(path) == "jsonl"


def test_a_file_of_unreadable_rows_raises_the_first_of_them(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", "", "{", "nonsense")
    with pytest.raises(BadRow, match=r"a\.jsonl:2"):
        detect_format(path)


def test_a_native_row_without_its_version_asks_for_it(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", {"id": "a", "group": "g"})
    with pytest.raises(BadRow, match='start each native row with "apportion": 1'):
        list(read(path, format="jsonl"))


def test_a_named_format_is_not_second_guessed(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", {"group": "g", "replies": ["x"], "messages": [{"role": "assistant"}]})
    assert detect_format(path) == "replies"
    assert [t.id for t in read(path, format="messages")] == ["g-line1"]


# --- Parquet that is not ours, or no longer whole


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    importlib.import_module("pyarrow")
    write([Trajectory(id=str(k), group="g", response_ids=[k]) for k in range(5)], tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


def test_parquet_is_recognised_by_its_bytes(parquet: Path, tmp_path: Path) -> None:
    moved = parquet.rename(tmp_path / "a.jsonl")
    assert detect_format(moved) == "parquet"
    assert len(list(read(moved))) == 5


@pytest.mark.parametrize("kept", [4, 100, -20])
def test_damaged_parquet_is_a_bad_row(parquet: Path, kept: int) -> None:
    parquet.write_bytes(parquet.read_bytes()[:kept])
    with pytest.raises(BadRow, match="damaged Parquet"):
        list(read(parquet))


def test_parquet_of_another_origin_says_how_to_convert(tmp_path: Path) -> None:
    pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    pq.write_table(pa.table({"prompt": ["x"], "reward": [1.0]}), tmp_path / "a.parquet")
    with pytest.raises(BadRow, match="columns prompt, reward, not written by apportion"):
        list(read(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metadata": {"apportion": "2"}}, "apportion"),
        ({"metadata": {"apportion": "x"}}, "apportion"),
        ({"metadata": {"apportion": "9" * 5000}}, "apportion"),
        ({"columns": "{"}, "columns"),
        ({"columns": "{} {}"}, "columns"),
        ({"columns": "[]"}, "columns"),
        ({"messages": ["x"]}, "messages"),
        ({"messages": [None]}, "messages"),
        ({"messages": [3]}, "messages[0]"),
        ({"turns": [None]}, "turns"),
        ({"turns": ["x"]}, "file"),
        ({"turns": 3.5}, "file"),
        ({"response_ids": "1 2"}, "file"),
        ({"response_ids": [1.5]}, "file"),
        ({"response_ids": [2**40]}, "file"),
        ({"response_ids": [1, None]}, "response_ids"),
        ({"drop": "group"}, "group"),
        ({"extra": 1.0}, "extra"),
    ],
)
def test_parquet_that_was_edited_is_checked_like_any_row(parquet: Path, change: dict[str, object], field: str) -> None:
    pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    table = pq.read_table(parquet)
    for name, value in change.items():
        if name == "metadata":
            table = table.replace_schema_metadata(value)
        elif name == "drop":
            table = table.drop_columns([value])
        elif name == "extra":
            table = table.append_column("extra", pa.array([value] * 5))
        else:
            table = table.set_column(table.schema.get_field_index(name), name, pa.array([value] * 5))
    pq.write_table(table, parquet)
    with pytest.raises(BadRow) as caught:
        list(read(parquet))
    assert (caught.value.line, caught.value.field) == (1, field)


def test_a_format_that_the_file_does_not_have_is_named(parquet: Path, tmp_path: Path) -> None:
    with pytest.raises(BadRow, match="named as jsonl, but it is a Parquet file"):
        list(read(parquet, format="jsonl"))
    with pytest.raises(BadRow, match="named as parquet, but it is not a Parquet file"):
        list(read(write_lines(tmp_path / "b.jsonl", native("a")), format="parquet"))


def test_parquet_rewritten_with_wider_types_is_the_same(parquet: Path) -> None:
    pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    table = pq.read_table(parquet)
    wide = {"id": pa.large_string(), "response_ids": pa.large_list(pa.int64())}
    for name, type in wide.items():
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(type))
    pq.write_table(table, parquet)
    assert [(t.id, list(t.response_ids)) for t in read(parquet)] == [(str(k), [k]) for k in range(5)]  # type: ignore[arg-type]


# --- anything at all

WORDS = """
apportion id group step response_ids policy status error turns columns messages traj reward info replies rewards trial
finish_reasons trajectory history role content tool_calls action response exit_status task_id text actions name span
"""
KNOWN = st.sampled_from(WORDS.split())
LEAF = st.none() | st.booleans() | st.integers(-1, 2) | st.floats() | st.sampled_from(["", "a", "assistant", "aborted"])
ANYTHING = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KNOWN, inner, max_size=5), max_leaves=12
)


@pytest.mark.parametrize("format", ["auto", "jsonl", "messages", "replies", "sweagent"])
@given(rows=st.lists(st.dictionaries(KNOWN, ANYTHING, max_size=8), min_size=1, max_size=2), version=st.booleans())
def test_no_row_crashes_a_reader_and_none_disappears(
    tmp_path_factory: pytest.TempPathFactory, format: str, rows: list[dict[str, object]], version: bool
) -> None:
    if version:
        rows = [{"apportion": 1, "id": "a", "group": "g"} | row for row in rows]
    path = write_lines(tmp_path_factory.mktemp("any") / "a.jsonl", *rows)
    skipped: list[BadRow] = []
    try:
        found = list(read(path, format=format, on_error="skip", skipped=skipped))  # type: ignore[arg-type]
    except BadRow:
        assert format == "auto"
        return
    if format != "replies":
        assert len(found) + len(skipped) == len(rows)


@given(
    place=st.integers(0, 2000), byte=st.integers(0, 255), name=st.sampled_from(["a.jsonl", "a.jsonl.gz", "a.parquet"])
)
def test_a_flipped_byte_never_crashes_a_reader(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int, name: str
) -> None:
    path = tmp_path_factory.mktemp("flip") / name
    write([Trajectory(id=str(k), group="g", response_ids=[k], columns={"reward": 1.0}) for k in range(4)], path)
    data = bytearray(path.read_bytes())
    data[place % len(data)] = byte
    path.write_bytes(data)
    with contextlib.suppress(BadRow):
        list(read(path, on_error="skip", skipped=[]))
