"""Running the program: in this process as typer does it, or as a user would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from apportion.cli._app import app
from apportion.cli.demo_arms import arms
from apportion.cli.demo_page import Outcome
from apportion.cli.demo_rollouts import ROLLOUTS
from apportion.cli.demo_training import Trained
from apportion.environments import Environment, Terminal
from apportion.integrations.files import write
from apportion.rollouts import Trajectory

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("audit", path, columns=80)`: what the program printed and its exit code."""

    def go(*arguments: object, columns: int = 100) -> Result:
        monkeypatch.setenv("COLUMNS", str(columns))
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return go


@pytest.fixture
def demo_file() -> Path:
    """The rollouts that the package ships."""
    return ROLLOUTS


@pytest.fixture
def rollouts(tmp_path: Path) -> Callable[..., Path]:
    """`rollouts({"a": [1, 0]})`: a native file with these groups."""

    def make(groups: dict[str, list[float | None]], *, step: int | None = None, **fields: Any) -> Path:
        path = tmp_path / "rollouts.jsonl"
        rows = [
            Trajectory(
                id=f"{group}/{i}", group=group, step=step, response_ids=[1, 2], columns={"reward": reward}, **fields
            )
            for group, rewards in groups.items()
            for i, reward in enumerate(rewards)
        ]
        write(rows, path)
        return path

    return make


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    """A recipe of the user's own: the outcome, centred; it counts the steps in its state."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from apportion.advantages.group_stat import group_stat\n"
        "from apportion.recipe import Recipe\n"
        "from apportion.rewards import outcome\n"
        "def recipe(*, reward: str = 'reward', weight: float = 1.0) -> Recipe:\n"
        "    'Mine: centred.'\n"
        "    def assign(batch, signals, *, step, state):\n"
        "        return weight * group_stat(signals['outcome'], scale='none'), {'steps': state['steps'] + 1}\n"
        "    return Recipe(name='mine', observers=[outcome(reward)], assign_signals=assign,\n"
        "                  aggregation='token-mean', parameters={'weight': weight}, initial_state={'steps': 0})\n",
        encoding="utf-8",
    )
    return path


@pytest.fixture
def hostile_file(tmp_path: Path) -> Path:
    """Rollouts whose names, groups, columns and errors try to take over the terminal."""
    path = tmp_path / "hostile.jsonl"
    evil = "\x1b[2J\x1b[31m[bold red]\n\u202e"
    rows = [
        {
            "apportion": 1,
            "id": f"{evil}{i}",
            "group": evil,
            "response_ids": [i],
            "status": "aborted" if i == 3 else "terminated",
            **({"error": evil} if i == 3 else {}),
            "columns": {"reward": [1.0, 0.0, evil, None][i], f"{evil}score": 0.0, "style": evil},
        }
        for i in range(4)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def outcomes(tmp_path: Path) -> Callable[..., list[Outcome]]:
    """`outcomes(RLVP={"success": 0.5})`: results of the demo's runs, as expected but for these measures.

    The rollouts of "outcome only" take the shortcut, those of the others the honest way; all pass.
    """
    task = Terminal()
    ways = {"outcome only": "edit tests.py, rm lock, submit .", "RLVP": "cat {0}, edit {0}, wait ., wait ., submit ."}
    before = {"success": 0.4, "violations": 1.2, "dead_groups": 0.05, "turns": 5.0, "last_row": 0.3}
    wanted = {"outcome only": (1.0, 2.0), "penalty only": (0.0, 0.0), "no paired credit": (0.0, 0.0)}

    def played(script: str, name: str) -> Trajectory:
        environment = Environment(task)
        environment.reset(3)
        for move in script.format(task.start(3)[0].broken).split(", "):
            environment.step(task.vocabulary.encode(move))
        return environment.trajectory(id=name, group="terminal/3")

    def make(*, shortcuts: bool = True, **changed: dict[str, float]) -> list[Outcome]:
        made = []
        for arm in arms("full"):
            success, violations = wanted.get(arm.name, (1.0, 0.0))
            after = {**before, "success": success, "violations": violations, "dead_groups": 1.0, "turns": 4.0}
            after |= {"last_row": 1.0} | changed.get(arm.name, {})
            path = tmp_path / f"{arm.slug}.jsonl"
            way = ways.get(arm.name if shortcuts else "RLVP", ways["RLVP"])
            write([played(way, f"{arm.slug}/{k}") for k in range(2)], path)
            trained = Trained(
                after=after,
                history={name: [before[name], after[name]] for name in before},
                by_turn=({"outcome": [0.1]}, {"outcome": [0.1]}),
                rollouts=path,
                credit=tmp_path / f"{arm.slug}-credit.jsonl",
                seconds=1.0,
            )
            made.append(Outcome(arm=arm, before=before, trained=trained))
        return made

    return make
