"""ReMax."""

from __future__ import annotations

import pytest
import torch

from apportion.advantages import remax
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Failed, Scored

NAN = float("nan")


def test_reward_minus_the_greedy_rollout() -> None:
    assert remax(rewards_signal([1.0]), baseline=torch.tensor([0.4], dtype=torch.float64)).values.tolist() == [0.6]


def test_a_baseline_per_prompt() -> None:
    x = rewards_signal([1.0, 0.0, 1.0], groups=["a", "a", "b"])
    greedy = Signal.of(x.batch, Level.GROUP, [0.5, 1.0], name="greedy")
    made = remax(x, baseline=greedy)
    assert made.values.tolist() == [0.5, -0.5, 0.0]
    assert made.ledger()["baseline"].tolist() == [-0.5, -0.5, -1.0]


def test_without_a_baseline_there_is_no_advantage() -> None:
    x = rewards_signal([1.0, None, 1.0])
    made = remax(x, baseline=torch.tensor([NAN, 0.4, 0.4], dtype=torch.float64))
    assert made.values.tolist() == [0.0, 0.0, 0.6]
    assert made.known.tolist() == [False, False, True]


def test_a_failed_reward_is_neutral_afterwards() -> None:
    x = rewards_signal([1.0, 1.0])
    failed = Signal.from_verdicts(x.batch, Level.TRAJECTORY, [Failed("judge"), Scored(1.0)], name="r")
    made = remax(failed, baseline=torch.zeros(2)) + Signal.of(x.batch, Level.TRAJECTORY, [0.5, 0.5], name="path")
    assert made.values.tolist() == [0.5, 1.5]


@pytest.mark.parametrize("baseline", [torch.zeros(3), torch.tensor([0.0, float("inf")])])
def test_bad_baselines_are_refused(baseline: torch.Tensor) -> None:
    with pytest.raises(InvalidArgument, match="baseline"):
        remax(rewards_signal([1.0, 0.0]), baseline=baseline)
