"""JSON replies: strictly parsed, compared as values, defaults filled in."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import json_match, outcome, schema_match
from apportion.rewards.verifiers.json_values import NotJson, equal, filled, parse
from apportion.rollouts import Trajectory
from apportion.verdicts import Failed, Scored
from tests.rewards.builders import said

ORDER = {
    "type": "object",
    "properties": {
        "item": {"type": "string"},
        "count": {"type": "integer", "default": 1},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
    },
    "required": ["item", "count"],
    "$defs": {"Part": {"type": "object", "properties": {"size": {"default": "M"}}}},
}


@pytest.mark.parametrize(
    ("gold", "reply", "evidence"),
    [
        ({"item": "a", "count": 1}, '{"count": 1.0, "item": "a"}', "right_answer"),
        ({"item": "a"}, '{"item": "a", "count": 1}', "right_answer"),
        ('{"item": "a", "count": 1}', 'Here:\n```json\n{"item": "a"}\n```', "right_answer"),
        ({"item": "a", "parts": [{}]}, '{"item": "a", "parts": [{"size": "M"}]}', "right_answer"),
        ({"item": "a", "parts": [{}]}, '{"item": "a", "parts": [{"size": "L"}]}', "wrong_answer"),
        ({"item": "a"}, '{"item": "b"}', "wrong_answer"),
        ({"item": "a"}, '{"item": "a", "more": 1}', "wrong_answer"),
        ({"item": "a"}, '{"count": 1}', "schema_violated: item is missing"),
        ({"item": "a"}, '{"item": "a", "count": true}', "schema_violated: count is bool"),
        ({"item": "a"}, '{"item": "a"', "answer_unparsable: Expecting ',' delimiter at character 12"),
        ({"item": "a"}, '{"item": "a", "item": "a"}', "answer_unparsable: the key 'item' stands twice"),
        ({"item": "a"}, '{"item": NaN}', "answer_unparsable: NaN is no JSON number"),
        ({"item": "a"}, "[" * 100_000, "answer_unparsable: nested too deeply"),
        ({"item": "a"}, "1" * 5000, "answer_unparsable: a number with too many digits"),
        ({"item": "a"}, " " * 10, "no_answer_found"),
        ({"item": "a"}, "1" + " " * 1_000_001 + "1", "answer_unparsable: longer than"),
        ({"item": "a"}, '<think>{"item": "a"}</think>', "no_answer_found"),
    ],
)
def test_replies(gold: object, reply: str, evidence: str) -> None:
    verdict = json_match(ORDER).verify(gold=gold, answer=reply)
    assert isinstance(verdict, Scored)
    assert verdict.evidence.startswith(evidence)
    assert verdict.value == (evidence == "right_answer")


def test_the_difference_is_named() -> None:
    verdict = json_match().verify(gold={"a": 1, "b": 2, "c": 3}, answer='{"a": 1, "b": 3, "d": 4}')
    assert isinstance(verdict, Scored)
    assert verdict.evidence.endswith("('c' is missing, 'd' is too many, 'b' differs)")


@pytest.mark.parametrize("gold", ["{", {"count": 1}, '{"item": 3}'])
def test_a_reference_that_does_not_fit_is_a_fault_of_the_data(gold: object) -> None:
    verdict = json_match(ORDER).verify(gold=gold, answer="{}")
    assert isinstance(verdict, Failed)
    assert verdict.error.startswith("gold_unparsable")


def test_the_order_of_arrays_is_declared() -> None:
    for arrays, value in [("ordered", 0.0), ("unordered", 1.0)]:
        verdict = json_match(arrays=arrays).verify(gold=[{"a": [1, 2]}, 3], answer='[3, {"a": [2, 1]}]')  # type: ignore[arg-type]
        assert isinstance(verdict, Scored)
        assert verdict.value == value
    assert not equal([1, 1, 2], [1, 2, 2], arrays="unordered")
    assert not equal([1, 0], [True, False])
    with pytest.raises(InvalidArgument, match="arrays"):
        json_match(arrays="any")  # type: ignore[arg-type]


def test_schema_alone_needs_no_reference() -> None:
    check = schema_match(ORDER)
    rollouts = [said(text, id=str(at)) for at, text in enumerate(['{"item": "a"}', "{}", "{", ""])]
    assert outcome(check).observe(rollouts) == [
        Scored(1.0, "fits the schema"),
        Scored(0.0, "schema_violated: item is missing"),
        Scored(0.0, "answer_unparsable: Expecting property name enclosed in double quotes at character 1 in '{'"),
        Scored(0.0, "no_answer_found (json_text)"),
    ]
    with pytest.raises(MissingInput, match="text"):
        outcome(check).observe([Trajectory(id="r", group="q", response_ids=[1])])  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [json_match, schema_match])
def test_a_schema_that_cannot_be_checked_is_refused(make: Any) -> None:
    with pytest.raises(InvalidArgument, match="schema"):
        make({"if": {}})


def test_defaults_of_a_schema_that_refers_to_itself_end() -> None:
    endless: dict[str, Any] = {"properties": {"next": {"$ref": "#", "default": {}}}}
    assert filled({"next": {}}, endless) == {"next": {"next": {}}}
    assert filled({}, {"$ref": "#"}) == {}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0]) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, VALUES, st.sampled_from(["ordered", "unordered"]))
def test_equality_is_reflexive_symmetric_and_survives_writing(one: Any, two: Any, arrays: Any) -> None:
    assert equal(one, parse(json.dumps(one)), arrays=arrays)
    assert equal(one, two, arrays=arrays) == equal(two, one, arrays=arrays)
    if equal(one, two):
        assert equal(one, two, arrays="unordered")


@given(st.text(alphabet='{}[]",:01truefalsnN \\u', max_size=40))
def test_what_is_read_can_be_written_and_nothing_else_is_raised(text: str) -> None:
    try:
        value = parse(text)
    except NotJson:
        return
    assert equal(value, json.loads(json.dumps(value)))


@pytest.mark.parametrize("reply", ["[" * 200_000, '{"a":' * 100_000, "```" * 100_000, "[" + "1," * 400_000 + "1]"])
def test_hostile_replies_are_judged_in_time(reply: str) -> None:
    started = time.process_time()
    assert json_match().verify(gold=[1], answer=reply).value == 0  # type: ignore[union-attr]
    assert time.process_time() - started < 3
