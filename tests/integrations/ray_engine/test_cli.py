"""`apportion score --engine ray`, as a user calls it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from apportion.cli._app import app
from apportion.integrations.ray import read_blocks
from tests.integrations.ray_engine.conftest import Make
from tests.integrations.ray_engine.test_parity import equal


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["score", *map(str, arguments)])


def told(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    found: dict[str, Any] = json.loads(result.stdout)
    return {name: value for name, value in found.items() if name not in ("out", "seconds")}


def test_the_json_is_that_of_the_local_engine(inline: None, rollouts: Make, tmp_path: Path) -> None:
    source, out = rollouts(40), tmp_path / "out"
    arguments = (source, "-r", "grpo", "-o")
    local = told(*arguments, tmp_path / "credit.jsonl")
    ray = told(*arguments, out, "--engine", "ray", "--block-rows", 8)
    equal(ray, local)
    assert (ray["rollouts"], ray["groups"], ray["advantage"]["mean"]) == (40, 10, pytest.approx(0.0, abs=1e-15))
    assert told(*arguments, out, "--engine", "ray", "--block-rows", 8, "--resume")["rollouts"] == 40


def test_the_summary_and_the_state(inline: None, rollouts: Make, tmp_path: Path) -> None:
    recipe, state = tmp_path / "counting.py", tmp_path / "state.json"
    recipe.write_text(
        "from apportion.advantages import grpo\n"
        "from apportion.recipe import Recipe\n"
        "from apportion.rewards import outcome\n"
        "def assign(batch, signals, *, step, state):\n"
        "    return grpo(signals['outcome']), {'steps': state['steps'] + 1}\n"
        "recipe = Recipe(name='counting', observers=[outcome()], assign_signals=assign, aggregation='token-mean',\n"
        "                initial_state={'steps': 0})\n"
    )
    for total in (5, 10):
        result = run(rollouts(40), "-r", recipe, "-o", tmp_path / f"out{total}", "--engine", "ray", "--state", state)
        assert result.exit_code == 0, result.output
        assert "in 10 groups" in result.stdout
        assert json.loads(state.read_text())["state"] == {"steps": total}
    assert len(list(read_blocks(tmp_path / "out10"))) == 40


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-o", "credit", "--resume"], 2, "--resume is about its blocks"),
        (["-o", "credit", "--block-rows", "8", "--workers", "2"], 2, "--block-rows, --workers is about"),
        (["-o", "credit.parquet", "--engine", "ray"], 2, "a folder with --engine ray"),
        (["-o", "credit", "--engine", "ray", "--limit", "1"], 2, "--limit"),
        (["-o", "absent/credit", "--engine", "ray"], 2, "No such file"),
        (["-o", "credit", "--engine", "ray", "-p", "reward=absent"], 3, "'absent'"),
        (["-o", "credit", "--engine", "dask"], 2, "dask"),
    ],
)
def test_what_cannot_be_done(
    inline: None,
    rollouts: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    source = rollouts(8)
    monkeypatch.chdir(tmp_path)
    result = run(source, "-r", "grpo", *arguments)
    assert result.exit_code == code, result.output
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
