"""Beta scores: worked numbers, the order in which they rank evidence, and what they mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from apportion.errors import InvalidArgument
from apportion.planning import entropy_information, information, learnability

COUNTS = st.floats(0.1, 200.0)


@pytest.mark.parametrize(("beta", "expected"), [((2, 2), 0.2), ((8, 8), 0.235294), ((1, 3), 0.15)])
def test_learnability(beta: tuple[float, float], expected: float) -> None:
    assert learnability(*beta) == pytest.approx(expected, abs=1e-6)


def test_information() -> None:
    assert information(2, 2) == pytest.approx(0.01)
    assert information(2, 2, rollouts=8) == pytest.approx(0.033333, abs=1e-6)
    assert entropy_information(2, 2) == pytest.approx(0.109814, abs=1e-6)
    assert entropy_information(8, 8) == pytest.approx(0.030275, abs=1e-6)


def test_the_two_schools_rank_evidence_in_opposite_directions() -> None:
    little, much = (2, 2), (8, 8)
    assert learnability(*much) > learnability(*little)
    assert information(*much) < information(*little)
    assert entropy_information(*much) < entropy_information(*little)


@given(COUNTS, COUNTS)
def test_learnability_is_the_expected_variance_of_an_outcome(a: float, b: float) -> None:
    mean, variance = stats.beta.stats(a, b, moments="mv")
    assert learnability(a, b) == pytest.approx(float(mean - mean**2 - variance), rel=1e-9, abs=1e-12)


@given(COUNTS, COUNTS, st.integers(1, 16))
def test_information_is_the_variance_that_the_outcomes_take_away(a: float, b: float, k: int) -> None:
    # Law of total variance: what is left is the mean of the posteriors' variances over the beta-binomial outcomes.
    wins = np.arange(k + 1)
    left = np.sum(stats.betabinom.pmf(wins, k, a, b) * stats.beta.var(a + wins, b + k - wins))
    assert information(a, b, rollouts=k) == pytest.approx(float(stats.beta.var(a, b) - left), rel=1e-6, abs=1e-10)


@given(st.floats(0.3, 60.0), st.floats(0.3, 60.0))
def test_entropy_information_is_what_one_outcome_tells(a: float, b: float) -> None:
    p = a / (a + b)
    expected = float(
        stats.beta.entropy(a, b) - p * stats.beta.entropy(a + 1, b) - (1 - p) * stats.beta.entropy(a, b + 1)
    )
    assert entropy_information(a, b) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(st.floats(0.01, 0.99), COUNTS, COUNTS)
def test_at_equal_pass_rate_more_evidence_means_more_learnability_and_less_information(
    p: float, n: float, more: float
) -> None:
    few, many = (p * n, (1 - p) * n), (p * (n + more), (1 - p) * (n + more))
    assert learnability(*many) >= learnability(*few)
    assert information(*many) <= information(*few)
    assert entropy_information(*many) <= entropy_information(*few) + 1e-12


@given(COUNTS, st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_at_equal_evidence_the_nearer_to_a_half_the_more(n: float, p: float, q: float) -> None:
    far, near = sorted((max(p, 0.01), max(q, 0.01)))
    for score in (learnability, information, entropy_information):
        assert score(near * n, (1 - near) * n) >= score(far * n, (1 - far) * n) - 1e-12


@given(COUNTS, COUNTS)
def test_success_and_failure_are_symmetric(a: float, b: float) -> None:
    for score in (learnability, information, entropy_information):
        assert score(a, b) == pytest.approx(score(b, a), rel=1e-9, abs=1e-12)
        assert 0 <= score(a, b) < 1


@pytest.mark.parametrize("score", [learnability, information, entropy_information])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_counts_are_positive(score: object, bad: float) -> None:
    with pytest.raises(InvalidArgument, match="a="):
        score(bad, 1.0)  # type: ignore[operator]
    with pytest.raises(InvalidArgument, match="b="):
        score(1.0, bad)  # type: ignore[operator]


def test_rollouts_are_at_least_one() -> None:
    with pytest.raises(InvalidArgument, match="rollouts"):
        information(1, 1, rollouts=0)
