"""The same recipe gives the same numbers, to the last bit, as in one process."""

from pathlib import Path
from typing import Any

import pytest

from apportion.errors import MissingInput
from apportion.integrations.files import RolloutIndex
from apportion.integrations.ray import BlockRun, read_blocks
from apportion.recipes import load
from apportion.report.credit_record import Record
from apportion.report.scoring import Scoring
from tests.integrations.ray_engine.conftest import Make, Score

RULES = """
[rules.read_first]
before = { first = { call = "read" }, then = { call = "edit" }, same = "path" }
[rules.typo]
never = { action = { call = "edti" } }
unpaired = "for the test"
"""
STATEFUL = """
from apportion.advantages import grpo
from apportion.recipe import Recipe
from apportion.rewards import outcome
def assign(batch, signals, *, step, state):
    weight = state["seen"] + 1.0
    return weight * grpo(signals["outcome"]), {"seen": weight, "steps": [*state["steps"], step]}
recipe = Recipe(name="stateful", observers=[outcome()], assign_signals=assign, aggregation="token-mean",
                initial_state={"seen": 0.0, "steps": []})
"""


def local(source: Path, recipe: str, parameters: dict[str, Any]) -> tuple[Scoring, list[Record]]:
    scoring = Scoring(load(recipe, **parameters))
    with RolloutIndex(source) as index:
        chunks = index.steps() if scoring.by_step else index.groups()
        return scoring, [record for chunk in chunks for record in scoring.records(chunk)]


def equal(left: Any, right: Any) -> None:
    """Counts are equal; sums of floats, merged in another order, up to rounding."""
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for name in left:
            equal(left[name], right[name])
    elif isinstance(left, list):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            equal(one, other)
    elif isinstance(left, float):
        assert left == pytest.approx(right, rel=1e-12, abs=1e-12)
    else:
        assert left == right


def check(source: Path, out: Path, scoring: Scoring, recipe: str, parameters: dict[str, Any]) -> None:
    alone, expected = local(source, recipe, parameters)
    assert sorted(read_blocks(out), key=lambda r: r["id"]) == sorted(expected, key=lambda r: r["id"])
    equal(scoring.summary(), alone.summary())


@pytest.mark.parametrize("recipe", ["grpo", "stateful.py"])
def test_on_ray(cluster: str, rollouts: Make, score: Score, tmp_path: Path, recipe: str) -> None:
    (tmp_path / "stateful.py").write_text(STATEFUL)
    name = str(tmp_path / recipe) if recipe.endswith(".py") else recipe
    source = rollouts(40)
    check(source, tmp_path / "out", score(source, name), name, {})
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 5


@pytest.mark.parametrize("block_rows", [1, 8, 4096])
@pytest.mark.parametrize("recipe", ["grpo", "rlvp", "reinforce_pp", "gdpo", "stateful"])
def test_recipes(inline: None, rollouts: Make, score: Score, tmp_path: Path, recipe: str, block_rows: int) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "stateful.py").write_text(STATEFUL)
    parameters = {
        "rlvp": {"rules": str(tmp_path / "rules.toml")},
        "gdpo": {"rewards": ["reward", "steps"]},
    }.get(recipe, {})
    name = str(tmp_path / "stateful.py") if recipe == "stateful" else recipe
    source = rollouts(32) if recipe != "gdpo" else rollouts(32, columns={"reward": 1.0, "steps": 2.0})
    scoring = score(source, name, parameters=parameters, block_rows=block_rows)
    check(source, tmp_path / "out", scoring, name, parameters)
    if recipe == "stateful":
        assert scoring.state == {"seen": 4.0, "steps": [0, 1, 2, 3]}
    if recipe == "rlvp":
        assert [use.violations for use in scoring.rules.uses()] == [21, 0]
        assert scoring.rules.uses()[1].never_met == ("tool 'edti' does not occur, but 'edit' does",)


def test_a_state_goes_on_across_runs(inline: None, rollouts: Make, score: Score, tmp_path: Path) -> None:
    (tmp_path / "stateful.py").write_text(STATEFUL)
    scoring = score(rollouts(16), tmp_path / "stateful.py", state={"seen": 10.0, "steps": []})
    assert scoring.state == {"seen": 12.0, "steps": [0, 1]}


def test_blocks_after_one_that_is_scored_again_start_from_its_state(
    inline: None, rollouts: Make, score: Score, tmp_path: Path
) -> None:
    recipe = tmp_path / "stateful.py"
    recipe.write_text(STATEFUL)
    source = rollouts(32)
    before = score(source, recipe).summary()
    (tmp_path / "out" / "block-00001.json").unlink()
    with BlockRun(source, tmp_path / "out", recipe=str(recipe), parameters={}, block_rows=8, resume=True) as run:
        assert [block.number for block in run.left] == [1, 2, 3]
        assert run.score().summary() == before


@pytest.mark.parametrize("recipe", ["reinforce_pp", "stateful"])
def test_steps_must_be_known_where_they_are_needed(
    inline: None, rollouts: Make, score: Score, tmp_path: Path, recipe: str
) -> None:
    (tmp_path / "stateful.py").write_text(STATEFUL)
    name = recipe if recipe == "reinforce_pp" else tmp_path / "stateful.py"
    with pytest.raises(MissingInput, match=r"a step on every rollout.*--engine local"):
        score(rollouts(step=None), name)
    score(rollouts(step=None), "grpo", out="fine")


def test_other_formats_are_copied_for_the_workers(inline: None, rollouts: Make, score: Score, tmp_path: Path) -> None:
    import gzip

    source = rollouts(16)
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    score(packed, "grpo")
    assert sorted(r["id"] for r in read_blocks(tmp_path / "out")) == sorted(f"r{i}" for i in range(16))
    assert not list((tmp_path / "out").glob(".rollouts*"))
