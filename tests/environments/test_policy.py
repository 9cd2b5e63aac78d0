"""What is recorded is what the model saw and what it would say again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from apportion.environments import Environment, Notebook, Task, Terminal
from apportion.environments.policy import play_all, rollouts, tiny_policy, token_logps
from apportion.environments.training import imitate
from apportion.errors import InvalidArgument
from apportion.rollouts import Trajectory, Turn

TASKS: list[Task[Any]] = [Terminal(), Notebook()]
both = pytest.mark.parametrize("task", TASKS, ids=["terminal", "notebook"])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module", params=TASKS, ids=["terminal", "notebook"])
def trained(request: pytest.FixtureRequest) -> tuple[Task[Any], Any]:
    """A policy that has learned the grammar: its episodes end at different turns."""
    policy = tiny_policy(request.param, seed=0)
    imitate(policy, request.param, seed=0, steps=25)
    return request.param, policy


class Spy:
    """A policy that remembers the ids it was fed."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self.fed: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)

    def __call__(self, *, input_ids: torch.Tensor, **options: Any) -> Any:
        assert input_ids.shape[0] == 1
        self.fed += input_ids[0].tolist()
        return self.policy(input_ids=input_ids, **options)


def fresh_gap(policy: Any, made: Sequence[Trajectory]) -> float:
    """Largest difference between the recorded log-probabilities and those of one fresh forward pass, on own tokens."""
    with torch.no_grad():
        logps, _ = token_logps(policy, made)
    gaps = []
    for row, t in zip(logps.double().numpy(), made, strict=True):
        assert t.own is not None
        assert t.behaviour_logps is not None
        gaps.append(np.abs(row[: len(t.own)] - t.behaviour_logps)[t.own].max())
    return float(max(gaps))


@both
def test_the_seed_decides_the_weights_and_the_global_generator_is_left_alone(task: Task[Any]) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, same, other = (tiny_policy(task, seed=s) for s in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    pairs = list(zip(one.parameters(), same.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert sum(p.numel() for p in one.parameters()) < 150_000


def test_the_ids_in_the_trajectory_are_the_ids_fed_to_the_model(trained: tuple[Task[Any], Any]) -> None:
    """All but the last one, which nothing followed."""
    task, policy = trained
    for seed in range(6):
        spy = Spy(policy)
        (t,) = rollouts(spy, task, [seed], group_size=1, generator=generator(seed))  # type: ignore[arg-type]
        assert t.prompt_ids is not None
        assert t.response_ids is not None
        assert spy.fed == [*t.prompt_ids.tolist(), *t.response_ids.tolist()][:-1]


def test_recorded_log_probabilities_are_those_of_a_fresh_forward_pass(trained: tuple[Task[Any], Any]) -> None:
    """Over a batch whose episodes end at different turns, so rows leave the cache on the way."""
    task, policy = trained
    made = rollouts(policy, task, range(8), group_size=4, generator=generator())
    assert len({t.n_turns for t in made}) > 2
    assert fresh_gap(policy, made) < 1e-5


def test_a_policy_that_is_being_trained_with_gradient_checkpointing_samples_the_same(
    trained: tuple[Task[Any], Any],
) -> None:
    """What a trainer switches on takes the cache away without an error; the mode is left as it was."""
    task, policy = trained
    checkpointed = tiny_policy(task, seed=0)
    checkpointed.load_state_dict(policy.state_dict())
    checkpointed.gradient_checkpointing_enable()
    checkpointed.train()
    made = rollouts(checkpointed, task, range(4), group_size=2, generator=generator())
    assert checkpointed.training
    assert fresh_gap(policy, made) < 1e-5


def test_the_generator_decides_the_rollouts(trained: tuple[Task[Any], Any]) -> None:
    task, policy = trained

    def ids(seed: int) -> list[list[int]]:
        made = rollouts(policy, task, range(4), group_size=2, generator=generator(seed))
        return [t.response_ids.tolist() for t in made if t.response_ids is not None]

    assert ids(0) == ids(0)
    assert ids(0) != ids(1)


def test_groups_and_ids(trained: tuple[Task[Any], Any]) -> None:
    task, policy = trained
    made = rollouts(policy, task, [7, 3], group_size=2, generator=generator(), step=4)
    n = task.name
    assert [t.id for t in made] == [f"{n}/7/0", f"{n}/7/1", f"{n}/3/0", f"{n}/3/1"]
    assert [t.group for t in made] == [f"{n}/7", f"{n}/7", f"{n}/3", f"{n}/3"]
    assert {t.step for t in made} == {4}
    prompts = [t.prompt_ids.tolist() for t in made if t.prompt_ids is not None]
    assert prompts[0] == prompts[1] == list(Environment(task).reset(7))


def test_sampling_follows_the_distribution(trained: tuple[Task[Any], Any]) -> None:
    """First tokens of 2,000 rollouts of one prompt against the model's own probabilities."""
    task, policy = trained
    made = rollouts(policy, task, [0], group_size=2000, generator=generator())
    with torch.no_grad():
        prompt = torch.tensor([made[0].prompt_ids.tolist()])  # type: ignore[union-attr]
        expected = policy(input_ids=prompt).logits[0, -1].softmax(-1).numpy()
    first = [int(t.response_ids[0]) for t in made if t.response_ids is not None]
    seen = np.bincount(first, minlength=len(task.vocabulary)) / 2000
    assert np.abs(seen - expected).max() < 0.05


def test_episodes_go_on_from_wherever_they_stand(trained: tuple[Task[Any], Any]) -> None:
    """Branches from prefixes of several lengths in one call, one of them at the start and one over already."""
    task, policy = trained
    made = rollouts(policy, task, range(12), group_size=1, generator=generator())
    long = next(t for t in made if t.n_turns >= 3)
    assert long.response_ids is not None
    cuts = [0, *(turn.span[1] for turn in long.turns if turn.span is not None)]
    branches = [Environment(task) for _ in cuts]
    for environment, cut in zip(branches, cuts, strict=True):
        environment.resume(long.columns["seed"], long.response_ids[:cut].tolist())
    logps = play_all(policy, branches, generator=generator(1))
    assert logps[-1] == []
    done = [e.trajectory(id=f"b{k}", group="q", logps=logps[k], copied=cuts[k]) for k, e in enumerate(branches[:-1])]
    for t, cut in zip(done, cuts, strict=False):
        assert t.own is not None
        assert t.policy is not None
        assert t.response_ids is not None
        assert t.response_ids[:cut].tolist() == long.response_ids[:cut].tolist()
        assert not t.own[:cut].any()
        assert (t.own == t.policy)[cut:].all()
    assert fresh_gap(policy, done) < 1e-5


def test_padding_changes_nothing(trained: tuple[Task[Any], Any]) -> None:
    """A rollout scored alone and beside longer ones."""
    task, policy = trained
    made = rollouts(policy, task, range(8), group_size=1, generator=generator())
    with torch.no_grad():
        together, entropies = token_logps(policy, made)
        for k, t in enumerate(made):
            alone, entropy = token_logps(policy, [t])
            assert torch.allclose(together[k, : alone.shape[1]], alone[0], atol=1e-5)
            assert torch.allclose(entropies[k, : alone.shape[1]], entropy[0], atol=1e-5)
    assert (entropies >= -1e-6).all()
    assert (entropies <= np.log(len(task.vocabulary)) + 1e-6).all()


def test_what_cannot_be_sampled_or_scored_is_refused() -> None:
    task = Terminal()
    policy = tiny_policy(task, seed=0)
    with pytest.raises(InvalidArgument, match=r"\[2\]"):
        rollouts(policy, task, [2, 1, 2], group_size=1, generator=generator())
    with pytest.raises(InvalidArgument, match="seeds"):
        rollouts(policy, task, [], group_size=1, generator=generator())
    with pytest.raises(InvalidArgument, match="group_size"):
        rollouts(policy, task, [1], group_size=0, generator=generator())
    text = Trajectory(id="t", group="q", turns=(Turn(text="cat a.py"),))
    short, long = (Trajectory(id=p, group="q", prompt_ids=list(range(int(p))), response_ids=[1]) for p in "12")
    for bad in ([text], [short, long], [Trajectory(id="r", group="q", response_ids=[1])]):
        with pytest.raises(InvalidArgument, match="trajectories"):
            token_logps(policy, bad)
