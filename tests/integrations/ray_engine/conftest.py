"""One small cluster for the package, and the same runs without any."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from apportion.integrations.files import write
from apportion.integrations.ray import BlockRun, engine
from apportion.integrations.ray.worker import BlockScorer, Job
from apportion.rollouts import Action, Trajectory, Turn

Make = Callable[..., Path]
Score = Callable[..., Any]

NOTED = """
import os, signal, time
from pathlib import Path
from apportion.advantages import grpo
from apportion.recipe import Recipe
from apportion.rollouts import Level
from apportion.verdicts import Failed, Scored

class Noted:
    name, level = "outcome", Level.TRAJECTORY
    def __init__(self, log, slow, deadly):
        self.log, self.slow, self.deadly = Path(log), slow, deadly
    def observe(self, trajectories):
        time.sleep(self.slow)
        with open(self.log / f"{os.getpid()}.log", "a") as log:
            log.writelines(f"{t.id}\\n" for t in trajectories)
        if self.deadly and any(t.id == self.deadly for t in trajectories):
            try:
                (self.log / "died").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return [Scored(t.columns["reward"]) for t in trajectories]

def recipe(*, log: str, slow: float = 0.0, deadly: str = "") -> Recipe:
    def assign(batch, signals, *, step, state):
        return grpo(signals["outcome"])
    return Recipe(name="noted", observers=[Noted(log, slow, deadly)], assign_signals=assign,
                  aggregation="token-mean", parameters={"log": log})
"""


@pytest.fixture(scope="package")
def cluster() -> Iterator[str]:
    """The address of a Ray cluster on this machine, which this process is connected to."""
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=100 * 2**20,
    )
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of the workers in this process."""

    def answers(rows: Any, job: Job, **_: Any) -> Generator[tuple[int, bytes]]:
        with closing(BlockScorer(job)) as scorer:
            for row in rows:
                done = scorer(row)
                yield done["block"], done["error"]

    monkeypatch.setattr(engine, "answers", answers)


@pytest.fixture
def rollouts(tmp_path: Path) -> Make:
    """`rollouts(24)`: two-turn rollouts in groups of four, scattered; two groups a step."""

    def make(n: int = 24, **fields: Any) -> Path:
        path = tmp_path / "rollouts.jsonl"
        moves = [Turn(actions=(Action("edit", {"path": "a"}),)), Turn(actions=(Action("read", {"path": "a"}),))]
        rows = [
            Trajectory(
                id=f"r{i}",
                group=f"g{i // 4}",
                step=i // 8,
                response_ids=[1, 2, 3, 4, i],
                policy=[1, 1, 0, 1, 1],
                turns=tuple(moves[:: 1 if i % 3 else -1]),
                columns={"reward": float(i % 4 < 1 + i % 3)},
            )
            for i in range(n)
        ]
        write([dataclasses.replace(row, **fields) for row in sorted(rows, key=lambda row: int(row.id[1:]) % 5)], path)
        return path

    return make


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    """A recipe file whose observer notes what it looks at."""
    path = tmp_path / "noted.py"
    path.write_text(NOTED, encoding="utf-8")
    (tmp_path / "log").mkdir()
    return path


@pytest.fixture
def score(tmp_path: Path) -> Score:
    """`score(path, "grpo")`: a run in blocks of 8 rows, into `tmp_path / "out"`."""

    def go(source: Path, recipe: str | Path, *, out: str = "out", block_rows: int = 8, **options: Any) -> Any:
        parameters = options.pop("parameters", {})
        with BlockRun(
            source, tmp_path / out, recipe=str(recipe), parameters=parameters, block_rows=block_rows, **options
        ) as run:
            return run.score()

    return go


def observed(log: Path) -> list[str]:
    """The ids that were looked at, each as often as that."""
    return sorted(line for one in log.glob("*.log") for line in one.read_text().split())
