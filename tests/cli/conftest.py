"""Running the program: in this process as typer does it, or as a user would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from apportion.cli._app import app
from apportion.cli.demo import ROLLOUTS
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
