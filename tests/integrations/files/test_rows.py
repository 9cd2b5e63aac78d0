"""Every way a file can be damaged ends in an error that names the place, never in a shorter result."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import BadRow
from apportion.integrations.files import rows as module
from apportion.integrations.files.rows import Row, find_container, is_plain_lines, rows
from tests.integrations.files.builders import write_lines


def scan(path: Path) -> list[Row | BadRow]:
    return list(rows(path, find_container(path)))


def of(path: Path) -> list[object]:
    """Values of good rows, and lines of bad ones with the problem."""
    return [row.data if isinstance(row, Row) else (row.line, row.problem) for row in scan(path)]


def test_blank_lines_byte_order_mark_and_windows_line_ends_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"k": 1}\r\n\r\n  \n{"k": 2}')
    assert [(row.line, row.data) for row in scan(path) if isinstance(row, Row)] == [(1, {"k": 1}), (4, {"k": 2})]


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"k": "a\u2028b\x85c"}\n', encoding="utf-8")
    assert of(path) == [{"k": "a\u2028b\x85c"}]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_offsets_point_at_the_lines(tmp_path: Path, name: str) -> None:
    path = write_lines(tmp_path / name, {"k": "é"}, "", {"k": 2})
    data = gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()
    found = [row for row in scan(path) if isinstance(row, Row)]
    assert [json.loads(data[row.offset : row.offset + row.size]) for row in found] == [{"k": "é"}, {"k": 2}]


def test_compression_is_seen_in_the_bytes_and_not_in_the_name(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(b'{"k": 1}\n'))
    assert of(path) == [{"k": 1}]
    assert not is_plain_lines(path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"k": 1', "not JSON: Expecting ',' delimiter at character 7"),
        (b'{"k": 1} {"k": 2}', "not JSON: text after the JSON at character 8"),
        (b'{"k": 1, "k": 2}', "not JSON: key 'k' appears twice at character 0"),
        (b'{"k": ' + b"9" * 5000 + b"}", "not JSON: Exceeds the limit (4300 digits)"),
        (b'{"k": ' + b"[" * 100_000, "not JSON: nested deeper than 64 levels"),
        (b'{"k": "\xff"}', "byte 7 is not UTF-8"),
        (b"\x00\x00", "not JSON: Expecting value"),
        (b"3", "'int' is not a row"),
        (b'"text"', "'str' is not a row"),
    ],
)
def test_a_bad_line_is_named_and_the_next_one_is_read(tmp_path: Path, line: bytes, problem: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"k": 0}\n' + line + b'\n{"k": 2}\n')
    first, bad, last = scan(path)
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.path) == (2, str(path))
    assert bad.problem.startswith(problem)
    assert isinstance(first, Row)
    assert isinstance(last, Row)
    assert last.data == {"k": 2}


@pytest.mark.parametrize("kept", [10, 60, -9, -1])
def test_truncated_compression_ends_in_an_error(tmp_path: Path, kept: int) -> None:
    path = write_lines(tmp_path / "a.jsonl.gz", *({"k": k, "text": str(hash(k) * 7919)} for k in range(50)))
    path.write_bytes(path.read_bytes()[:kept])
    *_, last = scan(path)
    assert isinstance(last, BadRow)
    assert (last.field, "damaged" in last.problem) == ("file", True)


def test_flipped_bits_in_compression_end_in_an_error(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl.gz", {"k": "some text that is long enough"})
    data = bytearray(path.read_bytes())
    data[-6] ^= 0xFF
    path.write_bytes(data)
    *_, last = scan(path)
    assert isinstance(last, BadRow)


@pytest.mark.parametrize("start", [b"{", b"[{", b'{\n"k":'])
def test_a_row_without_end_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(module, "MAX_ROW", 5000)
    monkeypatch.setattr(module, "_CHUNK", 1000)
    path = tmp_path / "a.json"
    path.write_bytes(start + b'"k": "' + b"x" * 20_000)
    (bad,) = scan(path)
    assert isinstance(bad, BadRow)


# --- one JSON list


@given(
    st.lists(
        st.dictionaries(st.text(), st.text() | st.integers() | st.floats(allow_nan=False), max_size=4), max_size=5
    ),
    st.integers(1, 40),
    st.sampled_from([None, 2]),
)
def test_a_list_gives_its_elements_wherever_the_chunks_end(
    tmp_path_factory: pytest.TempPathFactory, elements: list[object], chunk: int, indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("list") / "a.json"
    path.write_text(json.dumps(elements, indent=indent, ensure_ascii=False), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", chunk)
        assert of(path) == elements


@pytest.mark.parametrize(
    ("text", "before", "problem"),
    [
        ('[{"k": 1}', 1, "the list is never closed"),
        ('[{"k": 1},', 1, "the list is never closed"),
        ("[", 0, "the list is never closed"),
        ('[{"k": 1} {"k": 2}]', 1, "a comma or the end of the list is missing"),
        ('[{"k": 1}, {"k" 2' + " " * 50 + "}]", 1, "not JSON: Expecting ':' delimiter at character 5 of the element"),
        ('[{"k": 1}, {"k": "x', 1, "not JSON: Unterminated string starting at character 6 of the element"),
        ('[{"k": 1}] {"k": 2}', 1, "something stands after the end of the list"),
        ('[{"k": 1}]\n\n]', 1, "something stands after the end of the list"),
        ("[] [", 0, "something stands after the end of the list"),
        ('[{"k": 1}, ]', 1, "not JSON: Expecting value at character 0 of the element"),
    ],
)
def test_a_broken_list_gives_what_came_before_and_an_error(
    tmp_path: Path, text: str, before: int, problem: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    *good, bad = scan(path)
    assert isinstance(bad, BadRow)
    assert (len(good), bad.line) == (before, before + 1)
    assert bad.problem == f"{problem}; nothing from here on was read"


def test_elements_that_are_no_objects_are_bad_rows_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[1, {"k": 2}, null, "x", [3]]')
    good = [row for row in scan(path) if isinstance(row, Row)]
    assert [(row.line, row.data) for row in good] == [(2, {"k": 2})]
    assert [row.line for row in scan(path) if isinstance(row, BadRow)] == [1, 3, 4, 5]


def test_a_list_that_is_not_utf8_ends_in_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"k": "\xff"}]')
    (bad,) = scan(path)
    assert isinstance(bad, BadRow)
    assert "not UTF-8" in bad.problem


# --- one document


def test_a_pretty_printed_document_is_one_row_and_its_error_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"k": {"a": 1}}, indent=2))
    assert of(path) == [{"k": {"a": 1}}]
    path.write_text('{\n  "k": 1,\n  oops\n}')
    (bad,) = scan(path)
    assert isinstance(bad, BadRow)
    assert bad.line == 3


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 100)
    path = write_lines(tmp_path / "a.jsonl", *({"k": k} for k in range(100)))
    size = path.stat().st_size
    calls: list[tuple[int, int]] = []
    list(rows(path, "lines", lambda done, total: calls.append((done, total))))
    assert calls[-1] == (size, size)
    assert len(calls) > 5
    assert calls == sorted(calls)
