"""Sums of rewards: the laws, and what is missing in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.rewards import Linear, linear, observe, reward
from apportion.rewards.base import Reward
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored
from tests.rewards.builders import WEIGHTS, Fixed, cells, fixed, fixed_turns, kinds, observed, rollouts, row, values

Drawn = tuple[list[Trajectory], list[Fixed]]

nothing = reward(name="nothing")(lambda trajectory: None)
nothing_per_turn = reward(name="nothing", level=Level.TURN)(lambda trajectory: None)


def seen(part: Reward, trajectories: list[Trajectory]) -> Any:
    return observe([part], trajectories, failure_limit=1)[part.name]


def assert_same(one: Any, other: Any, tolerance: float = 0.0) -> None:
    assert kinds(one) == kinds(other)
    for left, right in zip(cells(one), cells(other), strict=True):
        if isinstance(left, Scored) and isinstance(right, Scored):
            assert left.value == pytest.approx(right.value, abs=tolerance, rel=tolerance)


@given(observed(1))
def test_abstaining_is_the_identity(drawn: Drawn) -> None:
    trajectories, (a,) = drawn
    zero = nothing if a.level is Level.TRAJECTORY else nothing_per_turn
    assert_same(seen(a + zero, trajectories), seen(a, trajectories))
    assert_same(seen(zero + a, trajectories), seen(a, trajectories))


@given(observed(3))
def test_sums_associate(drawn: Drawn) -> None:
    trajectories, (a, b, c) = drawn
    left, right = (a + b) + c, a + (b + c)
    assert left.name == right.name == "a + b + c"
    assert seen(left, trajectories) == seen(right, trajectories)


@given(observed(3))
def test_a_named_sum_inside_a_sum_keeps_its_value(drawn: Drawn) -> None:
    trajectories, (a, b, c) = drawn
    whole = (a + b).named("ab") + c
    assert whole.name == "ab + c"
    assert_same(seen(whole, trajectories), seen(a + b + c, trajectories), tolerance=1e-9)


@given(observed(2))
def test_sums_commute_up_to_names(drawn: Drawn) -> None:
    trajectories, (a, b) = drawn
    assert_same(seen(a + b, trajectories), seen(b + a, trajectories))


@given(observed(2), WEIGHTS)
def test_a_weight_distributes(drawn: Drawn, weight: float) -> None:
    trajectories, (a, b) = drawn
    assert_same(seen(weight * (a + b), trajectories), seen(weight * a + weight * b, trajectories))


@given(observed(1), WEIGHTS, WEIGHTS)
def test_weights_multiply_and_add(drawn: Drawn, first: float, second: float) -> None:
    trajectories, (a,) = drawn
    assert_same(seen(first * (second * a), trajectories), seen((first * second) * a, trajectories), 1e-9)
    assert_same(seen(first * a + second * a, trajectories), seen((first + second) * a, trajectories), 1e-9)


@given(observed(2))
def test_subtraction_is_adding_the_negative(drawn: Drawn) -> None:
    trajectories, (a, b) = drawn
    assert_same(seen(a - b, trajectories), seen(a + -b, trajectories))
    assert_same(seen(a - b, trajectories), seen(-1 * (b - a), trajectories))


@given(observed(4))
def test_the_builtin_sum_works(drawn: Drawn) -> None:
    trajectories, parts = drawn
    assert seen(sum(parts), trajectories) == seen(parts[0] + parts[1] + parts[2] + parts[3], trajectories)  # type: ignore[arg-type]


@given(observed(3), st.lists(WEIGHTS, min_size=3, max_size=3))
def test_value_and_kind_follow_from_the_parts(drawn: Drawn, weights: list[float]) -> None:
    trajectories, parts = drawn
    total = linear(*zip(weights, parts, strict=True))
    columns = [cells(part.observe(trajectories)) for part in parts]
    for found, *given_cells in zip(cells(seen(total, trajectories)), *columns, strict=True):
        counted = list(zip(weights, given_cells, strict=True))
        if any(isinstance(cell, Failed) and weight for weight, cell in counted):
            assert isinstance(found, Failed)
        elif any(isinstance(cell, Scored) for _, cell in counted):
            assert isinstance(found, Scored)
            expected = sum(weight * cell.value for weight, cell in counted if isinstance(cell, Scored))
            assert found.value == pytest.approx(expected, abs=1e-9)
        else:
            assert isinstance(found, Abstained)


def test_what_is_missing_is_named_in_the_evidence() -> None:
    right, judge = fixed("right", 1.0, 1.0), fixed("judge", None, Failed("connection refused"))
    known, unknown = seen(right + 0.5 * judge, rollouts(2))
    assert known == Scored(1.0, "right 1; absent: judge (judge does not apply)")
    assert unknown == Failed("judge: connection refused")


def test_weight_zero_times_missing_is_not_missing() -> None:
    total = 1.0 * fixed("reward", 1.0) + 0.0 * fixed("metric", Failed("no value"))
    (verdict,) = seen(total, rollouts(1))
    assert verdict == Scored(1.0, "reward 1; absent: metric (no value)")


def test_tasks_that_do_not_apply_leave_totals_alone() -> None:
    maths, code = fixed("maths", 1, 0, None, None), fixed("code", None, None, 1, 1)
    assert values(seen(maths + code, rollouts(4))) == [1, 0, 1, 1]


def test_the_same_reward_twice_counts_twice() -> None:
    a = fixed("a", 0.25)
    assert (a + a).terms == ((2.0, a),)
    assert values(seen(a + a, rollouts(1))) == [0.5]
    assert values(seen(a - a, rollouts(1))) == [0.0]


def test_too_large_is_unknown_not_infinite() -> None:
    huge = fixed("huge", 1e308)
    assert kinds(seen(10.0 * huge, rollouts(1))) == "F"
    assert kinds(seen(10.0 * huge - 10.0 * fixed("other", 1e308), rollouts(1))) == "F"


def test_parts_of_different_levels_are_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidArgument, match=r"b is TURN.*combine different levels as signals"):
        fixed("a", 1.0) + fixed_turns("b", 1.0)


def test_different_rewards_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="a repeats"):
        fixed("a", 1.0) + fixed("a", 0.0)


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_weights_are_finite(weight: float) -> None:
    with pytest.raises(InvalidArgument, match="weight of a"):
        weight * fixed("a", 1.0)


def test_numbers_cannot_be_added() -> None:
    with pytest.raises(TypeError):
        fixed("a", 1.0) + 1  # type: ignore[operator]
    with pytest.raises(InvalidArgument, match="at least one"):
        Linear(())


def test_a_reward_without_the_operators_can_stand_on_either_side() -> None:
    class Foreign:
        name = "foreign"
        level = Level.TRAJECTORY

        def observe(self, trajectories: list[Trajectory]) -> list[Scored]:
            return [Scored(2.0) for _ in trajectories]

    foreign = Foreign()
    ours = fixed("ours", 1.0)
    assert values(seen(foreign + ours, rollouts(1))) == [3.0]  # type: ignore[operator]
    assert values(seen(foreign - ours, rollouts(1))) == [1.0]  # type: ignore[operator]
    assert values(seen(ours + foreign, rollouts(1))) == [3.0]


def test_renaming_leaves_the_original_alone() -> None:
    a = fixed("a", 1.0)
    assert (a.named("b").name, a.name) == ("b", "a")
    with pytest.raises(InvalidArgument, match="name"):
        a.named("")
    assert row("0").id == "0"
