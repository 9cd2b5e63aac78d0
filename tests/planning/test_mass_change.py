"""BroRL's analysis: the worked number, and that it is the derivative it claims to be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.planning import mass_change

# Sampled right and wrong, unsampled right and wrong, with squares that sum to .05, .02, .02 and .08.
ROOT = math.sqrt(0.07)
P = [0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.15 + ROOT / 2, 0.15 - ROOT / 2]
CORRECT = [1, 1, 0, 0, 1, 1, 0, 0]
SAMPLED = [1, 1, 1, 1, 0, 0, 0, 0]


def test_the_worked_number() -> None:
    made = mass_change(P, correct=CORRECT, sampled=SAMPLED)
    assert made.sampled_correct == pytest.approx(0.0225)
    assert made.sampled_wrong == pytest.approx(0.011)
    assert made.unsampled == pytest.approx(0.003)
    assert made.total == pytest.approx(0.0365)
    assert mass_change(P, correct=CORRECT, sampled=SAMPLED, step=2.0).total == pytest.approx(0.073)


WEIGHTS = st.lists(st.tuples(st.floats(0.01, 1.0), st.booleans(), st.booleans()), min_size=1, max_size=8)


@given(WEIGHTS)
def test_it_is_the_first_order_change_of_the_softmax(rows: list[tuple[float, bool, bool]]) -> None:
    p, correct, sampled = (np.array(column) for column in zip(*rows, strict=True))
    p = p / p.sum()
    reward = np.where(sampled, np.where(correct, 1.0, -1.0), 0.0)
    direction = p * (reward - (p * reward).sum())  # the policy gradient of the expected sampled reward
    h = 1e-5

    def mass(step: float) -> float:
        moved = p * np.exp(step * direction)
        return float((moved / moved.sum())[correct].sum())

    made = mass_change(p, correct=correct, sampled=sampled)
    assert made.total == pytest.approx((mass(h) - mass(-h)) / (2 * h), abs=1e-8)
    assert made.sampled_correct >= 0
    assert made.sampled_wrong >= 0


@given(WEIGHTS)
def test_with_everything_sampled_nothing_can_hurt(rows: list[tuple[float, bool, bool]]) -> None:
    p = np.array([weight for weight, _, _ in rows])
    made = mass_change(p / p.sum(), correct=[c for _, c, _ in rows], sampled=[True] * len(rows))
    assert made.unsampled == 0
    assert made.total >= 0


@pytest.mark.parametrize(
    ("p", "options", "named"),
    [
        ([0.5, 0.4], {}, "probabilities"),
        ([1.5, -0.5], {}, "probabilities"),
        ([1.0], {}, "probabilities"),
        ([0.5, 0.5], {"wrong": 2.0}, "wrong"),
    ],
)
def test_bad_arguments(p: list[float], options: dict[str, float], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        mass_change(p, correct=[True, False], sampled=[True, False], **options)
