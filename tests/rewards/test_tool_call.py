"""Tool calls: parsed, known, and with arguments the tool takes."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import tool_calls
from apportion.rewards.schema import check_schema, problems
from apportion.rollouts import Action, Level, Trajectory
from apportion.verdicts import Abstained, Scored
from tests.rewards.builders import acted, broken_call, call, kinds, said, values
from tests.rewards.test_linear import seen

BOOK = {
    "type": "object",
    "properties": {
        "seat": {"type": "string", "enum": ["aisle", "window"]},
        "bags": {"type": "integer", "minimum": 0, "default": 0},
        "legs": {"type": "array", "items": {"$ref": "#/$defs/Leg"}, "minItems": 1},
    },
    "required": ["legs", "bags"],
    "additionalProperties": False,
    "$defs": {"Leg": {"type": "object", "properties": {"to": {"type": "string", "maxLength": 3}}, "required": ["to"]}},
}
TOOLS = {"book": BOOK, "stop": {}}
GOOD = call("book", legs=[{"to": "OSL"}])


@pytest.mark.parametrize(
    ("action", "fault"),
    [
        (GOOD, None),
        (call("stop", anything=1), None),
        (call("book", legs=[{"to": "OSL"}], seat="aisle", bags=2.0), None),
        (call("fly"), "unknown_tool: 'fly'"),
        (call("book"), "bad_arguments: book: legs is missing"),
        (call("book", legs=[]), "bad_arguments: book: legs is fewer than 1"),
        (call("book", legs=[{"to": "OSLO"}]), "bad_arguments: book: legs[0].to is longer than 3"),
        (call("book", legs=[{}]), "bad_arguments: book: legs[0].to is missing"),
        (call("book", legs=[{"to": "A"}], bags=True), "bad_arguments: book: bags is bool, not integer"),
        (call("book", legs=[{"to": "A"}], bags=-1), "bad_arguments: book: bags is below 0"),
        (
            call("book", legs=[{"to": "A"}], seat="any"),
            "bad_arguments: book: seat is 'any', not one of ['aisle', 'window']",
        ),
        (call("book", legs=[{"to": "A"}], extra=1), "bad_arguments: book: extra is unknown"),
        (broken_call(), "malformed_call: unbalanced braces at 11 in '<tool_call>{'"),
        (Action(name=None), "malformed_call: no name in ''"),
    ],
)
def test_one_call(action: Action, fault: str | None) -> None:
    ((verdict,),) = seen(tool_calls(TOOLS), [acted([action])])
    told = f"{int(fault is None)} of 1 calls valid" + (f"; {fault}" if fault else "")
    assert verdict == Scored(float(fault is None), told)


def test_shares_and_levels() -> None:
    rollout = acted([GOOD, call("fly")], [], [broken_call()])
    assert values(seen(tool_calls(TOOLS), [rollout])) == [0.5, None, 0.0]
    assert values(seen(tool_calls(TOOLS, level=Level.TRAJECTORY), [rollout])) == [pytest.approx(1 / 3)]
    assert values(seen(tool_calls(), [rollout])) == [1.0, None, 0.0]


def test_no_call_is_not_a_malformed_call() -> None:
    assert seen(tool_calls(TOOLS), [acted([])]) == [[Abstained("no_call")]]
    assert kinds(seen(tool_calls(TOOLS, level=Level.TRAJECTORY), [acted([])])) == "A"
    lost = acted([], status="aborted", error="lost")
    assert kinds(seen(tool_calls(TOOLS, level=Level.TRAJECTORY), [lost])) == "F"


def test_chat_definitions_are_read() -> None:
    chat = [{"type": "function", "function": {"name": "book", "parameters": BOOK}}, {"name": "stop"}]
    assert values(seen(tool_calls(chat), [acted([GOOD, call("stop"), call("fly")])])) == [pytest.approx(2 / 3)]
    for wrong in ([{"function": {}}], [{"name": "a"}, {"name": "a"}], ["book"]):
        with pytest.raises(InvalidArgument, match=r"tools\["):
            tool_calls(wrong)  # type: ignore[arg-type]


def test_many_faults_are_counted_not_listed() -> None:
    (((verdict,)),) = seen(tool_calls(TOOLS), [acted([call("x" * 10_000)] * 1000)])
    assert verdict.evidence.endswith("and 995 more")
    assert len(verdict.evidence) < 1000


def test_the_table_of_turns_is_needed() -> None:
    with pytest.raises(MissingInput, match="table of turns"):
        tool_calls().observe([Trajectory(id="r", group="q", response_ids=[1])])  # type: ignore[arg-type]
    assert seen(tool_calls(), [said()]) == [[]]


@pytest.mark.parametrize(
    "schema",
    [
        {"if": {}},
        {"properties": {"a": {"patternProperties": {}}}},
        {"type": "text"},
        {"items": 3},
        {"pattern": "(a+)+"},
        {"$ref": "#/$defs/None"},
        {"$ref": "https://example.org/schema"},
        {"anyOf": [{"not": {}}]},
        {"minimum": "1"},
        {"enum": "abc"},
        {"required": "a"},
    ],
)
def test_what_would_not_be_checked_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidArgument):
        tool_calls({"f": schema})


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        ({"pattern": "^[A-Z]{3}$"}, "OSL", None),
        ({"pattern": "^[A-Z]{3}$"}, "oslo", "the value does not match '^[A-Z]{3}$'"),
        ({"properties": {"a": False}}, {"a": 1}, "a must not be given"),
        ({"const": "x"}, "y", "the value is 'y', not 'x'"),
        ({"type": "string", "nullable": True}, None, None),
        ({"uniqueItems": True}, [1, 1.0], "the value repeats an item"),
        ({"uniqueItems": True}, [1, True], None),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 0}]},
            1,
            "the value fits 2 of the alternatives, not exactly one",
        ),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, 1, "the value fits none of the alternatives"),
        ({"properties": {"a": 3}}, {"a": 1}, "a is declared by something that is no schema"),
    ],
)
def test_one_keyword(schema: Any, value: Any, fault: str | None) -> None:
    assert list(problems(value, schema)) == ([fault] if fault else [])


def test_nesting_has_a_floor() -> None:
    schema = {"$ref": "#/$defs/Tree", "$defs": {"Tree": {"items": {"$ref": "#/$defs/Tree"}}}}
    check_schema(schema, "tree")
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    assert list(problems(deep, schema)) != []
    assert list(problems([[], [[]]], schema)) == []
    assert list(problems(1, {"$ref": "#"})) != []


SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {},
            True,
            False,
            {"type": "integer", "minimum": 1},
            {"type": ["string", "null"], "minLength": 1},
            {"enum": [1, True, "a", None]},
            {"const": [1]},
            {"type": "number", "exclusiveMaximum": 2},
            {"type": "array", "uniqueItems": True, "maxItems": 2},
        ]
    ),
    lambda inner: st.one_of(
        st.builds(lambda s: {"type": "array", "items": s}, inner),
        st.builds(lambda s: {"properties": {"a": s}, "required": ["a"]}, inner),
        st.builds(lambda s: {"properties": {"a": True}, "additionalProperties": s}, inner),
        st.builds(lambda s, t, key: {key: [s, t]}, inner, inner, st.sampled_from(["anyOf", "oneOf", "allOf"])),
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 2, 1.0, 1.5, "", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


@given(SCHEMAS, VALUES)
def test_it_agrees_with_the_reference_implementation(schema: Any, value: Any) -> None:
    jsonschema = importlib.import_module("jsonschema")
    check_schema(schema, "schema")
    assert (not list(problems(value, schema))) == jsonschema.Draft202012Validator(schema).is_valid(value)
