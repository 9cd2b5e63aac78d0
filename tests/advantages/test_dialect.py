"""The same word, other numbers: each preset gives its framework's."""

from __future__ import annotations

import pytest
import torch

from apportion.advantages import DIALECTS, Dialect, dialect, grpo
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal


@pytest.mark.parametrize(
    ("name", "best", "rest"),
    [
        ("apportion", 1.5, -0.5),
        ("trl", 1.5, -0.5),
        ("verl", 1.5, -0.5),
        ("openrlhf", 1.5, -0.5),
        ("slime", 1.5, -0.5),
        ("rllm", 1.732, -0.577),
        ("nemo-rl", 1.0, -0.577),
        ("prime-rl", 0.75, -0.25),
    ],
)
def test_grpo_of_one_success_in_four(name: str, best: float, rest: float) -> None:
    got = grpo(rewards_signal([1.0, 0.0, 0.0, 0.0]), dialect=name).values.tolist()
    assert got == pytest.approx([best, rest, rest, rest], abs=1e-3)


def test_every_dialect_says_what_was_run_or_read() -> None:
    assert {d.evidence.split(":")[0] for d in DIALECTS.values()} == {"the default", "run", "read"}
    assert all(name == d.name for name, d in DIALECTS.items())


@pytest.mark.parametrize("name", DIALECTS)
def test_a_singleton_is_raw_where_the_framework_has_no_baseline_for_it(name: str) -> None:
    expected = 0.7 if name in ("verl", "rllm") else 0.0
    assert grpo(rewards_signal([0.7]), dialect=name).values.tolist() == [expected]


@pytest.mark.parametrize(("level", "n"), [(0.1, 8), (0.7, 16), (0.9, 16), (1000.1, 8)])
@pytest.mark.parametrize("name", DIALECTS)
def test_constant_rewards_are_exactly_zero_in_every_dialect(name: str, level: float, n: int) -> None:
    assert (grpo(rewards_signal([level] * n), dialect=name).values == 0).all()


@pytest.mark.parametrize(
    ("name", "level", "n", "ulps", "framework"),
    [
        ("verl", 0.1, 8, 1, -0.00739),
        ("verl", 0.2, 8, 1, -0.01467),
        ("verl", 0.7, 16, -1, 0.0561),
        ("verl", 1000.1, 8, 1, -0.9213),
        ("openrlhf", 0.6, 8, -1, 0.9210),
    ],
)
def test_the_rounding_error_that_frameworks_divide_by_an_epsilon(
    name: str, level: float, n: int, ulps: int, framework: float
) -> None:
    # A float32 mean of equal rewards lands beside them, and so does every deviation from it.
    rewards = torch.full((n,), level)
    mean = torch.nextafter(rewards[:1], torch.tensor([ulps * torch.inf]))
    off = rewards - mean
    std = (off**2).double().sum().div(n - 1).sqrt().float()
    assert float((off / (std + DIALECTS[name].eps))[0]) == pytest.approx(framework, rel=1e-2)
    assert (grpo(rewards_signal([level] * n), dialect=name).values == 0).all()


def test_a_dialect_of_your_own() -> None:
    mine = Dialect(name="mine", ddof=0, eps=0.5)
    assert dialect(mine) is mine
    assert grpo(rewards_signal([1.0, 0.0]), dialect=mine).values.tolist() == [0.5, -0.5]


def test_an_unknown_dialect_lists_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match=r"dialect='veRL'.*nemo-rl.*verl"):
        dialect("veRL")
