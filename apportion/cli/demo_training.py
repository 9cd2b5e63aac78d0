"""The work of `apportion demo` that runs in processes of its own: imitation, and one training run.

warm_start -> weights file -> train_arm (once per arm) -> rollouts and credit of its last step, `Trained`
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from apportion.cli.demo_arms import TASKS, Arm
from apportion.environments import Task
from apportion.environments.policy import rollouts, tiny_policy
from apportion.environments.training import Iteration, imitate, measure, train
from apportion.integrations.files import write
from apportion.recipe import Credit, Recipe
from apportion.report.credit_file import CreditWriter, credit_header
from apportion.report.credit_record import credit_records
from apportion.rewards import observe
from apportion.rollouts import Level, Trajectory
from apportion.segments import starts

__all__ = ["Emit", "Measures", "Tick", "Trained", "credit_by_turn", "measures", "train_arm", "warm_start"]

Measures: TypeAlias = Mapping[str, float]

# Episodes behind the numbers of the table, in groups of 8 as in training.
_PROMPTS, _GROUP_SIZE = 64, 8


@dataclass(frozen=True, slots=True)
class Tick:
    """How far a run is.

    Attributes:
        done: optimiser steps.
        total: of so many.
        shown: what to show beside it, by name.
    """

    done: int
    total: int
    shown: Measures


Emit: TypeAlias = Callable[[Tick], None]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a run leaves behind.

    Attributes:
        after: measures of fresh rollouts of the trained policy.
        history: measures of every step's own rollouts, by name.
        by_turn: term of the credit -> its mean at turn 0, 1, ... in the first step, and in the last.
        rollouts: file of the last step's rollouts.
        credit: file of the credit that they were given.
        seconds: wall time.
    """

    after: Measures
    history: Mapping[str, Sequence[float]]
    by_turn: tuple[Mapping[str, Sequence[float]], Mapping[str, Sequence[float]]]
    rollouts: Path
    credit: Path
    seconds: float


def warm_start(emit: Emit, *, task: str, seed: int, steps: int, weights: Path) -> Measures:
    """Imitate the scripted demonstrator from random weights, save the weights, and measure the policy."""
    _one_thread()
    made = TASKS[task]()
    policy = tiny_policy(made, seed=seed)
    imitate(policy, made, seed=seed, steps=steps, on_step=lambda n, loss: emit(Tick(n + 1, steps, {"loss": loss})))
    torch.save(policy.state_dict(), weights)
    return _evaluated(policy, made, seed)


def train_arm(emit: Emit, *, arm: Arm, seed: int, weights: Path, folder: Path) -> Trained:
    """Train one arm from the imitated weights."""
    _one_thread()
    started = time.perf_counter()
    task, recipe = TASKS[arm.task](), arm.recipe()
    policy = tiny_policy(task, seed=seed)
    policy.load_state_dict(torch.load(weights, weights_only=True))
    history: dict[str, list[float]] = {}
    edges: list[Iteration] = []
    for step in train(policy, task, recipe, seed=seed, iterations=arm.iterations, prompts=arm.prompts):
        seen = measures(step.trajectories)
        for name, value in seen.items():
            history.setdefault(name, []).append(value)
        edges = [*edges[:1], step]
        emit(Tick(step.number + 1, arm.iterations, {name: seen[name] for name in arm.expected}))
    first, last = edges[0], edges[-1]
    rows, credit = _saved(recipe, last, folder, arm.slug)
    return Trained(
        after=_evaluated(policy, task, seed),
        history=history,
        by_turn=(credit_by_turn(first.credit), credit_by_turn(last.credit)),
        rollouts=rows,
        credit=credit,
        seconds=time.perf_counter() - started,
    )


def measures(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """`measure` as a mapping, and of the notebook the share of episodes that saw the last row."""
    result: dict[str, float] = asdict(measure(trajectories))
    ends = [t.columns["state"].get("last_row_seen") for t in trajectories]
    if None not in ends:
        result["last_row"] = float(np.mean(ends))
    return result


def credit_by_turn(credit: Credit) -> dict[str, list[float]]:
    """Mean credit of a policy token at turn 0, 1, ... of its episode, by term, over the episodes that come so far.

    The loss of these recipes sums over tokens with denominators of their own; times the number of tokens it is the
    weight that a mean would give.
    """
    batch, scale = credit.batch, float(credit.in_loss.sum())
    owner = batch.owner(Level.TURN, Level.TRAJECTORY)
    index = torch.arange(len(owner)) - starts(batch.turns)[owner]
    count = torch.bincount(index).double()
    return {
        name: (torch.bincount(index, batch.pool(term * scale, Level.TOKEN, Level.TURN, "mean")) / count).tolist()
        for name, term in credit.ledger(Level.TOKEN).items()
    }


def _one_thread() -> None:
    # As many threads as cores in each of several processes would spend their time waiting for each other.
    torch.set_num_threads(1)


def _evaluated(policy: Any, task: Task[Any], seed: int) -> Measures:
    generator = torch.Generator().manual_seed(seed)
    seeds = np.random.default_rng((seed, 1)).choice(2**31, size=_PROMPTS, replace=False).tolist()
    return measures(rollouts(policy, task, seeds, group_size=_GROUP_SIZE, generator=generator))


def _saved(recipe: Recipe, step: Iteration, folder: Path, slug: str) -> tuple[Path, Path]:
    rows, credit = folder / f"rollouts-{slug}.jsonl", folder / f"credit-{slug}.jsonl"
    write(step.trajectories, rows)
    verdicts = observe(recipe.observers, step.trajectories)
    with CreditWriter(credit, credit_header(recipe, source=rows.name)) as file:
        for record in credit_records(step.credit, step.trajectories, verdicts):
            file.write(record)
    return rows, credit
