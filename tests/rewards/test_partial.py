"""Partial credit: acceptance checks after each turn, and unit tests weighted by difficulty."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import checks_passed, difference, difficulty_weights, reduce_turns, unit_tests
from apportion.rewards.partial import read_checks
from apportion.rollouts import Trajectory, Turn
from apportion.verdicts import Abstained, Failed, Scored
from tests.rewards.builders import kinds, rollouts, said, values
from tests.rewards.test_linear import seen


def checked(*results: Any, id: str = "r", group: str = "q", **fields: Any) -> Trajectory:
    turns = tuple(Turn(columns={} if result == "absent" else {"checks": result}) for result in results)
    return Trajectory(id=id, group=group, turns=turns, **fields)


def of(passed: int, total: int = 4) -> dict[str, int]:
    return {"passed": passed, "total": total}


def test_worked_numbers() -> None:
    rollout = [checked(of(2), of(1), of(4))]
    assert values(seen(checks_passed(), rollout)) == [0.5, 0.25, 1.0]
    steps = 0.4 * difference(checks_passed(), initial=0.0)
    assert values(seen(steps, rollout)) == [pytest.approx(v) for v in (0.2, -0.1, 0.3)]
    assert values(seen(reduce_turns(checks_passed(), how="last"), rollout)) == [1.0]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.floats(-2, 2))
def test_differences_telescope(passed: list[int], weight: float) -> None:
    steps = weight * difference(checks_passed(), initial=0.0)
    found = values(seen(steps, [checked(*[of(n, 5) for n in passed])]))
    assert sum(found) == pytest.approx(weight * passed[-1] / 5, abs=1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("recorded", "verdict"),
    [
        ({"a": True, "b": False}, Scored(0.5, "1 of 2 checks pass; failing or not run: b")),
        ([True, True], Scored(1.0, "2 of 2 checks pass")),
        (of(1, 4), Scored(0.25, "1 of 4 checks pass")),
        (of(0, 0), Abstained("there are no checks")),
        ({}, Abstained("there are no checks")),
        (None, Abstained("the checks did not run after this turn")),
        ({"error": "exit code 4"}, Failed("checks: exit code 4")),
        ("4/4", Failed("checks: cannot read '4/4'")),
        (0.5, Failed("checks: cannot read 0.5")),
        (of(5, 4), Failed("checks: cannot read {'passed': 5, 'total': 4}")),
        ({"a": 1}, Failed("checks: cannot read {'a': 1}")),
    ],
)
def test_what_may_be_recorded(recorded: Any, verdict: Any) -> None:
    assert seen(checks_passed(), [checked(recorded)]) == [[verdict]]


def test_names_that_look_like_counts_are_names() -> None:
    assert values(seen(checks_passed(), [checked({"passed": True, "total": False})])) == [0.5]
    assert values(seen(checks_passed(), [checked({"error": False, "ok": True})])) == [0.5]


def test_no_check_at_all_is_a_broken_verifier_not_a_zero() -> None:
    found = seen(checks_passed(expected=4), [checked(of(0, 0), of(4))])
    assert found == [[Failed("no check ran, of 4 expected"), Scored(1.0, "4 of 4 checks pass")]]


def test_the_denominator_does_not_shrink_with_deleted_checks() -> None:
    deleted = checked({"a": True, "b": False}, {"a": True})
    assert values(seen(checks_passed(), [deleted])) == [0.5, 0.5]
    assert values(seen(checks_passed(), [checked(of(2), of(2, 2))])) == [0.5, 0.5]
    only_easy = [checked({"a": True}, id="x"), checked({"a": True, "b": True}, id="y")]
    assert values(seen(checks_passed(), only_easy)) == [0.5, 1.0]
    apart = [checked({"a": True}, id="x", group="p"), checked({"a": True, "b": True}, id="y")]
    assert values(seen(checks_passed(), apart)) == [1.0, 1.0]


def test_checks_of_the_policys_own_do_not_count_when_the_expected_ones_are_named() -> None:
    padded = checked({"a": False, "mine1": True, "mine2": True})
    assert values(seen(checks_passed(expected=["a"]), [padded])) == [0.0]
    assert values(
        seen(checks_passed(expected="tests"), [checked({"a": True, "mine": True}, columns={"tests": ["a", "b"]})])
    ) == [0.5]
    assert values(seen(checks_passed(expected="tests"), [checked(of(1, 2), columns={"tests": 2})])) == [0.5]
    assert kinds(seen(checks_passed(expected=2), [checked(of(3, 3))])) == "F"
    assert kinds(seen(checks_passed(expected="tests"), [checked(of(3, 3))])) == "F"
    assert kinds(seen(checks_passed(expected=0), [checked(of(3, 3))])) == "A"


def test_a_function_may_re_run_the_checks() -> None:
    def rerun(trajectory: Trajectory) -> list[Any]:
        if trajectory.id == "broken":
            raise OSError("no sandbox")
        return [[True, False]] * trajectory.n_turns

    found = seen(checks_passed(rerun), [said("", "", id="a"), said("", "", id="broken")])
    assert values(found) == [0.5, 0.5, None, None]
    assert found[1][0].error.startswith("OSError: no sandbox at test_partial.py:")
    with pytest.raises(InvalidArgument, match="2 entries, one per turn"):
        checks_passed(lambda trajectory: [[True]]).observe([said("", "")])


def test_what_nobody_recorded_is_named() -> None:
    with pytest.raises(MissingInput, match="turn column 'checks'"):
        checks_passed().observe([checked("absent")])
    assert kinds(seen(checks_passed(), [checked("absent", of(1))])) == "AS"
    assert seen(checks_passed(), rollouts(1)) == [[]]


@pytest.mark.parametrize("options", [{"source": ""}, {"expected": -1}, {"expected": ["a", "a"]}, {"expected": ""}])
def test_arguments_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        checks_passed(**options)


def test_hostile_results_stay_short() -> None:
    assert len(read_checks("x" * 1_000_000).error) < 400  # type: ignore[union-attr]
    names = {f"check_{at}" * 100: False for at in range(1000)}
    ((verdict,),) = seen(checks_passed(), [checked(names)])
    assert len(verdict.evidence) < 600


def test_difficulty_worked_numbers() -> None:
    weights = difficulty_weights([1, 0.5, 0.5, 0])
    assert weights == pytest.approx((0, 1 / 6, 1 / 6, 2 / 3))
    assert sum(weights[:3]) == pytest.approx(1 / 3)
    assert difficulty_weights([1, 1, 1]) == pytest.approx((1 / 3,) * 3)
    assert difficulty_weights([]) == ()
    assert difficulty_weights([0.3, 0.4], bandwidth=0.1) == pytest.approx((0.7 / 1.3, 0.6 / 1.3))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.1, 3), st.floats(0, 1))
def test_difficulty_weights_are_shares(rates: list[float], exponent: float, bandwidth: float) -> None:
    weights = difficulty_weights(rates, exponent=exponent, bandwidth=bandwidth)
    assert sum(weights) == pytest.approx(1)
    assert min(weights) >= 0


@pytest.mark.parametrize(
    ("rates", "options"), [([1.5], {}), ([float("nan")], {}), ([0.5], {"exponent": 0}), ([0.5], {"bandwidth": -1})]
)
def test_difficulty_checks_its_arguments(rates: list[float], options: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument):
        difficulty_weights(rates, **options)


def group() -> list[Trajectory]:
    """Pass rates of tests a, b, c, d at the end: 1, 0.5, 0.5, 0."""
    return [
        checked(
            {"a": False, "b": False, "c": False, "d": False}, {"a": True, "b": True, "c": True, "d": False}, id="x"
        ),
        checked({"a": True, "b": False, "c": False, "d": False}, id="y"),
    ]


def test_hard_tests_weigh_more() -> None:
    found = seen(unit_tests(), group())
    assert values(found) == [pytest.approx(v) for v in (0.0, 1 / 3, 0.0)]
    assert (
        found[0][1].evidence
        == "3 of 4 tests pass: a +0 (passed by 100%), b +0.167 (passed by 50%), c +0.167 (passed by 50%)"
    )


def test_rates_may_be_fixed() -> None:
    made = unit_tests(pass_rates={"a": 0.0, "b": 1.0})
    assert values(seen(made, group())) == [0.0, 1.0, 1.0]


def test_groups_do_not_mix() -> None:
    alone = [checked({"a": True, "b": False}, id="x", group="p"), checked({"a": False, "b": True}, id="y", group="q")]
    assert values(seen(unit_tests(), alone)) == [0.0, 0.0]


def test_missing_results() -> None:
    rollout = [checked({"a": True}, None, {"error": "x"}, of(1, 1), id="x"), checked({"a": False}, id="y")]
    assert kinds(seen(unit_tests(), rollout)) == "SAFFS"
    assert kinds(seen(unit_tests(), [checked({})])) == "A"
    with pytest.raises(InvalidArgument, match="exponent"):
        unit_tests(exponent=0)
    with pytest.raises(InvalidArgument, match="pass_rates"):
        unit_tests(pass_rates={"a": 2.0})
