"""The loop is the policy gradient it claims to be, and it learns what its credit says."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pytest
import torch

from apportion.advantages import group_center, per_channel
from apportion.advantages.aggregation import Aggregation
from apportion.batch import Batch
from apportion.environments import Environment, Notebook, Terminal
from apportion.environments.policy import rollouts, tiny_policy, token_logps
from apportion.environments.training import demonstrations, imitate, measure, policy_loss, train
from apportion.errors import InvalidArgument
from apportion.recipe import Credit, Recipe, State
from apportion.rewards import outcome
from apportion.rollouts import Level, Trajectory
from apportion.signal import Signal
from apportion.verdicts import Scored

TASK = Terminal()


@dataclass(frozen=True)
class Counted:
    """A turn column as a shaping reward."""

    name: str
    level: Level = Level.TURN
    role: str = "shaping"

    def observe(self, trajectories: Sequence[Trajectory]) -> list[list[Scored]]:
        return [[Scored(turn.columns[self.name]) for turn in t.turns] for t in trajectories]


def paired(aggregation: Aggregation = "token-sum") -> Recipe:
    """The outcome inside the group, and beside it a penalty per violation and a credit per fulfilment."""

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> tuple[Signal, State]:
        path = signals["fulfilments"] * 0.25 - signals["violations"] * 0.25
        made = per_channel([group_center(signals["outcome"]), path], counted=["known", "nonzero"])
        return made, {"steps": [*state.get("steps", []), step]}

    return Recipe(
        name="paired",
        observers=[outcome(), Counted("violations"), Counted("fulfilments")],
        assign_signals=assign,
        aggregation=aggregation,
        scope="batch",
    )


@pytest.fixture(scope="module")
def warm() -> Any:
    policy = tiny_policy(TASK, seed=0)
    imitate(policy, TASK, seed=0, steps=60)
    return policy


def sampled(policy: Any, seed: int = 0) -> list[Trajectory]:
    return rollouts(policy, TASK, range(16), group_size=8, generator=torch.Generator().manual_seed(seed))


def credit_of(made: Sequence[Trajectory], values: torch.Tensor, aggregation: Aggregation) -> Credit:
    batch = Batch.pack(made)
    advantages = Signal.of(batch, Level.TOKEN, values, name="given")
    return Credit(advantages=advantages, aggregation=aggregation, rewards={}, recipe="given")


@pytest.mark.parametrize("aggregation", get_args(Aggregation))
def test_the_gradient_of_the_loss_is_minus_the_weighted_credit(warm: Any, aggregation: Aggregation) -> None:
    """d loss / d log p_t = - w_t A_t, written out token by token; and exactly the same as summing by hand."""
    made = rollouts(warm, TASK, [0, 1, 2], group_size=2, generator=torch.Generator().manual_seed(0))
    rng = np.random.default_rng(0)
    lengths = [int(t.policy.sum()) for t in made if t.policy is not None]
    values = torch.from_numpy(rng.normal(size=sum(lengths)))
    constant = 18.0 if aggregation == "seq-mean-token-sum-norm" else None
    loss = policy_loss(warm, made, credit_of(made, values, aggregation), constant=constant)
    logps, _ = token_logps(warm, made)
    rows, expected, k = len(made), torch.zeros(()), 0
    for i, t in enumerate(made):
        assert t.policy is not None
        for position in np.flatnonzero(t.policy):
            weight = {
                "token-sum": 1.0,
                "token-mean": 1 / sum(lengths),
                "seq-mean-token-mean": 1 / (rows * lengths[i]),
                "seq-mean-token-sum": 1 / rows,
                "seq-mean-token-sum-norm": 1 / (rows * 18.0),
            }[aggregation]
            expected -= weight * float(values[k]) * logps[i, position]
            k += 1
    assert k == sum(lengths)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    ours = torch.autograd.grad(loss, list(warm.parameters()))
    theirs = torch.autograd.grad(expected, list(warm.parameters()))
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_without_credit_the_loss_and_its_gradient_are_exactly_zero(warm: Any) -> None:
    made = sampled(warm)
    tokens = int(sum(t.policy.sum() for t in made if t.policy is not None))
    loss = policy_loss(warm, made, credit_of(made, torch.zeros(tokens), "token-mean"))
    assert loss.item() == 0.0
    assert all(not g.any() for g in torch.autograd.grad(loss, list(warm.parameters())))


def test_the_entropy_bonus_counts_policy_tokens(warm: Any) -> None:
    made = sampled(warm)
    tokens = int(sum(t.policy.sum() for t in made if t.policy is not None))
    credit = credit_of(made, torch.zeros(tokens), "token-mean")
    _, entropies = token_logps(warm, made)
    mean = np.mean([entropies[i, p].item() for i, t in enumerate(made) for p in np.flatnonzero(t.policy)])
    assert policy_loss(warm, made, credit, entropy=0.5).item() == pytest.approx(-0.5 * mean, rel=1e-4)


def test_metrics_of_rollouts_that_are_known() -> None:
    """Group p: one honest failure and one shortcut that paid; group q: two truncated episodes."""
    words = TASK.vocabulary.encode

    def made(name: str, group: str, seed: int, text: str) -> Trajectory:
        environment = Environment(TASK)
        environment.reset(seed)
        for move in text.split(", "):
            environment.step(words(move))
        return environment.trajectory(id=name, group=group)

    waiting = ", ".join(["run ."] * 9)
    m = measure(
        [
            made("a", "p", 0, "submit ."),
            made("b", "p", 0, "edit tests.py, rm lock, submit ."),
            made("c", "q", 1, waiting),
            made("d", "q", 1, waiting.replace("run .", "rm lock", 1)),
        ]
    )
    assert (m.success, m.violations, m.violating) == (0.25, 0.75, 0.5)
    assert (m.dead_groups, m.turns, m.truncated) == (0.5, 5.5, 0.5)
    with pytest.raises(InvalidArgument):
        measure([])


def test_demonstrations_are_episodes_of_which_nothing_is_own() -> None:
    shown = demonstrations(TASK, range(64), rng=np.random.default_rng(0))
    assert not any(t.own.any() for t in shown if t.own is not None)
    m = measure(shown)
    assert 0.1 < m.success < 0.8
    assert m.violations > 0.5
    again = demonstrations(TASK, range(64), rng=np.random.default_rng(0))
    assert [t.columns for t in again] == [t.columns for t in shown]


def test_imitation_lowers_its_loss_and_raises_success_from_nothing(warm: Any) -> None:
    fresh = tiny_policy(TASK, seed=0)
    losses: list[float] = []
    imitate(fresh, TASK, seed=1, steps=20, on_step=lambda number, loss: losses.append(loss))
    assert len(losses) == 20
    assert losses[0] > np.log(len(TASK.vocabulary)) - 0.5
    assert losses[-1] < 0.6 * losses[0]
    assert measure(sampled(tiny_policy(TASK, seed=0))).success < 0.05
    assert measure(sampled(warm)).success > 0.1


def test_the_same_seed_trains_the_same_policy_and_steps_are_counted(warm: Any) -> None:
    def run(seed: int) -> tuple[Any, list[Any]]:
        policy = copy.deepcopy(warm)
        options = {"seed": seed, "iterations": 3, "prompts": 4, "group_size": 4}
        return policy, list(train(policy, TASK, paired(), **options))  # type: ignore[arg-type]

    (one, first), (same, second), (other, _) = run(0), run(0), run(1)
    assert [step.number for step in first] == [0, 1, 2]
    assert [step.metrics for step in first] == [step.metrics for step in second]
    assert [{t.step for t in step.trajectories} for step in first] == [{0}, {1}, {2}]
    pairs = zip(one.parameters(), same.parameters(), other.parameters(), strict=True)
    differs = [(torch.equal(a, b), torch.equal(a, c)) for a, b, c in pairs]
    assert all(equal for equal, _ in differs)
    assert not all(equal for _, equal in differs)


def test_the_state_of_the_recipe_goes_from_step_to_step(warm: Any) -> None:
    seen: list[Any] = []

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> tuple[Signal, State]:
        seen.append((step, dict(state)))
        return group_center(signals["outcome"]), {"count": state["count"] + 1}

    recipe = Recipe(
        name="counting",
        observers=[outcome()],
        assign_signals=assign,
        aggregation="seq-mean-token-sum-norm",
        initial_state={"count": 0},
    )
    for _ in train(copy.deepcopy(warm), TASK, recipe, seed=0, iterations=3, prompts=2, group_size=2):
        pass
    assert seen == [(0, {"count": 0}), (1, {"count": 1}), (2, {"count": 2})]


def test_paired_path_credit_unlearns_the_violations(warm: Any) -> None:
    """A few iterations: violations per episode fall to a third or less, and success rises."""
    steps = list(train(copy.deepcopy(warm), TASK, paired(), seed=0, iterations=15))
    first, last = steps[0].metrics, steps[-1].metrics
    assert last.violations < first.violations / 3
    assert last.success > first.success + 0.2


def test_the_outcome_alone_keeps_the_violations(warm: Any) -> None:
    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        return group_center(signals["outcome"])

    recipe = Recipe(name="outcome", observers=[outcome()], assign_signals=assign, aggregation="token-mean")
    steps = list(train(copy.deepcopy(warm), TASK, recipe, seed=0, iterations=15))
    first, last = steps[0].metrics, steps[-1].metrics
    assert last.success > first.success + 0.3
    assert last.violations > first.violations


def test_the_notebook_trains_through_the_same_loop() -> None:
    task = Notebook(values=10, rows=(3, 4), window=2, max_turns=3)
    policy = tiny_policy(task, seed=0)
    imitate(policy, task, seed=0, steps=5)
    recipe = Recipe(
        name="outcome",
        observers=[outcome()],
        assign_signals=lambda batch, signals, *, step, state: group_center(signals["outcome"]),
        aggregation="seq-mean-token-mean",
    )
    (step,) = train(policy, task, recipe, seed=0, iterations=1, prompts=3, group_size=2)
    assert len(step.trajectories) == 6
    assert step.credit.recipe == "outcome"
