"""Records joined to turns: the one reading that is possible, or none. Never a wrong one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.integrations.trl.rollouts import joined, turns_of
from apportion.integrations.trl.steps import Recorded, by_call, by_turn, recorded_by
from apportion.rollouts import Turn


def asks(*calls: tuple[str, int]) -> dict[str, Any]:
    listed = [{"type": "function", "function": {"name": name, "arguments": {"x": x}}} for name, x in calls]
    return {"role": "assistant", "content": "", **({"tool_calls": listed} if listed else {})}


def answer(name: str, *, failed: bool = False) -> dict[str, Any]:
    return {"role": "tool", "name": name, "content": "{'error': 'no'}" if failed else "done"}


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[list[tuple[str, int]]], bool]:
    """Messages, the calls that arrived at the environment turn by turn, and whether the last message's were run."""
    messages: list[dict[str, Any]] = []
    arrived: list[list[tuple[str, int]]] = []
    n = draw(st.integers(1, 4))
    for k in range(n):
        last = k == n - 1
        calls = draw(
            st.lists(st.tuples(st.sampled_from("fg"), st.integers(0, 1)), min_size=0 if last else 1, max_size=3)
        )
        messages.append(asks(*calls))
        got: list[tuple[str, int]] = []
        if last and calls and draw(st.booleans()):
            ran = draw(st.booleans())
            got = [call for call in calls if ran and draw(st.booleans())]
            arrived.append(got)
            return messages, arrived, ran
        for call in draw(st.permutations(calls)):
            failed = draw(st.booleans())
            if not failed or draw(st.booleans()):
                got.append(call)
            messages.append(answer(call[0], failed=failed))
        arrived.append(draw(st.permutations(got)))
    return messages, arrived, True


@given(drawn=histories(), named=st.sampled_from(["no", "names", "arguments"]))
def test_what_is_joined_is_what_happened(drawn: tuple[Any, Any, bool], named: str) -> None:
    messages, arrived, ran = drawn
    flat = [call for turn in arrived for call in turn]
    calls: Any = {"no": None, "names": [name for name, _ in flat], "arguments": [(n, {"x": x}) for n, x in flat]}[named]
    recorded = Recorded(rewards=[1.0] * len(flat), columns=[{"n": 1}] * len(flat), calls=calls, defaults={"n": 0})
    turns = turns_of(messages)
    made = by_call(turns, messages, recorded, last_ran=ran)
    failures = any(str(m["content"]).startswith("{'error'") for m in messages)
    cut = messages[-1]["role"] == "assistant" and ran and "tool_calls" in messages[-1]
    if not failures and not cut:
        assert made is not None
    if made is not None:
        assert [turn.columns["n"] for turn in made] == [len(turn) for turn in arrived]
        assert [turn.reward for turn in made] == [float(len(turn)) if turn else None for turn in arrived]


def test_names_decide_where_counts_cannot() -> None:
    messages = [asks(("f", 0)), answer("f", failed=True), asks(("g", 0)), answer("g", failed=True), asks()]
    turns, one = turns_of(messages), [{"n": 1}]
    assert by_call(turns, messages, Recorded(columns=one), last_ran=True) is None
    made = by_call(turns, messages, Recorded(columns=one, calls=["g"]), last_ran=True)
    assert made is not None
    assert [turn.columns.get("n") for turn in made] == [None, 1, None]


def test_a_call_that_worked_has_arrived() -> None:
    """Both failed calls may have, but the first `g` alone cannot be the first turn: its `f` worked."""
    messages = [
        *(asks(("g", 0), ("f", 0)), answer("g", failed=True), answer("f")),
        *(asks(("f", 0), ("g", 0)), answer("f", failed=True), answer("g")),
    ]
    recorded = Recorded(columns=[{"n": 1}] * 3, calls=["g", "f", "g"])
    made = by_call(turns_of(messages), messages, recorded, last_ran=True)
    assert made is not None
    assert [turn.columns["n"] for turn in made] == [2, 1]


def test_arguments_decide_where_names_cannot() -> None:
    messages = [asks(("f", 0)), answer("f", failed=True), asks(("f", 1)), answer("f", failed=True)]
    turns, one = turns_of(messages), [{"n": 1}]
    assert by_call(turns, messages, Recorded(columns=one, calls=["f"]), last_ran=True) is None
    made = by_call(turns, messages, Recorded(columns=one, calls=[("f", {"x": 1})]), last_ran=True)
    assert made is not None
    assert [turn.columns.get("n") for turn in made] == [None, 1]


def test_records_of_calls_that_nobody_made_are_not_joined() -> None:
    messages = [asks(("f", 0)), answer("f"), asks()]
    turns = turns_of(messages)
    for recorded in (Recorded(rewards=[1.0, 1.0]), Recorded(rewards=[]), Recorded(rewards=[1.0], calls=["h"])):
        assert by_call(turns, messages, recorded, last_ran=True) is None


def test_why_nothing_was_joined_is_kept() -> None:
    messages = [asks(("f", 0)), answer("f"), asks()]
    turns, why = joined(turns_of(messages), messages, Recorded(rewards=[]), max_tool_rounds=None)
    assert why == "0 records cannot be told apart over 2 turns"
    assert [turn.reward for turn in turns] == [None, None]


def test_numbers_of_one_turn_add_up_and_the_last_of_the_rest_stays() -> None:
    messages = [asks(("f", 0), ("f", 1)), answer("f"), answer("f")]
    columns = [{"n": 1, "why": "a", "ok": True}, {"n": 2.5, "why": "b", "ok": True}]
    made = by_call(turns_of(messages), messages, Recorded(columns=columns, rewards=[None, 2.0]), last_ran=True)
    assert made is not None
    assert (made[0].columns, made[0].reward) == ({"n": 3.5, "why": "b", "ok": 2}, 2.0)


def test_defaults_fill_turns_without_a_call_only() -> None:
    messages = [asks(("f", 0)), answer("f"), asks()]
    recorded = Recorded(columns=[{"n": 4}], defaults={"n": 0, "m": 0})
    made = by_call(turns_of(messages), messages, recorded, last_ran=True)
    assert made is not None
    assert [turn.columns for turn in made] == [{"n": 4}, {"n": 0, "m": 0}]


def test_a_rollout_func_gives_one_record_per_turn() -> None:
    turns = [Turn(), Turn()]
    assert [turn.reward for turn in by_turn(turns, Recorded(rewards=[1.0, None]))] == [1.0, None]
    with pytest.raises(InvalidArgument, match=r"3 records.*2 runs of ones"):
        by_turn(turns, Recorded(rewards=[1.0, 2.0, 3.0]))


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"'rewards': 1, 'turn_columns': 2"):
        Recorded(rewards=[1.0], columns=[{}, {}])


def test_an_environment_without_records_has_none() -> None:
    class Env:
        def rewards(self) -> None:
            """A tool of this name."""

    assert recorded_by(Env()) is None
    assert recorded_by(None) is None
