"""Dialects of frameworks that are not installed here: their source was READ, none of it was run.

What was read, each in a version of 2026, and what it makes of rewards r of one prompt (std1 sample, std0 population):

    OpenRLHF  ppo_utils/experience_maker.py  group_norm  (r - mean) / (std1 + 1e-9)
                                             rloo        r - (sum - r) / (n - 1)
    slime     ray/rollout.py                 grpo        (r - mean) / (std1 + 1e-6)
    NeMo-RL   algorithms/utils.py            grpo        (r - mean of the others) / (std1 of the others + 1e-6),
                                                         undivided where that deviation is 0 or not a number
    prime-rl  orchestrator/algo              grpo        r - mean
                                             max_rl      (r - mean) / mean
    rLLM      algorithms/rl_algo.py          grpo        (r - mean) / (std0 + 1e-6), a lone r stays r
                                             rloo        n / (n - 1) (r - mean), a lone r stays r

The numbers below follow from these lines by hand. Where a framework does something else than its formula in a
degenerate case, the test names it and shows what happens here instead.
"""

from __future__ import annotations

from math import sqrt

import pytest
import torch

from apportion.advantages import grpo, maxrl, rloo
from apportion.quick import rewards_signal
from apportion.signal import Signal

# Mean 7/16, sum of squared deviations 35/64.
GRADED = [1.0, 0.5, 0.25, 0.0]
DEVIATIONS = [9 / 16, 1 / 16, -3 / 16, -7 / 16]
SAMPLE, POPULATION = sqrt(35 / 192), sqrt(35 / 256)


def of(rewards: list[float | None], dialect: str) -> list[float]:
    return grpo(rewards_signal(rewards), dialect=dialect).values.tolist()


@pytest.mark.parametrize(
    ("dialect", "success", "failure"),
    [
        ("openrlhf", 1.5, -0.5),
        ("slime", 1.5, -0.5),
        ("nemo-rl", 1.0, -1 / sqrt(3)),
        ("prime-rl", 0.75, -0.25),
        ("rllm", sqrt(3), -1 / sqrt(3)),
        ("trl", 1.5, -0.5),
        ("verl", 1.5, -0.5),
    ],
)
def test_one_success_in_four(dialect: str, success: float, failure: float) -> None:
    assert of([1.0, 0.0, 0.0, 0.0], dialect) == pytest.approx([success, failure, failure, failure], rel=3e-4)


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        ("openrlhf", [d / (SAMPLE + 1e-9) for d in DEVIATIONS]),
        ("slime", [d / (SAMPLE + 1e-6) for d in DEVIATIONS]),
        # The others are (1/2, 1/4, 0), (1, 1/4, 0), (1, 1/2, 0) and (1, 1/2, 1/4).
        (
            "nemo-rl",
            [
                0.75 / (0.25 + 1e-6),
                (1 / 12) / (sqrt(13 / 48) + 1e-6),
                -0.25 / (0.5 + 1e-6),
                -(7 / 12) / (sqrt(7 / 48) + 1e-6),
            ],
        ),
        ("prime-rl", DEVIATIONS),
        ("rllm", [d / (POPULATION + 1e-6) for d in DEVIATIONS]),
    ],
)
def test_graded_rewards(dialect: str, expected: list[float]) -> None:
    assert of([*GRADED], dialect) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dialect", ["openrlhf", "slime", "nemo-rl", "prime-rl", "rllm"])
def test_a_group_is_what_shares_an_id(dialect: str) -> None:
    """OpenRLHF and slime cut the batch into pieces of n; NeMo-RL calls two prompts of equal tokens the same."""
    mixed = rewards_signal([1.0, 1.0, 0.5, 0.0, 0.25, 1.0, 0.0], groups=["a", "b", "a", "b", "a", "b", "a"])
    made = grpo(mixed, dialect=dialect).values
    assert made[::2].tolist() == pytest.approx(of([*GRADED], dialect))
    assert made[1::2].tolist() == pytest.approx(of([1.0, 0.0, 1.0], dialect))


@pytest.mark.parametrize(
    ("dialect", "lone"),
    [
        ("rllm", 0.75),  # theirs 0.75 / (1 + 1e-6)
        ("nemo-rl", 0.0),  # the baseline is set to the reward
        ("prime-rl", 0.0),
        ("openrlhf", 0.0),  # theirs is NaN: the sample deviation of one number
        ("slime", 0.0),  # likewise
    ],
)
def test_a_lone_reward(dialect: str, lone: float) -> None:
    assert of([0.75], dialect) == [lone]


@pytest.mark.parametrize("dialect", ["openrlhf", "slime", "nemo-rl", "prime-rl", "rllm"])
@pytest.mark.parametrize(
    ("value", "size"),
    [
        (0.6, 8),  # +0.92 for every sample, by OpenRLHF's line in float32
        (0.9, 16),  # 0.056 by slime's
        (1000.1, 8),
    ],
)
def test_equal_rewards(dialect: str, value: float, size: int) -> None:
    """The mean of equal float32 numbers is not that number, and what is left is divided by another rounding error."""
    assert of([value] * size, dialect) == [0.0] * size
    in_float32 = rewards_signal([0.0] * size)
    in_float32 = Signal.of(in_float32.batch, in_float32.level, torch.full((size,), value), name="reward")
    assert not grpo(in_float32, dialect=dialect).values.any()


def test_equal_others() -> None:
    """The last of these is 307.7 in NeMo-RL: the spread of its seven equal others is a difference of squares there."""
    made = of([0.35] * 7 + [0.40], "nemo-rl")
    assert made[7] == pytest.approx(0.05, rel=1e-9)
    assert made[:7] == pytest.approx([-1 / sqrt(7)] * 7, rel=1e-4)


def test_rloo_of_openrlhf_and_rllm() -> None:
    assert rloo(rewards_signal([*GRADED])).values.tolist() == pytest.approx([d * 4 / 3 for d in DEVIATIONS])
    # OpenRLHF divides a lone reward by 0, rLLM returns it.
    assert rloo(rewards_signal([0.75])).values.tolist() == [0.0]
    assert rloo(rewards_signal([0.75]), singleton="raw").values.tolist() == [0.75]


def test_max_rl_of_prime_rl() -> None:
    assert maxrl(rewards_signal([*GRADED])).values.tolist() == pytest.approx([d / (7 / 16) for d in DEVIATIONS])
    assert maxrl(rewards_signal([0.0] * 4)).values.tolist() == [0.0] * 4
