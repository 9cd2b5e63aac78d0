from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import BadRow, InvalidArgument
from apportion.integrations.files import RolloutIndex, write
from apportion.rollouts import Trajectory
from tests.integrations.files.builders import ROLLOUTS, assert_same, native, write_lines

NAMES = ["a.jsonl", "a.jsonl.gz", "a.parquet"]


def ids(chunks: Iterator[list[Trajectory]]) -> list[list[str]]:
    return [[t.id for t in chunk] for chunk in chunks]


def scattered(path: Path, groups: str, steps: list[int | None] | None = None) -> Path:
    """One rollout per letter: its group; ids are the letter with its position."""
    write(
        [
            Trajectory(id=f"{group}{k}", group=group, step=steps[k] if steps else None, response_ids=[k])
            for k, group in enumerate(groups)
        ],
        path,
    )
    return path


@pytest.mark.parametrize("name", NAMES)
def test_groups_come_whole_in_order_of_first_appearance(tmp_path: Path, name: str) -> None:
    with RolloutIndex(scattered(tmp_path / name, "bacab")) as index:
        assert (len(index), index.n_groups, index.n_steps) == (5, 3, 1)
        assert ids(index.groups(chunk_trajectories=1)) == [["b0", "b4"], ["a1", "a3"], ["c2"]]
        assert ids(index.groups()) == [["b0", "b4", "a1", "a3", "c2"]]


@given(groups=st.text("abcdef", min_size=1, max_size=40), most=st.integers(1, 12), most_bytes=st.integers(1, 900))
def test_chunks_hold_whole_groups_up_to_the_bounds(
    tmp_path_factory: pytest.TempPathFactory, groups: str, most: int, most_bytes: int
) -> None:
    path = scattered(tmp_path_factory.mktemp("index") / "a.jsonl", groups)
    sizes = {json.loads(line)["id"]: len(line) for line in path.read_bytes().splitlines(keepends=True)}
    with RolloutIndex(path) as index:
        chunks = list(index.groups(chunk_trajectories=most, chunk_bytes=most_bytes))
    flat = [t for chunk in chunks for t in chunk]
    assert [t.id for t in flat] == sorted((t.id for t in flat), key=lambda id: (groups.index(id[0]), int(id[1:])))
    assert len(flat) == len(groups)
    held = [{t.group for t in chunk} for chunk in chunks]
    assert sum(len(names) for names in held) == len(set(groups))
    for chunk, names in zip(chunks, held, strict=True):
        within = len(chunk) <= most and sum(sizes[t.id] for t in chunk) <= most_bytes
        assert within or len(names) == 1
    for chunk, after in pairwise(chunks):
        joined = [*chunk, *(t for t in after if t.group == after[0].group)]
        assert len(joined) > most or sum(sizes[t.id] for t in joined) > most_bytes


def test_steps_come_whole_and_in_the_order_of_time(tmp_path: Path) -> None:
    with RolloutIndex(scattered(tmp_path / "a.jsonl", "aabbc", [7, 3, 7, None, 3])) as index:
        assert index.n_steps == 3
        assert ids(index.steps(chunk_trajectories=1)) == [["a1", "c4"], ["a0", "b2"], ["b3"]]


@pytest.mark.parametrize("name", NAMES)
@given(rollouts=ROLLOUTS)
def test_what_is_read_by_groups_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, name: str, rollouts: tuple[Trajectory, ...]
) -> None:
    path = tmp_path_factory.mktemp("index") / name
    write(rollouts, path)
    with RolloutIndex(path) as index:
        found = {t.id: t for chunk in index.groups(chunk_trajectories=1) for t in chunk}
    assert len(found) == len(rollouts)
    for before in rollouts:
        assert_same(before, found[before.id])


def test_other_formats_are_indexed_too(tmp_path: Path) -> None:
    rows = [{"group": name, "replies": ["x", "y"], "rewards": [0, 1]} for name in "ab"]
    with RolloutIndex(write_lines(tmp_path / "a.jsonl", *rows)) as index:
        assert index.format == "replies"
        assert ids(index.groups(chunk_trajectories=1)) == [["a-0", "a-1"], ["b-0", "b-1"]]


def test_it_can_be_walked_again_and_in_two_ways_at_once(tmp_path: Path) -> None:
    with RolloutIndex(scattered(tmp_path / "a.jsonl", "abab")) as index:
        pairs = zip(index.groups(chunk_trajectories=1), index.groups(chunk_trajectories=1), strict=True)
        assert all([t.id for t in left] == [t.id for t in right] for left, right in pairs)


def test_a_byte_order_mark_and_blank_lines_do_not_shift_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(native("é")).encode() + b"\r\n\n" + json.dumps(native("b")).encode())
    with RolloutIndex(path) as index:
        assert ids(index.groups()) == [["é", "b"]]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_bad_rows_stop_the_first_pass(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadRow, match=":2: field 'response_ids'"):
        RolloutIndex(write_lines(tmp_path / name, native("a"), native("b", policy=[1])))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_skipped_rows_are_listed_once_and_in_order(tmp_path: Path, name: str) -> None:
    path = write_lines(tmp_path / name, native("a", "x"), native("a", "y"), "{", native("b", "x"), native("a", "x"))
    skipped: list[BadRow] = []
    with RolloutIndex(path, on_error="skip", skipped=skipped) as index:
        assert (len(index), index.n_groups) == (2, 1)
        assert ids(index.groups()) == ids(index.groups()) == [["a", "b"]]
    assert [(bad.line, bad.field) for bad in skipped] == [(2, "id"), (3, "line"), (5, "id")]
    assert skipped[2].problem == "'a' is already the id of line 1"


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_second_row_with_an_id_names_both_lines(tmp_path: Path, name: str) -> None:
    path = write_lines(tmp_path / name, native("a"), "", native("b"), native("b"), native("a"))
    with pytest.raises(BadRow, match=":4: field 'id': 'b' is already the id of line 3"):
        RolloutIndex(path)


def test_equal_hashes_of_different_ids_are_no_duplicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apportion.integrations.files.index.hash", lambda id: 1, raising=False)
    with RolloutIndex(scattered(tmp_path / "a.jsonl", "abc")) as index:
        assert len(index) == 3


def test_a_file_that_changes_under_the_index_is_noticed(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", native("a"), native("b"))
    with RolloutIndex(path) as index:
        path.write_text(path.read_text().replace('"b"', '"c"'))
        with pytest.raises(BadRow, match=r":2: .*changed after it was indexed"):
            list(index.groups())


def test_everything_skipped_leaves_nothing_to_walk(tmp_path: Path) -> None:
    skipped: list[BadRow] = []
    path = write_lines(tmp_path / "a.jsonl", "{")
    with RolloutIndex(path, format="jsonl", on_error="skip", skipped=skipped) as index:
        assert (len(index), index.n_groups, list(index.groups()), list(index.steps())) == (0, 0, [], [])
    assert len(skipped) == 1


@pytest.mark.parametrize("bound", ["chunk_trajectories", "chunk_bytes"])
def test_bounds_below_one_are_refused_before_anything_is_read(tmp_path: Path, bound: str) -> None:
    with RolloutIndex(scattered(tmp_path / "a.jsonl", "a")) as index, pytest.raises(InvalidArgument, match=bound):
        index.groups(**{bound: 0})


def test_progress_of_both_passes_ends_at_the_total(tmp_path: Path) -> None:
    path = scattered(tmp_path / "a.jsonl", "abab")
    first: list[tuple[int, int]] = []
    second: list[tuple[int, int]] = []
    with RolloutIndex(path, progress=lambda done, total: first.append((done, total))) as index:
        list(index.groups(chunk_trajectories=1, progress=lambda done, total: second.append((done, total))))
    size = path.stat().st_size
    assert first[-1] == second[-1] == (size, size)
    assert len(second) == 2


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spool))
    with RolloutIndex(scattered(tmp_path / "a.jsonl.gz", "ab")) as index:
        list(index.groups())
    with pytest.raises(BadRow):
        RolloutIndex(write_lines(tmp_path / "b.jsonl.gz", native("a"), "{"))
    assert list(spool.iterdir()) == []


MEASURE = """
import resource, sys
from apportion.integrations.files import RolloutIndex
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
start = peak()
with RolloutIndex(sys.argv[1]) as index:
    rows = sum(len(chunk) for chunk in index.groups(chunk_bytes=2**20))
print(rows, peak() - start)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory the way Linux reports it")
def test_memory_does_not_follow_the_size_of_the_file(tmp_path: Path) -> None:
    """48 MB in rows of 16 kB, a group's rows far apart: walking it costs a few chunks, not the file."""
    path = tmp_path / "a.jsonl"
    shuffled = [k % 375 for k in range(3000)]
    random.Random(0).shuffle(shuffled)
    ids_text = ",".join(str(k) for k in range(100_000, 102_300))
    with open(path, "w") as file:
        for k, group in enumerate(shuffled):
            file.write(f'{{"apportion":1,"id":"{k}","group":"{group}","response_ids":[{ids_text}]}}\n')
    assert path.stat().st_size > 45e6
    result = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    rows, mib = map(int, result.stdout.split())
    assert rows == 3000
    assert mib < 25
