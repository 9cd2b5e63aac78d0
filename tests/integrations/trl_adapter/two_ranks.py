"""One training step on one or more CPU ranks, and what each rank knows afterwards."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from apportion.errors import ObserverFailing
from apportion.recipes import load
from apportion.rewards import reward
from apportion.rollouts import Trajectory
from apportion.verdicts import Failed
from tests.integrations.trl_adapter.tiny import trainer


@reward
def outcome(trajectory: Trajectory) -> float | Failed:
    number = int(trajectory.id.rpartition(".")[2])
    return Failed("down") if number in (0, 1, 3) else 1.0


def step(target: Path, *, ranks: int) -> dict[str, Any]:
    """The advantages of this rank's rows, the table, the recipe's state, and how a failing observer is counted."""
    settings: dict[str, Any] = {"num_generations": 2, "per_device_train_batch_size": 6 // ranks, "seed": 3}
    made: Any = trainer(target, recipe="rlvp", recipe_args={"gate": "reachable"}, **settings)
    kept: dict[str, Any] = {}
    scored = made._generate_and_score_completions

    def keep(inputs: Any) -> Any:
        output = scored(inputs)
        kept["rows"] = output["advantages"].cpu()
        return output

    made._generate_and_score_completions = keep
    made.train()
    kept["table"] = [list(made._logs["advantages"]), {k: list(v) for k, v in sorted(made._logs["extra"].items())}]
    kept["state"] = dict(made.recipe_state)
    grpo = load("grpo")
    failing = trainer(
        target, recipe=grpo.__class__(**{**vars(grpo), "observers": [outcome]}), observe_failure_limit=0.4, **settings
    )
    try:
        failing.train()
    except ObserverFailing as error:
        kept["failed"] = f"{error.failed} of {error.total}"
    return kept


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.save(
        step(Path(sys.argv[1]), ranks=int(os.environ["WORLD_SIZE"])), f"{sys.argv[1]}.rank{os.environ['RANK']}.pt"
    )
