"""Length shaping counts what the policy wrote."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import cosine_length, outcome, overlong, stop_properly
from apportion.rollouts import Trajectory
from apportion.verdicts import Failed, Scored
from tests.rewards.builders import Fixed, fixed, fixed_turns, kinds, said, values
from tests.rewards.test_linear import seen


def long(tokens: int, tools: int = 0, id: str = "0", **fields: Any) -> Trajectory:
    """`tokens` policy tokens, and `tools` observation tokens in the middle of them."""
    policy = [1] * (tokens // 2) + [0] * tools + [1] * (tokens - tokens // 2)
    return Trajectory(id=id, group="q", response_ids=[7] * (tokens + tools), policy=policy, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("length", "value"), [(0, 0), (16384, 0), (18432, -0.5), (20480, -1), (21000, -1)])
def test_dapo_numbers(length: int, value: float) -> None:
    assert values(seen(overlong(max_tokens=20480, cache=4096), [long(length)])) == [value]


def test_beyond_the_limit_frameworks_differ() -> None:
    rollout = [long(150)]
    assert values(seen(overlong(max_tokens=100, cache=50), rollout)) == [-1.0]
    assert values(seen(overlong(max_tokens=100, cache=50, factor=0.3), rollout)) == [-0.3]
    assert values(seen(overlong(max_tokens=100, cache=50, beyond="linear"), rollout)) == [-2.0]


def test_without_a_cache_it_is_a_step() -> None:
    made = overlong(max_tokens=10, cache=0)
    assert values(seen(made, [long(10, id="a"), long(11, id="b")])) == [0.0, -1.0]


def test_tool_output_is_not_charged() -> None:
    made = overlong(max_tokens=100, cache=20)
    (verdict,) = seen(made, [long(90, tools=5000)])
    assert verdict == Scored(-0.5, "90 policy tokens; free up to 80, limit 100")


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 100))
def test_it_equals_trl_on_single_turns(limit: int, cache: int, length: int) -> None:
    other = importlib.import_module("trl.rewards.other_rewards")
    cache = min(cache, limit)
    theirs = other.get_soft_overlong_punishment(limit, cache)([[1] * length])
    assert values(seen(overlong(max_tokens=limit, cache=cache), [long(length)])) == theirs


def test_text_cannot_be_counted() -> None:
    with pytest.raises(MissingInput, match="token ids"):
        overlong(max_tokens=10, cache=5).observe([said("long text")])


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 0, "cache": 0},
        {"max_tokens": 10, "cache": 11},
        {"max_tokens": 10, "cache": -1},
        {"max_tokens": 10, "cache": 5, "factor": -1.0},
        {"max_tokens": 10, "cache": 0, "beyond": "linear"},
        {"max_tokens": 10, "cache": 5, "beyond": "cap"},
    ],
)
def test_overlong_checks_its_arguments(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        overlong(**options)


@pytest.mark.parametrize(
    ("coefficient", "expected"), [(0.0, [0.0, None, None]), (0.5, [0.4, None, None]), (-2.0, [-2.0, None, -2.0])]
)
def test_stopping_properly_cuts_or_replaces(coefficient: float, expected: list[float | None]) -> None:
    inner = fixed("r", 0.8, None, Failed("down"), 0.8)
    cut = [long(1, id=str(at), status="truncated") for at in range(3)]
    made = stop_properly(inner, coefficient)
    assert values(seen(made, [*cut, long(1, id="3")])) == [*expected, 0.8]


def test_stopping_properly_checks_its_arguments() -> None:
    with pytest.raises(InvalidArgument, match="coefficient"):
        stop_properly(fixed("r", 1.0), 1.5)
    with pytest.raises(InvalidArgument, match="TRAJECTORY"):
        stop_properly(fixed_turns("r", 1.0), 0.5)


@pytest.mark.parametrize(
    ("right", "length", "value"),
    [(1, 50, 0.75), (0, 50, -0.75), (1, 0, 1.0), (0, 0, -1.0), (1, 100, 0.5), (0, 400, -0.5)],
)
def test_cosine_numbers(right: int, length: int, value: float) -> None:
    made = cosine_length(outcome(), max_tokens=100)
    assert values(seen(made, [long(length, tools=30, columns={"reward": right})])) == [pytest.approx(value)]


def test_cosine_passes_missing_on() -> None:
    made = cosine_length(Fixed("r", {"a": [Failed("x")], "b": [Scored(1.0)]}), max_tokens=10)
    found = seen(made, [long(5, id="a"), long(5, id="b", status="aborted", error="lost")])
    assert kinds(found) == "FF"
    assert "lost" in found[1].error


@pytest.mark.parametrize(
    "options", [{"max_tokens": 0}, {"max_tokens": 5, "correct": (1.0,)}, {"max_tokens": 5, "wrong": 1}]
)
def test_cosine_checks_its_arguments(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        cosine_length(fixed("r", 1.0), **options)
