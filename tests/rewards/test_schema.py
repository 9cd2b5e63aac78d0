"""Schemas that cannot be judged are refused, and no value makes judging one take for ever."""

from __future__ import annotations

import time
from typing import Any

import pytest

from apportion.errors import InvalidArgument
from apportion.rewards.schema import check_schema, problems

# A sum or a product of two of the same, or a whole number.
TERM: dict[str, Any] = {
    "anyOf": [
        *(
            {
                "type": "object",
                "properties": {"of": {"$ref": "#"}, "kind": {"const": kind}},
                "required": ["kind"],
            }
            for kind in ("sum", "product")
        ),
        {"type": "integer"},
    ]
}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"type": [[]]},
        {"type": "text"},
        {"properties": [1]},
        {"properties": {"a": {"properties": 3}}},
        {"$defs": []},
        {"required": [["a"]]},
        {"required": "a"},
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}, "B": {"$ref": "#/$defs/A"}}},
    ],
)
def test_a_schema_that_is_none_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        check_schema(schema, "tool")


def nested(leaf: object, depth: int) -> object:
    for _ in range(depth):
        leaf = {"of": leaf, "kind": "product"}
    return leaf


def test_a_schema_may_lead_into_the_value() -> None:
    check_schema(TERM, "tool")
    assert list(problems(nested(3, 15), TERM)) == []
    assert list(problems(nested("x", 15), TERM)) == ["the value fits none of the alternatives"]


def test_a_value_that_every_alternative_looks_into_does_not_take_for_ever() -> None:
    # Without the kind, neither alternative can be left early: two to the power of the depth.
    value: object = "x"
    for _ in range(22):
        value = {"of": value}
    open_ended = {"anyOf": [{"type": "object", "properties": {"of": {"$ref": "#"}}} for _ in range(2)] + [{"const": 1}]}
    started = time.process_time()
    assert list(problems(value, open_ended)) == ["the value fits none of the alternatives"]
    assert time.process_time() - started < 5


def test_long_values_are_judged_whole() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    assert list(problems([*range(30_000), "x"], schema)) == ["[30000] is str, not integer"]
    assert "more than" in next(problems([*range(60_000)], schema))
