from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import pytest

from apportion.errors import InvalidArgument, MissingExtra
from apportion.integrations.files import read, write
from apportion.rollouts import Action, Trajectory, Turn


def rollout(id: str = "a", **fields: object) -> Trajectory:
    return Trajectory(**{"id": id, "group": "g", **fields})  # type: ignore[arg-type]


def test_fields_at_their_default_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write([rollout(response_ids=[1, 2], policy=[1, 1], turns=(Turn(text="x", actions=(Action("f"),)),))], path)
    assert json.loads(path.read_text()) == {
        "apportion": 1,
        "id": "a",
        "group": "g",
        "response_ids": [1, 2],
        "turns": [{"text": "x", "actions": [{"name": "f"}]}],
    }


def test_a_mask_is_written_as_zeros_and_ones(tmp_path: Path) -> None:
    write([rollout(response_ids=[1, 2], policy=[1, 0])], tmp_path / "a.jsonl")
    assert '"policy":[1,0]' in (tmp_path / "a.jsonl").read_text()


def test_gz_is_compressed_by_name(tmp_path: Path) -> None:
    write([rollout()], tmp_path / "a.jsonl.gz")
    assert json.loads(gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()))["id"] == "a"


@pytest.mark.parametrize("name", ["a.json", "a.txt", "a.parquet.gz", "a"])
def test_a_name_that_says_no_native_format_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"\.jsonl, \.jsonl\.gz or \.parquet"):
        write([rollout()], tmp_path / name)


def failing() -> Iterator[Trajectory]:
    yield rollout()
    raise OSError("the source broke")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write([rollout("old")], path)
    with pytest.raises(OSError, match="the source broke"):
        write(failing(), path)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    assert [t.id for t in read(path)] == ["old"]


@pytest.mark.parametrize(
    ("rollouts", "expected"),
    [
        ([], "at least one trajectory"),
        ([rollout("a"), rollout("a")], "'a': expected an id of its own"),
        (["a"], "expected Trajectory objects"),
        ([rollout(columns={"when": {1, 2}})], "trajectory 'a'.*found set"),
        ([rollout(reference=b"bytes")], "trajectory 'a'.*found bytes"),
        ([rollout(turns=(Turn(reward=float("nan")),))], "reward=nan: expected a finite number or None"),
        ([rollout(turns=(Turn(columns={"k": object()}),))], "found object"),
    ],
)
@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_what_could_not_be_read_back_is_refused(
    tmp_path: Path, name: str, rollouts: list[Trajectory], expected: str
) -> None:
    with pytest.raises(InvalidArgument, match=expected):
        write(rollouts, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [64, 100_000])
@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_free_data_too_deep_to_read_back_is_refused_by_name(tmp_path: Path, name: str, depth: int) -> None:
    with pytest.raises(InvalidArgument, match=r"columns.*at most 64 levels"):
        write([rollout(columns={"deep": nested(depth)})], tmp_path / name)


def test_the_deepest_free_data_that_is_written_is_read_back(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.parquet"):
        write([rollout(columns={"deep": nested(60)})], tmp_path / name)
        (back,) = read(tmp_path / name)
        assert back.columns == {"deep": nested(60)}


def test_read_only_mappings_are_written_as_objects(tmp_path: Path) -> None:
    write([rollout(columns=MappingProxyType({"reward": 1.0}))], tmp_path / "a.jsonl")
    assert next(iter(read(tmp_path / "a.jsonl"))).columns == {"reward": 1.0}


def test_token_ids_beyond_32_bits_are_refused_by_parquet_and_kept_by_jsonl(tmp_path: Path) -> None:
    wide = rollout(response_ids=[2**40])
    with pytest.raises(InvalidArgument, match="response_ids"):
        write([wide], tmp_path / "a.parquet")
    write([wide], tmp_path / "a.jsonl")
    assert next(iter(read(tmp_path / "a.jsonl"))).response_ids.tolist() == [2**40]  # type: ignore[union-attr]


def test_without_pyarrow_the_install_line_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'apportion\[parquet\]'"):
        write([rollout()], tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []
