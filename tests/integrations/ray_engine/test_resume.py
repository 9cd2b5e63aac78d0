"""Killed runs go on, and nothing that was committed is scored again."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from apportion.errors import BadRow, InvalidArgument
from apportion.integrations.ray import BlockRun, read_blocks
from apportion.integrations.ray.folder import writing
from tests.integrations.ray_engine.conftest import Make, Score, observed


def command(source: Path, recipe: Path, out: Path, *more: str) -> list[str]:
    listed = [sys.executable, "-m", "apportion", "score", source, "-r", recipe, "-o", out, "--engine", "ray", "--json"]
    return [*map(str, listed), "-p", f"log={recipe.parent / 'log'}", "-p", "slow=0.2", "--block-rows", "8", *more]


def test_a_killed_driver(
    cluster: str, rollouts: Make, score: Score, noted: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source, out, log = rollouts(96), tmp_path / "cut", tmp_path / "log"
    environment = {**os.environ, "RAY_ADDRESS": cluster}
    driver = subprocess.Popen(command(source, noted, out), env=environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while len(list(out.glob("block-*.json"))) < 4:
        assert driver.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    with pytest.raises(BadRow, match=r"not finished.*--resume"):
        next(read_blocks(out))

    resumed = subprocess.run(
        command(source, noted, out, "--resume"), env=environment, capture_output=True, text=True, check=False
    )
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["rollouts"] == 96
    seen = Counter(observed(log))
    kept = {r["id"] for r in read_blocks(out)}
    assert kept == set(seen) == {f"r{i}" for i in range(96)}
    # At most the blocks under way when the driver died, of two workers, were looked at again.
    assert sum(n > 1 for n in seen.values()) <= 2 * 8
    request.getfixturevalue("inline")
    score(source, noted, parameters={"log": str(log)}, out="whole")
    digests = [json.loads((tmp_path / name / "manifest.json").read_text())["sha256"] for name in ("cut", "whole")]
    assert digests[0] == digests[1]


def test_a_killed_worker(cluster: str, rollouts: Make, score: Score, noted: Path, tmp_path: Path) -> None:
    scoring = score(rollouts(40), noted, parameters={"log": str(tmp_path / "log"), "deadly": "r13"}, workers=1)
    assert (tmp_path / "log" / "died").exists()
    assert scoring.totals.trajectories == 40
    assert {id for id, n in Counter(observed(tmp_path / "log")).items() if n > 1} >= {"r13"}
    assert max(Counter(observed(tmp_path / "log")).values()) == 2


def test_only_what_is_left_is_scored(inline: None, rollouts: Make, score: Score, noted: Path, tmp_path: Path) -> None:
    source, log = rollouts(24), tmp_path / "log"
    settings = {"log": str(log)}
    before = score(source, noted, parameters=settings).summary()
    assert observed(log) == sorted(f"r{i}" for i in range(24))
    (tmp_path / "out" / "block-00001.json").unlink()
    (tmp_path / "out" / ".block-00001.parquet.7.part").touch()
    after = score(source, noted, parameters=settings, resume=True).summary()
    assert after == before
    again = [id for id, n in Counter(observed(log)).items() if n > 1]
    assert len(again) == 8
    assert score(source, noted, parameters=settings, resume=True).summary() == before
    assert len(observed(log)) == 32
    assert not list((tmp_path / "out").glob(".*.part"))


def test_a_folder_with_something_in_it_is_not_overwritten(
    inline: None, rollouts: Make, score: Score, tmp_path: Path
) -> None:
    source = rollouts(8)
    score(source, "grpo")
    with pytest.raises(InvalidArgument, match="--resume goes on with a run"):
        score(source, "grpo")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"empty folder|no manifest"):
            score(source, "grpo", out="other", resume=resume)
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="a folder"):
        score(source, "grpo", out="file")
    score(source, "grpo", out="fresh", resume=True)


def test_another_run_is_not_resumed(inline: None, rollouts: Make, score: Score, noted: Path, tmp_path: Path) -> None:
    source, rules = rollouts(8), tmp_path / "rules.toml"
    rules.write_text('[rules.a]\nnever = { action = { call = "edit" } }\nunpaired = "test"\n')
    settings = {"rules": str(rules)}
    score(source, "rlvp", parameters=settings)
    rules.write_text(rules.read_text().replace("edit", "read"))
    rollouts(12)
    with pytest.raises(InvalidArgument) as told:
        score(source, "rlvp", parameters={**settings, "penalty": 0.125}, resume=True, block_rows=4)
    for words in ("recipe.parameters.penalty: 0.125, was 0.25", "files.rules", "rollouts:", "block_rows: 4, was 8"):
        assert words in str(told.value)
    with pytest.raises(InvalidArgument, match=r"recipe\.name: grpo, was rlvp"):
        score(source, "grpo", resume=True)


def test_a_resumed_run_does_not_index_again(
    inline: None, rollouts: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = rollouts(16), tmp_path / "out"
    source.write_text(source.read_text() + "{}\n")
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    skipped: list[BadRow] = []
    with BlockRun(packed, out, recipe="grpo", parameters={}, on_error="skip", skipped=skipped) as run:
        assert len(run.left) == 1

    def index(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("apportion.integrations.ray.engine.RolloutIndex", index)
    again: list[BadRow] = []
    with BlockRun(packed, out, recipe="grpo", parameters={}, on_error="skip", skipped=again, resume=True) as run:
        run.score()
    assert [str(row) for row in again] == [str(row) for row in skipped] != []
    assert sorted(r["id"] for r in read_blocks(out)) == sorted(f"r{i}" for i in range(16))


def test_nothing_of_an_earlier_run_is_believed(inline: None, rollouts: Make, score: Score, tmp_path: Path) -> None:
    source, out = rollouts(16), tmp_path / "out"
    score(source, "grpo")
    for path in out.glob("[!.]*"):
        path.unlink()
    assert score(rollouts(8), "grpo").totals.trajectories == 8
    moved = source.rename(tmp_path / "moved.jsonl")
    source.write_text("another file")
    (out / "block-00000.json").unlink()
    assert score(moved, "grpo", resume=True).totals.trajectories == 8


@pytest.mark.parametrize("damage", ["block-00000.parquet", "block-00000.json"])
def test_a_damaged_block_is_refused(inline: None, rollouts: Make, score: Score, tmp_path: Path, damage: str) -> None:
    source = rollouts(16)
    score(source, "grpo")
    path = tmp_path / "out" / damage
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InvalidArgument, match=r"Remove block-00000.json to score it again"):
        score(source, "grpo", resume=True)
    (tmp_path / "out" / "block-00000.json").unlink()
    score(source, "grpo", resume=True)


def test_two_runs_do_not_share_a_folder(
    inline: None, rollouts: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apportion.integrations.ray.folder._PATIENCE", 0.1)
    source, out = rollouts(8), tmp_path / "out"
    out.mkdir()
    left_behind = writing(out)
    with pytest.raises(InvalidArgument, match="no other run writes to"):
        BlockRun(source, out, recipe="grpo", parameters={})
    left_behind.close()
    with BlockRun(source, out, recipe="grpo", parameters={}) as run:
        assert len(run.left) == 1
        with pytest.raises(InvalidArgument, match="no other run writes to"):
            BlockRun(source, out, recipe="grpo", parameters={}, resume=True)
