"""Tool calls against the reference: a multiset or a list, never a set, never repaired."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument, MissingInput
from apportion.integrations.actions import parse_actions
from apportion.rewards import call_match, outcome
from apportion.rollouts import Action, Trajectory, Turn
from apportion.verdicts import Failed, Scored
from tests.rewards.builders import acted, broken_call, call


def gold(*calls: Action) -> list[dict[str, Any]]:
    return [{"name": one.name, "arguments": dict(one.arguments)} for one in calls]


F1, F2, G2 = call("f", x=1), call("f", x=2), call("g", x=2)
MAKE, MOVE = call("mkdir", path="a"), call("mv", source="x", to="a")


@pytest.mark.parametrize(
    ("order", "wanted", "made", "value"),
    [
        ("parallel", [F1, G2], [G2, F1], 1),
        ("parallel", [F1, F1], [F1], 0),
        ("parallel", [F1, F1], [F1, F1], 1),
        ("parallel", [F1, F1, G2], [F1, G2, G2], 0),
        ("parallel", [F1], [F1, F1], 0),
        ("parallel", [F1], [F2], 0),
        ("sequence", [MAKE, MOVE], [MAKE, MOVE], 1),
        ("sequence", [MAKE, MOVE], [MOVE, MAKE], 0),
        ("sequence", [F1, F1], [F1], 0),
        ("sequence", [], [], 1),
        ("parallel", [], [F1], 0),
    ],
)
def test_order_and_number(order: Any, wanted: list[Action], made: list[Action], value: float) -> None:
    verdict = call_match(order=order).verify(gold=gold(*wanted), calls=made)
    assert isinstance(verdict, Scored)
    assert verdict.value == value


def test_the_order_is_declared() -> None:
    with pytest.raises(TypeError):
        call_match()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("calls", "evidence"),
    [
        ([], "no_call: 1 wanted"),
        ([broken_call()], "malformed_call: unbalanced braces at 11 in '<tool_call>{'"),
        ([F1, broken_call()], "malformed_call: unbalanced braces at 11 in '<tool_call>{'"),
        ([Action(name=None)], "malformed_call: no name in ''"),
        ([F1, F2], "wrong_answer: 2 calls (f({'x': 1}), f({'x': 2})), not 1"),
        ([F2], "wrong_answer: call 1 of f({'x': 2}) is not f({'x': [1]})"),
        ([F1], "right_answer: 1 calls"),
    ],
)
def test_what_happened_is_told_apart(calls: list[Action], evidence: str) -> None:
    verdict = call_match(order="sequence").verify(gold=gold(F1), calls=calls)
    assert verdict == Scored(float("right" in evidence), evidence)


def test_calls_as_they_were_written() -> None:
    nested = '<tool_call>{"name":"f","arguments":{"a":{"b":[1,{"c":2}]}}}</tool_call>'
    wanted = [{"name": "f", "arguments": {"a": {"b": [1, {"c": 2}]}}}]
    check = call_match(order="parallel")
    assert check.verify(gold=wanted, calls=parse_actions(nested)) == Scored(1.0, "right_answer: 1 calls")
    # One brace short: an attempted call that is not repaired, and not a final answer either.
    torn = check.verify(gold=wanted, calls=parse_actions('<tool_call>{"name":"f","arguments":{"a":{}}</tool_call>'))
    assert isinstance(torn, Scored)
    assert torn.value == 0
    assert torn.evidence.startswith("malformed_call")
    assert "character" in torn.evidence


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (call("book", to="Oslo", seats=2), 1),
        (call("book", to="Oslo", seats=2.0), 1),
        (call("book", to="OSL", seats=2, pet="cat"), 1),
        (call("book", to="Rome", seats=2), 0),
        (call("book", to="Oslo"), 0),
        (call("book", to="Oslo", seats=True), 0),
        (call("book", to="Oslo", seats=2, extra=1), 0),
        (call("book", to="Oslo", seats=2, pet="dog"), 0),
    ],
)
def test_alternatives(made: Action, value: float) -> None:
    wanted = [{"book": {"to": ["Oslo", "OSL"], "seats": [2], "pet": ["cat", ""]}}]
    verdict = call_match(order="parallel", form="alternatives").verify(gold=wanted, calls=[made])
    assert isinstance(verdict, Scored)
    assert verdict.value == value


def test_overlapping_alternatives_are_assigned_and_not_taken_greedily() -> None:
    wanted = [{"f": {"x": [1, 2]}}, {"f": {"x": [1]}}]
    check = call_match(order="parallel", form="alternatives")
    assert check.verify(gold=wanted, calls=[F1, F2]) == Scored(1.0, "right_answer: 2 calls")
    assert check.verify(gold=wanted, calls=[F2, F2]).value == 0  # type: ignore[union-attr]


TOOLS = {"f": {"properties": {"x": {"type": "integer"}, "unit": {"default": "C"}}}}


@pytest.mark.parametrize("form", ["values", "alternatives"])
def test_defaults_stand_for_what_is_left_out(form: Any) -> None:
    plain: dict[str, Any] = {"name": "f", "arguments": {"x": 1}} if form == "values" else {"f": {"x": [1]}}
    check = call_match(order="parallel", form=form, tools=TOOLS)
    for made, value in [(F1, 1), (call("f", x=1, unit="C"), 1), (call("f", x=1, unit="F"), 0)]:
        assert check.verify(gold=[plain], calls=[made]).value == value, made  # type: ignore[union-attr]
    said = {"name": "f", "arguments": {"x": 1, "unit": "C"}} if form == "values" else {"f": {"x": [1], "unit": ["C"]}}
    assert check.verify(gold=[said], calls=[F1]).value == 1  # type: ignore[union-attr]


def test_what_may_be_left_out_may_have_another_default() -> None:
    check = call_match(order="parallel", form="alternatives", tools=TOOLS)
    wanted = [{"f": {"x": [1], "unit": ["F", ""]}}]
    for made, value in [(F1, 1), (call("f", x=1, unit="F"), 1), (call("f", x=1, unit="C"), 0)]:
        assert check.verify(gold=wanted, calls=[made]).value == value, made  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("form", "reference"),
    [
        ("values", "not json"),
        ("values", 3),
        ("values", [3]),
        ("values", [{"name": "f", "arguments": "{"}]),
        ("values", [{"arguments": {}}]),
        ("alternatives", [{"name": "f", "arguments": {}}]),
        ("alternatives", [{"f": {"x": 1}}]),
        ("alternatives", [{"f": {"x": []}}]),
    ],
)
def test_a_reference_that_is_no_list_of_calls_is_a_fault_of_the_data(form: Any, reference: object) -> None:
    verdict = call_match(order="parallel", form=form).verify(gold=reference, calls=[F1])
    assert isinstance(verdict, Failed)
    assert verdict.error.startswith("gold_unparsable")


def test_references_as_text_and_arguments_as_text() -> None:
    check = call_match(order="parallel")
    for reference in ('[{"name": "f", "arguments": {"x": 1}}]', {"name": "f", "arguments": '{"x": 1}'}):
        assert check.verify(gold=reference, calls=[F1]) == Scored(1.0, "right_answer: 1 calls")


def test_as_an_outcome_of_all_turns_or_the_last() -> None:
    rollout = acted([F1], [G2], reference=gold(F1, G2))
    assert outcome(call_match(order="sequence")).observe([rollout])[0] == Scored(1.0, "right_answer: 2 calls")
    last = acted([F1], [G2], reference=gold(G2))
    found = outcome(call_match(order="sequence", turns="last")).observe([last, acted([F1])])
    assert found == [Scored(1.0, "right_answer: 1 calls"), Failed("no reference answer")]
    with pytest.raises(MissingInput, match="table of turns"):
        outcome(call_match(order="parallel")).observe(
            [Trajectory(id="r", group="q", response_ids=[1], reference=[])]  # type: ignore[arg-type]
        )
    with pytest.raises(MissingInput, match="reference"):
        outcome(call_match(order="parallel")).observe([Trajectory(id="r", group="q", turns=(Turn(),))])


@pytest.mark.parametrize("options", [{"order": "any"}, {"form": "text"}, {"turns": "first"}, {"tools": [{}]}])
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        call_match(**{"order": "parallel", **options})


CALLS = st.lists(st.sampled_from([F1, F2, G2]), max_size=4)


@given(CALLS, CALLS)
def test_parallel_is_equality_of_multisets_and_sequence_of_lists(one: list[Action], two: list[Action]) -> None:
    def right(order: Any) -> bool:
        return call_match(order=order).verify(gold=gold(*one), calls=two).value == 1  # type: ignore[union-attr]

    assert right("sequence") == (one == two)
    assert right("parallel") == any(list(order) == two for order in itertools.permutations(one))
