"""Recipe files that print, quit or return the wrong thing; readers, terminals and systems that stop us."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from apportion.integrations.files import write
from apportion.rollouts import Trajectory, Turn

Run = Callable[..., Result]
Make = Callable[..., Path]

PROGRAM = "import sys; sys.argv[0] = 'apportion'; from apportion.cli import main; main()"
RECIPE = """
import sys
import apportion as ap
{top}
def assign(batch, signals, *, step, state):
    {inside}
    return signals["outcome"]
recipe = ap.Recipe(name="mine", observers=[ap.outcome()], assign_signals=assign, aggregation="token-mean")
"""


def recipe_file(folder: Path, *, top: str = "", inside: str = "pass") -> Path:
    path = folder / "mine.py"
    path.write_text(RECIPE.format(top=top, inside=inside))
    return path


def started(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )


def test_what_a_recipe_prints_stays_out_of_the_json(run: Run, rollouts: Make, tmp_path: Path) -> None:
    recipe = recipe_file(tmp_path, top="print('hello')", inside="print('and again')")
    result = run("score", rollouts({"q": [1, 0]}), "-r", recipe, "-o", tmp_path / "c.jsonl", "--json")
    assert json.loads(result.stdout)["recipe"] == "mine"
    assert "hello" in result.stderr
    assert "and again" in result.stderr
    assert json.loads(run("recipes", recipe, "--json").stdout)["name"] == str(recipe)


@pytest.mark.parametrize("where", ["top", "inside"])
def test_a_recipe_that_quits_is_not_success(run: Run, rollouts: Make, tmp_path: Path, where: str) -> None:
    recipe = recipe_file(tmp_path, **{where: "sys.exit(0)"})
    result = run("score", rollouts({"q": [1, 0]}), "-r", recipe, "-o", tmp_path / "c.jsonl")
    assert result.exit_code == 70
    assert "sys.exit(0)" in result.stderr
    assert not (tmp_path / "c.jsonl").exists()


def test_a_trace_does_not_send_what_a_rollout_says(run: Run, rollouts: Make, tmp_path: Path) -> None:
    recipe = recipe_file(tmp_path, inside="raise ValueError('\\x1b[2J')")
    result = run("score", rollouts({"q": [1, 0]}), "-r", recipe, "-o", tmp_path / "c.jsonl")
    assert result.exit_code == 70
    assert "\\x1b[2J" in result.stderr
    assert "\x1b" not in result.stderr


def test_settings_whose_types_only_a_type_checker_knows(run: Run, rollouts: Make, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.py"
    recipe.write_text(
        "from __future__ import annotations\nimport apportion as ap\n"
        "def recipe(*, scale: Unknown = 1.0) -> ap.Recipe:\n    return ap.load('grpo', reward='reward' * int(scale))\n"
    )
    source, out = rollouts({"q": [1, 0]}), tmp_path / "c.jsonl"
    assert run("score", source, "-r", recipe, "-o", out, "-p", "scale=1").exit_code == 0
    assert "scale" in run("recipes", recipe).stdout


@pytest.mark.parametrize(("flags", "code"), [(["--strict"], 1), ([], 0), (["--json", "--strict"], 1)])
def test_a_reader_that_stops_early_changes_no_exit_code(tmp_path: Path, flags: list[str], code: int) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"apportion": 1, "id": "a", "group": "g", "columns": {"reward": 1}, "turns": [{}]}\n{\n')
    process = started("audit", source, *flags)
    assert process.stdout is not None
    process.stdout.close()
    _, stderr = process.communicate(timeout=120)
    assert (process.returncode, stderr) == (code, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_our_characters_is_no_bug(rollouts: Make, tmp_path: Path, encoding: str) -> None:
    command = ("score", rollouts({"日": [1, 0]}), "-r", "grpo", "-o", tmp_path / "c.jsonl")
    process = started(*command, PYTHONIOENCODING=encoding)
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stderr) == (0, "")
    assert "advantage" in stdout


@pytest.mark.skipif(sys.platform == "win32", reason="signals of other systems")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_program_that_is_told_to_end_leaves_no_half_file(tmp_path: Path, number: signal.Signals) -> None:
    source, folder = tmp_path / "a.jsonl", tmp_path / "out"
    folder.mkdir()
    write([Trajectory(id=str(k), group="q", turns=(Turn(),), columns={"reward": 1}) for k in range(2)], source)
    recipe = recipe_file(tmp_path, inside="import time; time.sleep(60)")
    process = started("score", source, "-r", recipe, "-o", folder / "c.jsonl")
    patience = time.monotonic() + 60
    while not list(folder.iterdir()) and time.monotonic() < patience:
        time.sleep(0.05)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (128 + number, "")
    assert list(folder.iterdir()) == []


def test_numbers_survive_a_narrow_terminal(run: Run, rollouts: Make, tmp_path: Path) -> None:
    result = run("score", rollouts({"q": [1, 0]}), "-r", "grpo", "-o", tmp_path / "c.jsonl", columns=40)
    assert "…" not in result.stdout
    assert "100%" in result.stdout
