"""The spread of the others of a group: equal others give exactly 0, and no digits are lost to an outlier."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import group_stat, grpo
from apportion.advantages.leave_out import squares_without
from apportion.quick import rewards_signal

numbers = st.one_of(st.sampled_from([0.0, 0.1, 7.75, 1000.1, 1e-8, 1e9, -1e9]), st.integers(-8, 8).map(lambda k: k / 4))


def others_one_by_one(values: list[float], weights: list[float], keys: list[int]) -> list[float]:
    """In fractions, so without any rounding."""
    result = []
    for i, key in enumerate(keys):
        mine = [(Fraction(values[j]), Fraction(weights[j])) for j in range(len(keys)) if j != i and keys[j] == key]
        mass = sum(w for _, w in mine)
        mean = sum(v * w for v, w in mine) / mass if mass else Fraction(0)
        result.append(float(sum(w * (v - mean) ** 2 for v, w in mine)))
    return result


@given(st.lists(st.tuples(numbers, st.sampled_from([1.0, 1.0, 0.0, 2.0]), st.integers(0, 2)), max_size=9))
def test_agrees_with_exact_arithmetic(elements: list[tuple[float, float, int]]) -> None:
    values, weights, keys = ([e[k] for e in elements] for k in range(3))
    made = squares_without(
        torch.tensor(values, dtype=torch.float64),
        torch.tensor(weights, dtype=torch.float64),
        torch.tensor(keys, dtype=torch.int64),
        3,
    )
    for got, wanted in zip(made.tolist(), others_one_by_one(values, weights, keys), strict=True):
        assert got == pytest.approx(wanted, rel=1e-9, abs=0.0 if wanted == 0 else 1e-18)


@pytest.mark.parametrize("level", [0.0, 7.75, 1000.1, 1e6 + 0.1])
def test_the_only_success_is_not_divided_by_rounding_error(level: float) -> None:
    x = rewards_signal([level + 1, level, level, level])
    made = group_stat(x, center="loo", scale="loo_std").values.tolist()
    assert made == pytest.approx([1.0, -(3**-0.5), -(3**-0.5), -(3**-0.5)], rel=1e-6)


def test_seven_equal_rewards_and_one_higher() -> None:
    # 307.7 in the framework that this dialect is named after.
    made = grpo(rewards_signal([0.35] * 7 + [0.40]), dialect="nemo-rl").values.tolist()
    assert made[-1] == pytest.approx(0.05)
