"""Repetition: the share of n-grams that are not new."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import repetition
from apportion.rollouts import Trajectory
from tests.rewards.builders import said, values
from tests.rewards.test_linear import seen


def tokens(ids: list[int], policy: list[int] | None = None) -> list[Trajectory]:
    return [Trajectory(id="r", group="q", response_ids=ids, policy=policy)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ids", "ngram", "value"),
    [([1, 2, 3, 4], 2, 0.0), ([5] * 5, 2, -0.75), ([1, 2], 3, 0.0), ([], 1, 0.0), ([1, 1], 1, -0.5)],
)
def test_numbers(ids: list[int], ngram: int, value: float) -> None:
    assert values(seen(repetition(ngram=ngram), tokens(ids))) == [value]


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 4), st.sampled_from([1.0, 0.25]))
def test_it_equals_trl_on_single_turns(ids: list[int], ngram: int, penalty: float) -> None:
    other = importlib.import_module("trl.rewards.other_rewards")
    theirs = other.get_repetition_penalty_reward(ngram, -penalty)([ids])
    assert values(seen(repetition(ngram=ngram, penalty=penalty), tokens(ids))) == [pytest.approx(theirs[0], abs=1e-12)]


def test_observations_and_turn_borders_do_not_count() -> None:
    made = repetition(ngram=2)
    # Turns [1, 2] and [1, 3]; the observation repeats itself and no pair reaches across it.
    assert values(seen(made, tokens([1, 2, 9, 9, 9, 9, 1, 3], [1, 1, 0, 0, 0, 0, 1, 1]))) == [0.0]
    assert values(seen(made, tokens([1, 2, 9, 1, 2], [1, 1, 0, 1, 1]))) == [-0.5]


def test_words() -> None:
    made = repetition(ngram=1, unit="words")
    assert values(seen(made, [said("the cat", "the\ndog")])) == [-0.25]
    with pytest.raises(MissingInput):
        made.observe(tokens([1, 2]))
    with pytest.raises(MissingInput):
        repetition().observe([said("text")])


@pytest.mark.parametrize("options", [{"ngram": 0}, {"penalty": -1.0}, {"unit": "letters"}])
def test_arguments_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        repetition(**options)
