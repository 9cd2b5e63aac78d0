"""Methods across turns as compositions of the verbs, on their worked numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from apportion.advantages import group_center, group_stat, grpo, on_last_token, return_to_go
from apportion.batch import Batch
from apportion.rollouts import Level
from apportion.signal import Signal


def turns_of(counts: list[int], values: list[float], name: str = "step") -> Signal:
    batch = Batch.of(groups=["q"] * len(counts), turns=counts, tokens=[1] * sum(counts))
    return Signal.of(batch, Level.TURN, values, name=name)


@pytest.mark.parametrize(
    ("progress", "outcome", "expected"),
    [
        (
            ([0, 0.25, 0.25, 1], [0, 0.5, 0.25]),
            [1.0, 0.0],
            [1.65, 1.525, 1.525, -1.725, -1.975],
        ),
        (([0, 0.5, 0.5], [0, 0, 0.5]), [0.0, 0.0], [0.0625, -0.1875, 0.0625, 0.0625]),
    ],
)
def test_progress_inside_and_across_attempts(
    progress: tuple[list[float], list[float]], outcome: list[float], expected: list[float]
) -> None:
    # S = R + c Phi_K across attempts; R + c (Phi_K - Phi_{k-1}) across all turns of the group, c = 1/2.
    counts = [len(p) - 1 for p in progress]
    rises = [b - a for p in progress for a, b in pairwise(p)]
    step = 0.5 * turns_of(counts, rises, "progress")
    reward = Signal.of(step.batch, Level.TRAJECTORY, outcome, name="outcome")
    across_attempts = grpo(reward + step.pool(Level.TRAJECTORY, "sum"), ddof=0, eps=1e-6)
    across_turns = group_center(reward + return_to_go(step))
    made = across_attempts + across_turns
    assert made.values.tolist() == pytest.approx(expected, abs=1e-4)
    assert made.residual() <= 1e-12


def test_anchor_states() -> None:
    # Two attempts visit (a, b, c) and (a, d, b); the first one is rewarded at its end.
    rewards = turns_of([3, 3], [0, 0, 1, 0, 0, 0], "reward")
    returns = return_to_go(rewards, discount=0.95)
    assert returns.values.tolist()[:3] == pytest.approx([0.9025, 0.95, 1.0])
    anchors = torch.tensor([0, 1, 2, 0, 3, 1])
    episode = grpo(rewards.pool(Level.TRAJECTORY, "sum"), scale="none")
    made = episode + group_stat(returns, key=anchors, scale="none")
    assert made.values.tolist() == pytest.approx([0.95125, 0.975, 0.5, -0.95125, -0.5, -0.975])


def test_step_and_episode_advantage_of_states_seen_once() -> None:
    returns = turns_of([2, 1], [1.0, 1.0, 0.0])
    episode = Signal.of(returns.batch, Level.TRAJECTORY, [0.5, -0.5], name="episode")
    made = episode + group_stat(returns, key=torch.tensor([1, 2, 1]))
    assert made.values.tolist() == pytest.approx([0.5 + 0.7071, 0.5, -0.5 - 0.7071], abs=1e-4)


def test_turn_reward_on_the_first_turn() -> None:
    batch = Batch.of(groups=["q"] * 4)
    turn = Signal.of(batch, Level.TRAJECTORY, [0.5, 0.0, 0.5, 0.0], name="turn")
    outcome = Signal.of(batch, Level.TRAJECTORY, [1.0, 0.0, 0.0, 1.0], name="outcome")
    first = (grpo(turn, eps=1e-4) + grpo(outcome, eps=1e-4)).values.tolist()
    assert [first[0], first[2]] == pytest.approx([1.7316, -0.0002], abs=1e-4)


def test_prompt_and_tree_groups() -> None:
    batch = Batch.of(groups=["q"] * 4)
    x = Signal.of(batch, Level.TRAJECTORY, [1.0, 0.0, 1.0, 1.0], name="r")
    made = grpo(x) + group_stat(x, key=torch.tensor([0, 0, 1, 1]))
    assert made.values.tolist() == pytest.approx([0.5 + 0.7071, -1.5 - 0.7071, 0.5, 0.5], abs=1e-4)


def test_pooled_turn_rewards_then_returns() -> None:
    # Information gain p_k - p_{k-1} of p = (.1, .3, .25), then the F1 score of the answer turn.
    gains = turns_of([3, 3], [0.2, -0.05, 1.0, 0.0, 0.0, 0.0], "gain")
    pooled = group_stat(gains)
    to_go = return_to_go(pooled)
    z = torch.tensor([0.2, -0.05, 1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    z = (z - z.mean()) / z.std()
    assert to_go.values.tolist() == pytest.approx([float(z[i : 3 if i < 3 else 6].sum()) for i in range(6)])


def test_terminal_and_turn_rewards_differ_by_placement() -> None:
    batch = Batch.of(groups=["q"], turns=[2], tokens=[2, 3])
    x = Signal.of(batch, Level.TURN, [1.0, 10.0], name="r")
    assert return_to_go(on_last_token(x)).values.tolist() == [11.0, 11.0, 10.0, 10.0, 10.0]
    assert x.spread(Level.TOKEN).values.tolist() == [1.0, 1.0, 10.0, 10.0, 10.0]
