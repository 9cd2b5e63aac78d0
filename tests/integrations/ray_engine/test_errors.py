"""What goes wrong in a worker comes back as what it is."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apportion.errors import ApportionError, BadRow, InvalidArgument, MissingInput, ObserverFailing
from apportion.integrations.files import RolloutIndex
from apportion.integrations.ray import BlockRun, read_blocks
from apportion.integrations.ray.blocks import blocks_of
from tests.integrations.ray_engine.conftest import Make, Score

RECIPE = """
import os, sys
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe
from apportion.rewards import outcome
class Odd(Exception):
    pass
class Local(Exception):
    def __init__(self, a, b): super().__init__(a)
def assign(batch, signals, *, step, state):
    {fault}
recipe = Recipe(name="faulty", observers=[outcome()], assign_signals=assign, aggregation="token-mean")
"""


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("raise InvalidArgument('gamma', 2, 'at most 1')", InvalidArgument, "gamma=2"),
        ("raise ZeroDivisionError('by zero')", ZeroDivisionError, "by zero"),
        ("raise Odd('odd')", RuntimeError, "Odd: 'odd'"),
        ("raise Local('a', 'b')", RuntimeError, "Local: 'a'"),
        ("sys.exit(3)", RuntimeError, r"sys.exit\(3\)"),
    ],
)
def test_the_error_and_its_place(
    inline: None, rollouts: Make, score: Score, tmp_path: Path, fault: str, kind: type[Exception], words: str
) -> None:
    recipe = tmp_path / "faulty.py"
    recipe.write_text(RECIPE.format(fault=fault))
    with pytest.raises(kind, match=words) as told:
        score(rollouts(8), recipe)
    assert type(told.value) is kind
    note = "".join(told.value.__notes__)
    assert f'{recipe}", line 11, in assign' in note


def test_a_state_that_could_not_be_kept(inline: None, rollouts: Make, score: Score, tmp_path: Path) -> None:
    recipe = tmp_path / "faulty.py"
    text = RECIPE.format(fault="return None")
    recipe.write_text(text.replace("observers=[", "initial_state={'seen': {1}}, observers=["))
    with pytest.raises(InvalidArgument, match="state="):
        score(rollouts(8), recipe)
    assert not (tmp_path / "out").exists()


def test_an_error_through_ray(cluster: str, rollouts: Make, score: Score) -> None:
    with pytest.raises(MissingInput, match="'verified'"):
        score(rollouts(16), "grpo", parameters={"reward": "verified"})


def test_a_block_that_ends_its_worker_again_and_again(inline: None, rollouts: Make, tmp_path: Path) -> None:
    source, out = rollouts(16), tmp_path / "out"
    with BlockRun(source, out, recipe="grpo", parameters={}, block_rows=8) as run:
        (out / ".block-00001.tries").write_bytes(b"...")
        with pytest.raises(ApportionError, match="block 1 ended its worker 3 times"):
            run.score()
    with BlockRun(source, out, recipe="grpo", parameters={}, block_rows=8, resume=True) as run:
        assert [block.number for block in run.left] == [1]
        run.score()
    assert sorted(path.name for path in out.glob(".*")) == [".lock", ".plan.npz"]


def test_an_observer_that_fails_ends_the_run_and_its_blocks_are_taken_back(
    inline: None, rollouts: Make, score: Score, tmp_path: Path
) -> None:
    source = rollouts(16)
    lines = source.read_text().splitlines()
    # The groups of one step lost their rewards.
    source.write_text(
        "\n".join(
            line.replace('"reward":0.0', '"reward":null').replace('"reward":1.0', '"reward":null')
            if '"step":1' in line
            else line
            for line in lines
        )
        + "\n"
    )
    with pytest.raises(ObserverFailing, match="failed on 8 of 16"):
        score(source, "grpo", failure_limit=0.4)
    assert [path.name for path in (tmp_path / "out").glob("block-*.json")] == ["block-00000.json"]
    scoring = score(source, "grpo", failure_limit=0.6, resume=True)
    assert scoring.totals.rewards["outcome"].failed == 8
    assert scoring.failures == {"outcome": {"column 'reward' is null": 8}}


def test_bad_rows_stop_or_are_left_out(inline: None, rollouts: Make, score: Score, tmp_path: Path) -> None:
    source = rollouts(8)
    source.write_text(source.read_text() + '{"apportion": 1, "id": 7}\n')
    with pytest.raises(BadRow, match=":9: field 'group'"):
        score(source, "grpo")
    skipped: list[BadRow] = []
    score(source, "grpo", out="fine", on_error="skip", skipped=skipped)
    assert [row.line for row in skipped] == [9]
    assert len(list(read_blocks(tmp_path / "fine"))) == 8


def test_a_file_of_nothing_but_bad_rows(inline: None, score: Score, tmp_path: Path) -> None:
    source = tmp_path / "rollouts.jsonl"
    source.write_text('{"apportion": 1, "id": 7}\n')
    with pytest.raises(BadRow, match="field 'group'"):
        score(source, "grpo", on_error="skip", skipped=[])


def test_a_file_that_changes_meanwhile(inline: None, rollouts: Make, tmp_path: Path) -> None:
    source = rollouts(16)
    with BlockRun(source, tmp_path / "out", recipe="grpo", parameters={}, block_rows=8) as run:
        os.utime(source, ns=(0, 0))
        with pytest.raises(BadRow, match="changed after it was indexed"):
            run.score()


@pytest.mark.parametrize("option", ["block_rows", "workers"])
def test_bounds(rollouts: Make, tmp_path: Path, option: str) -> None:
    settings: dict[str, Any] = {option: 0}
    with pytest.raises(InvalidArgument, match=option):
        BlockRun(rollouts(4), tmp_path / "out", recipe="grpo", parameters={}, **settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("walk", ["groups", "steps"])
@pytest.mark.parametrize("rows", [1, 4, 9, 16, 100])
def test_blocks_hold_whole_groups_and_every_row_once(rollouts: Make, walk: Any, rows: int) -> None:
    source = rollouts(24)
    with RolloutIndex(source) as index, open(source, "rb") as file:
        blocks = list(blocks_of(index, walk, rows=rows))
        read = [[t for places in block.chunks for t in places.read(file, source)] for block in blocks]
    unit = 4 if walk == "groups" else 8
    assert [block.number for block in blocks] == list(range(len(blocks)))
    assert all(len(block) == len(got) <= max(rows, unit) for block, got in zip(blocks, read, strict=True))
    assert sorted(t.id for got in read for t in got) == sorted(f"r{i}" for i in range(24))
    homes = [{t.group if walk == "groups" else t.step for t in got} for got in read]
    assert sum(map(len, homes)) == len(set().union(*homes)) == 24 // unit


def test_ray_is_imported_only_by_a_run() -> None:
    program = "import sys, apportion, apportion.cli.score, apportion.integrations.ray; print('ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
