"""GRPO."""

from __future__ import annotations

import pytest
import torch

from apportion.advantages import grpo
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal

ONE_IN_FOUR = [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("ddof", "expected"), [(1, [1.5, -0.5]), (0, [1.7321, -0.5774])])
def test_sample_or_population_std(ddof: int, expected: list[float]) -> None:
    got = grpo(rewards_signal(ONE_IN_FOUR), ddof=ddof).values.tolist()
    assert got[:2] == pytest.approx(expected, abs=1e-4)


def test_two_rewards() -> None:
    assert grpo(rewards_signal([1.0, 0.0]), ddof=0).values.tolist() == [1.0, -1.0]
    assert grpo(rewards_signal([1.0, 0.0])).values.tolist() == pytest.approx([0.7071, -0.7071], abs=1e-4)


def test_single_choices_override_the_dialect() -> None:
    x = rewards_signal(ONE_IN_FOUR)
    assert grpo(x, dialect="verl", scale="none").values.tolist() == [0.75, -0.25, -0.25, -0.25]
    assert grpo(x, dialect="prime-rl", scale="std").values.tolist() == [1.5, -0.5, -0.5, -0.5]
    assert grpo(x, dialect="trl", eps=0.0).values.tolist() == [1.5, -0.5, -0.5, -0.5]
    assert grpo(rewards_signal([0.7]), dialect="verl", singleton="zero").values.tolist() == [0.0]


def test_scaling_by_the_batch() -> None:
    x = rewards_signal([1.0, 0.0, 4.0, 0.0], groups=["a", "a", "b", "b"])
    std = torch.tensor([1.0, 0.0, 4.0, 0.0]).std().item()
    assert grpo(x, scale_key="batch").values.tolist() == pytest.approx([0.5 / std, -0.5 / std, 2 / std, -2 / std])


def test_the_baseline_is_of_the_shaped_rewards() -> None:
    raw = rewards_signal([1.0, 1.0, 1.0, 0.0], name="outcome")
    shaped = raw + Signal.of(raw.batch, Level.TRAJECTORY, [-0.1, -0.3, -0.4, 0.0], name="length")
    made = grpo(shaped, scale="none")
    assert made.values.tolist() == pytest.approx([0.35, 0.15, 0.05, -0.55])
    assert float(made.values.sum()) == pytest.approx(0.0, abs=1e-15)
    assert made.ledger()["outcome"].tolist() == pytest.approx([0.25, 0.25, 0.25, -0.75])


def test_bfloat16_rewards_are_not_averaged_in_bfloat16() -> None:
    rewards = torch.tensor([2.0, 2.0, 2.0, 2.015625], dtype=torch.bfloat16)
    assert float(rewards.mean()) == 2.0  # the mean that made the signs wrong
    x = Signal.of(Batch.of(groups=["q"] * 4), Level.TRAJECTORY, rewards, name="r")
    assert grpo(x).values.tolist() == [-0.5, -0.5, -0.5, 1.5]


def test_a_half_precision_epsilon_cannot_underflow() -> None:
    rewards = torch.full((4,), 0.5, dtype=torch.float16)
    half = (rewards - rewards.mean()) / (rewards.std() + 1e-9)
    assert torch.isnan(half).all()  # 1e-9 is 0 in float16
    x = Signal.of(Batch.of(groups=["q"] * 4), Level.TRAJECTORY, rewards, name="r")
    assert grpo(x, eps=1e-9).values.tolist() == [0.0] * 4


def test_group_baseline_of_a_branching_rollout() -> None:
    # One parent and two pairs of branches: the base credit of CBPO.
    got = grpo(rewards_signal([1.0, 0.0, 0.0, 1.0, 1.0]), ddof=0).values.tolist()
    assert got == pytest.approx([0.8165, -1.2247, -1.2247, 0.8165, 0.8165], abs=1e-4)


def test_bad_choices_are_named() -> None:
    with pytest.raises(InvalidArgument, match="dialect"):
        grpo(rewards_signal([1.0]), dialect="ppo")
    with pytest.raises(InvalidArgument, match="ddof"):
        grpo(rewards_signal([1.0]), ddof=3)


@pytest.mark.parametrize("numbers", [[1.0, 0.0], torch.tensor([1.0, 0.0])])
def test_plain_numbers_are_told_how_to_become_a_signal(numbers: object) -> None:
    with pytest.raises(InvalidArgument, match="rewards_signal"):
        grpo(numbers)  # type: ignore[arg-type]
