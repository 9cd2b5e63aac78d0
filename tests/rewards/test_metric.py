"""What is only recorded ends no run, and drives none."""

from __future__ import annotations

from typing import Any

import pytest

from apportion.errors import InvalidArgument, ObserverFailing, RecipeRefused
from apportion.recipe import Recipe
from apportion.rewards import gate, linear, metric, observe, outcome, overlong, summarise, vector, weighted_mean
from apportion.rollouts import Level
from apportion.verdicts import Failed, Scored
from tests.rewards.builders import Slow, fixed, fixed_turns, rollouts, values

SHORT = overlong(max_tokens=10, cache=2)
DOWN = Failed("no connection")


def nothing(*_: Any, **__: Any) -> Any:
    raise AssertionError("assign is not reached")


def test_a_failing_metric_is_recorded_and_observing_goes_on() -> None:
    right, style = fixed("right", 1.0, 0.0), fixed("style", DOWN, DOWN)
    with pytest.raises(ObserverFailing, match="style"):
        observe([right, style], rollouts(2))
    seen = observe([right, metric(style)], rollouts(2))
    assert values(seen["right"]) == [1.0, 0.0]
    assert (summarise(seen["style"]).failed, summarise(seen["style"]).mean) == (2, None)
    assert observe([metric(style, name="tone")], rollouts(2)) == {"tone": [DOWN, DOWN]}


def test_of_either_level_and_async_too() -> None:
    per_turn = metric(fixed_turns("path", DOWN, 1.0))
    assert per_turn.level is Level.TURN
    assert observe([per_turn], rollouts(1, turns=2))["path"] == [[DOWN, Scored(1.0)]]
    assert observe([metric(Slow(fixed("late", DOWN)))], rollouts(1))["late"] == [DOWN]


def test_a_part_of_weight_zero_in_a_vector_is_a_metric() -> None:
    pair = vector([fixed("a", 1.0), fixed("b", DOWN)], weights={"a": 1.0, "b": 0.0})
    assert observe([pair], rollouts(1)) == {"a": [Scored(1.0)], "b": [DOWN]}
    with pytest.raises(ObserverFailing, match="'a'"):
        observe([vector([fixed("a", DOWN), fixed("b", DOWN)], weights={"a": 1.0, "b": 0.0})], rollouts(1))


def test_a_metric_never_drives() -> None:
    right, style = fixed("right", 1.0), fixed("style", 0.5)
    assert (metric(right).role, (metric(right) + metric(style)).role, (right + metric(style)).role) == (
        "metric",
        "metric",
        "outcome",
    )
    assert gate(style, then=metric(right)).role == "metric"
    with pytest.raises(RecipeRefused, match="no reward that drives"):
        Recipe(name="x", observers=[metric(outcome())], assign_signals=nothing, aggregation="token-mean")
    Recipe(name="x", observers=[outcome(), metric(style)], assign_signals=nothing, aggregation="token-mean")


def test_weights_that_are_all_zero_are_found_before_anything_is_asked() -> None:
    parts = [fixed(name, 1.0) for name in "abc"]
    with pytest.raises(InvalidArgument, match="weights"):
        weighted_mean([(part, 0.0) for part in parts])
    with pytest.raises(InvalidArgument, match="weights"):
        vector(parts, weights=dict.fromkeys("abc", 0.0))
    none = linear(*((0.0, part) for part in parts))
    for reward in (none, none + SHORT, weighted_mean([(parts[0], 0.0), (SHORT, 1.0)])):
        with pytest.raises(RecipeRefused, match="no reward that drives"):
            Recipe(name="x", observers=[reward], assign_signals=nothing, aggregation="token-mean")
    assert [part.asked for part in parts] == [[], [], []]


def test_only_rewards_are_metrics() -> None:
    with pytest.raises(InvalidArgument, match="@reward"):
        metric(lambda trajectory: 1.0)  # type: ignore[arg-type]
