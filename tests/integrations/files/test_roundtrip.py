"""What is written is read back, field by field and bit by bit."""

from __future__ import annotations

import importlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given

from apportion.errors import InvalidArgument
from apportion.integrations.files import read, write
from apportion.rollouts import Action, Trajectory, Turn
from tests.integrations.files.builders import ROLLOUTS, assert_same


def there_and_back(rollouts: tuple[Trajectory, ...], name: str) -> list[Trajectory]:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        assert write(iter(rollouts), path) == len(rollouts)
        assert [entry.name for entry in Path(folder).iterdir()] == [name]
        return list(read(path))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@given(rollouts=ROLLOUTS)
def test_jsonl_gives_back_what_was_written(name: str, rollouts: tuple[Trajectory, ...]) -> None:
    for before, after in zip(rollouts, there_and_back(rollouts, name), strict=True):
        assert_same(before, after)


@given(rollouts=ROLLOUTS)
def test_parquet_gives_back_what_was_written(rollouts: tuple[Trajectory, ...]) -> None:
    importlib.import_module("pyarrow")
    for before, after in zip(rollouts, there_and_back(rollouts, "a.parquet"), strict=True):
        assert_same(before, after)


def test_log_probs_keep_every_bit_and_nan_where_they_are_ignored() -> None:
    logps = [-1 / 3, float("nan"), float("-inf"), -5e-324]
    rollout = Trajectory(id="a", group="g", response_ids=[1, 2, 3, 4], policy=[1, 0, 0, 1], behaviour_logps=logps)
    for name in ("a.jsonl", "a.parquet"):
        (back,) = there_and_back((rollout,), name)
        assert back.behaviour_logps is not None
        assert back.behaviour_logps.tobytes() == np.array(logps).tobytes()


def test_half_a_surrogate_pair_survives_in_jsonl() -> None:
    """Output cut inside an emoji is half a pair, which UTF-8 cannot hold but JSON can."""
    rollout = Trajectory(id="a", group="g", turns=(Turn(text="cut \ud83d", actions=(Action("é", raw="\udc00"),)),))
    (back,) = there_and_back((rollout,), "a.jsonl")
    assert_same(rollout, back)


def test_half_a_surrogate_pair_is_refused_by_parquet_with_the_way_out(tmp_path: Path) -> None:
    rollout = Trajectory(id="a", group="g", turns=(Turn(text="cut \ud83d"),))
    with pytest.raises(InvalidArgument, match="native JSONL takes any"):
        write([rollout], tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_numpy_values_in_free_data_come_back_as_plain_numbers() -> None:
    columns = {"score": np.float32(0.5), "count": np.int64(3), "curve": np.array([1.0, 2.0]), "pair": (1, 2)}
    for name in ("a.jsonl", "a.parquet"):
        (back,) = there_and_back((Trajectory(id="a", group="g", columns=columns),), name)
        assert back.columns == {"score": 0.5, "count": 3, "curve": [1.0, 2.0], "pair": [1, 2]}


def test_prompt_ids_of_a_text_only_rollout_are_kept() -> None:
    for name in ("a.jsonl", "a.parquet"):
        (back,) = there_and_back((Trajectory(id="a", group="g", prompt_ids=[4, 5]),), name)
        assert np.asarray(back.prompt_ids).tolist() == [4, 5]
        assert back.response_ids is None


def test_an_empty_response_is_not_a_missing_one() -> None:
    for name in ("a.jsonl", "a.parquet"):
        (back,) = there_and_back((Trajectory(id="a", group="g", response_ids=np.empty(0, int)),), name)
        assert back.has_tokens


def test_parquet_in_many_row_groups_keeps_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = importlib.import_module("pyarrow.parquet")
    monkeypatch.setattr("apportion.integrations.files.parquet._GROUP_BYTES", 400)
    path = tmp_path / "a.parquet"
    rollouts = [
        Trajectory(id=f"r{k}", group="g", response_ids=np.arange(k % 5), columns={"reward": k}) for k in range(200)
    ]
    write(rollouts, path)
    assert parquet.ParquetFile(path).num_row_groups > 10
    for before, after in zip(rollouts, read(path), strict=True):
        assert_same(before, after)


def test_parquet_lists_are_the_packed_layout(tmp_path: Path) -> None:
    """Other tools read values and offsets straight out of the file, and the version out of its metadata."""
    parquet = importlib.import_module("pyarrow.parquet")
    rollouts = [
        Trajectory(id="a", group="g", response_ids=[5, 6], policy=[1, 0]),
        Trajectory(id="b", group="g"),
        Trajectory(id="c", group="g", response_ids=[7]),
    ]
    write(rollouts, tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet")
    (ids,) = table["response_ids"].chunks
    assert ids.flatten().to_pylist() == [5, 6, 7]
    assert table["response_ids"].to_pylist() == [[5, 6], None, [7]]
    assert str(ids.type.value_type) == "int32"
    assert table.schema.metadata[b"apportion"] == b"1"
