from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.integrations.strict_json import MAX_DEPTH, BadJson, decode, decode_row, too_deep

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN)
def test_what_json_writes_is_read_back_with_its_end(value: object) -> None:
    text = json.dumps(value)
    assert decode(f"{text} tail") == (value, len(text))


@pytest.mark.parametrize(
    ("text", "problem", "position"),
    [
        ("", "Expecting value", 0),
        ('{"a": 1', "Expecting ',' delimiter", 7),
        ('{"a": "x', "Unterminated string starting", 6),
        ('{"a": 1, "b": 2, "a": 3}', "key 'a' appears twice", 0),
        ('{"a": NaN}', "NaN is not JSON", 0),
        ("[-Infinity]", "-Infinity is not JSON", 0),
        ("[1e999]", "1e999 is too large for a number", 0),
        ("[" + "9" * 5000 + "]", "Exceeds the limit (4300 digits)", 0),
        ('"a\nb"', "Invalid control character", 2),
    ],
)
def test_bad_json_says_what_and_where(text: str, problem: str, position: int) -> None:
    with pytest.raises(BadJson) as caught:
        decode(text)
    assert caught.value.problem.startswith(problem)
    assert caught.value.position == position


@pytest.mark.parametrize("depth", [MAX_DEPTH + 2, 2000, 1_000_000])
@pytest.mark.parametrize("brackets", ["[]", ('{"a":', "}")])
def test_depth_is_an_error_and_not_a_crash(depth: int, brackets: tuple[str, str]) -> None:
    with pytest.raises(BadJson, match="nested deeper than 64 levels"):
        decode(brackets[0] * depth + "1" + brackets[1] * depth)


def test_depth_up_to_the_limit_is_accepted() -> None:
    assert decode("[" * MAX_DEPTH + "]" * MAX_DEPTH)[1] == 2 * MAX_DEPTH


def test_rows_keep_the_non_finite_numbers_that_python_writes() -> None:
    value, _ = decode_row("[NaN, -Infinity, 1]")
    assert value[0] != value[0]
    assert value[1:] == [float("-inf"), 1]


def test_rows_refuse_a_key_given_twice() -> None:
    with pytest.raises(BadJson, match="'reward' appears twice"):
        decode_row('{"reward": 0, "reward": 1}')


def test_too_deep_counts_the_deepest_branch() -> None:
    assert not too_deep([1, [[]], {"a": 1}], limit=2)
    assert too_deep([[], {"a": [[]]}], limit=2)
