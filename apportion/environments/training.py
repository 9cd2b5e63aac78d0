"""Plain training loops: imitation of scripted demonstrations, then policy gradient through a `Recipe`.

    rollouts -> recipe observes -> recipe assigns -> loss = - sum_t w_t A_t log p_t -> one optimiser step

w_t are the weights of the loss aggregation that the recipe declares. Nothing here is special to these tasks but the
sampler: it is what an adapter to a real trainer does, in the open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from apportion.batch import Batch
from apportion.environments.environment import MOVE_LENGTH, Environment
from apportion.environments.policy import rollouts, token_logps
from apportion.environments.task import Task
from apportion.errors import InvalidArgument
from apportion.recipe import Credit, Recipe
from apportion.rewards import observe
from apportion.rollouts import Trajectory

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["Iteration", "Metrics", "demonstrations", "imitate", "measure", "policy_loss", "train"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What a set of rollouts looks like.

    Attributes:
        success: mean outcome.
        violations: per episode.
        violating: share of episodes with at least one violation.
        dead_groups: share of groups whose outcomes are all equal.
        turns: per episode.
        truncated: share of episodes cut by the turn limit.
    """

    success: float
    violations: float
    violating: float
    dead_groups: float
    turns: float
    truncated: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """One step of training.

    Attributes:
        number: from 0.
        metrics: of the rollouts that the step learned from, before it did.
        trajectories: those rollouts.
        credit: what the recipe gave them.
        seconds: wall time of the step.
    """

    number: int
    metrics: Metrics
    trajectories: Sequence[Trajectory]
    credit: Credit
    seconds: float


def measure(trajectories: Sequence[Trajectory]) -> Metrics:
    """Metrics of rollouts that an `Environment` recorded.

    Raises:
        InvalidArgument: no rollouts.
    """
    if not trajectories:
        raise InvalidArgument("trajectories", trajectories, "at least one rollout")
    rewards = np.array([t.columns["reward"] for t in trajectories], float)
    violations = np.array([t.columns["violations"] for t in trajectories], float)
    groups: dict[str, set[float]] = {}
    for trajectory, reward in zip(trajectories, rewards.tolist(), strict=True):
        groups.setdefault(trajectory.group, set()).add(reward)
    return Metrics(
        success=float(rewards.mean()),
        violations=float(violations.mean()),
        violating=float((violations > 0).mean()),
        dead_groups=float(np.mean([len(seen) == 1 for seen in groups.values()])),
        turns=float(np.mean([t.n_turns for t in trajectories])),
        truncated=float(np.mean([t.status == "truncated" for t in trajectories])),
    )


def demonstrations(task: Task[Any], seeds: Sequence[int], *, rng: np.random.Generator) -> list[Trajectory]:
    """The scripted demonstrator's episode of each seed; no token of them is `own`."""
    environment = Environment(task)
    result = []
    for k, seed in enumerate(seeds):
        environment.reset(seed)
        for move in task.demonstrate(seed, rng):
            if environment.step(task.vocabulary.ids(move)).done:
                break
        result.append(environment.trajectory(id=f"{task.name}/demonstration/{k}", group=f"{task.name}/{seed}"))
    return result


def imitate(
    policy: PreTrainedModel,
    task: Task[Any],
    *,
    seed: int,
    steps: int,
    batch: int = 64,
    learning_rate: float = 3e-3,
    on_step: Callable[[int, float], None] | None = None,
) -> None:
    """Warm start: cross-entropy on the policy tokens of fresh demonstrations; the policy is changed in place.

    Args:
        policy: a causal language model over the task's vocabulary.
        task: whose demonstrator is imitated.
        seed: decides the demonstrations.
        steps: optimiser steps.
        batch: demonstrations per step.
        learning_rate: of Adam.
        on_step: called with the number of the step and its loss (nats per token).
    """
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    for number in range(steps):
        shown = demonstrations(task, rng.integers(2**31, size=batch).tolist(), rng=rng)
        packed = Batch.pack(shown)
        logps, _ = token_logps(policy, shown)
        loss = -packed.unpad(logps).mean()
        _update(policy, optimizer, loss)
        if on_step is not None:
            on_step(number, float(loss.detach()))


def policy_loss(
    policy: PreTrainedModel,
    trajectories: Sequence[Trajectory],
    credit: Credit,
    *,
    constant: float | None = None,
    entropy: float = 0.0,
) -> Tensor:
    """The loss whose gradient is the policy gradient with the recipe's credit and aggregation.

        loss = - sum_t w_t A_t log p_t - entropy * mean_t H_t

    Args:
        policy: a causal language model.
        trajectories: in the order of `credit.batch`.
        credit: advantages A and weights w per policy token. Without credit anywhere the first part is exactly 0.
        constant: tokens that a recipe with the aggregation "seq-mean-token-sum-norm" divides by.
        entropy: weight of the entropy bonus, in units of advantage per nat.
    """
    logps, entropies = token_logps(policy, trajectories)
    batch = credit.batch
    width = logps.shape[1]
    weights = batch.pad(credit.loss_weights(constant=constant), width=width).to(logps)
    loss = -(weights * credit.padded(width=width, dtype=logps.dtype).to(logps) * logps).sum()
    return loss - entropy * batch.unpad(entropies).mean() if entropy else loss


def train(
    policy: PreTrainedModel,
    task: Task[Any],
    recipe: Recipe,
    *,
    seed: int,
    iterations: int,
    prompts: int = 16,
    group_size: int = 8,
    learning_rate: float = 2e-3,
    entropy: float = 0.0,
) -> Iterator[Iteration]:
    """Policy gradient on fresh rollouts, one optimiser step each; the policy is changed in place.

    Yields each step when it is done, so the caller shows progress and stops when it likes.

    Args:
        policy: a causal language model over the task's vocabulary.
        task: what is played.
        recipe: gives the credit; its state is carried from step to step.
        seed: decides prompts and sampling.
        iterations: optimiser steps.
        prompts: groups per step.
        group_size: rollouts per group.
        learning_rate: of Adam.
        entropy: see `policy_loss`.
    """
    rng = np.random.default_rng(seed)
    generator = torch.Generator(policy.device).manual_seed(seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    constant = task.max_turns * MOVE_LENGTH if recipe.aggregation == "seq-mean-token-sum-norm" else None
    state: Mapping[str, Any] | None = None
    for number in range(iterations):
        began = time.perf_counter()
        seeds = rng.choice(2**31, size=prompts, replace=False).tolist() if prompts else []
        made = rollouts(policy, task, seeds, group_size=group_size, generator=generator, step=number)
        credit, state = recipe.assign(Batch.pack(made), observe(recipe.observers, made), step=number, state=state)
        _update(policy, optimizer, policy_loss(policy, made, credit, constant=constant, entropy=entropy))
        yield Iteration(
            number=number,
            metrics=measure(made),
            trajectories=made,
            credit=credit,
            seconds=time.perf_counter() - began,
        )


def _update(policy: PreTrainedModel, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
