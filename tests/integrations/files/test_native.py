from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apportion.errors import BadRow
from apportion.integrations.files import SCHEMA_VERSION, read
from tests.integrations.files.builders import native, write_lines

DEEP: list[Any] = json.loads("[" * 70 + "]" * 70)
TOKENS: dict[str, Any] = {"response_ids": [1, 2], "policy": [1, 0]}


def problem(tmp_path: Path, row: object) -> BadRow:
    path = write_lines(tmp_path / "a.jsonl", native("first"), row)
    with pytest.raises(BadRow) as caught:
        list(read(path, format="jsonl"))
    assert (caught.value.path, caught.value.line) == (str(path), 2)
    assert caught.value.remedy
    return caught.value


def test_every_field_is_read(tmp_path: Path) -> None:
    action = {"name": "f", "arguments": {"a": 1}, "raw": "f(1)", "syntax": "openai", "call_id": "c", "error": None}
    turn = {
        "text": "t",
        "actions": [action],
        "observation": "o",
        "span": [0, 2],
        "reward": 0.5,
        "executed": False,
        "columns": {"k": 1},
    }
    row = native(
        "a",
        step=3,
        prompt_ids=[9],
        **TOKENS,
        own=[1, 0],
        behaviour_logps=[-0.5, None],
        policy_version=[4, 4],
        status="aborted",
        error="lost",
        reference={"gold": 1},
        turns=[turn],
        messages=[{"role": "user"}],
        columns={"reward": 1},
    )
    (t,) = read(write_lines(tmp_path / "a.jsonl", row))
    assert (t.id, t.group, t.step, t.status, t.error, t.reference) == ("a", "g", 3, "aborted", "lost", {"gold": 1})
    assert (t.messages, t.columns) == (({"role": "user"},), {"reward": 1})
    (read_turn,) = t.turns
    assert (read_turn.text, read_turn.observation, read_turn.span) == ("t", "o", (0, 2))
    assert (read_turn.reward, read_turn.executed, read_turn.columns) == (0.5, False, {"k": 1})
    assert read_turn.actions[0].arguments == {"a": 1}
    assert t.behaviour_logps is not None
    np.testing.assert_array_equal(t.behaviour_logps, [-0.5, np.nan])


def test_numbers_as_ids_become_text(tmp_path: Path) -> None:
    (t,) = read(write_lines(tmp_path / "a.jsonl", native(3, 0)))
    assert (t.id, t.group) == ("3", "0")


def test_a_whole_number_is_the_same_id_however_it_was_written(tmp_path: Path) -> None:
    rows = [native("a", group) for group in (3, 3.0, "3", 3.5, -0.0, 10**30)]
    path = write_lines(tmp_path / "a.jsonl", *(row | {"id": str(k)} for k, row in enumerate(rows)))
    assert [t.group for t in read(path)] == ["3", "3", "3", "3.5", "0", str(10**30)]


def test_null_is_a_field_left_out(tmp_path: Path) -> None:
    """As docs/rollout_format.md promises: exporters write every field."""
    action = dict.fromkeys(("name", "arguments", "raw", "syntax", "call_id", "error"))
    turn = dict.fromkeys(("text", "observation", "span", "reward", "executed", "columns")) | {"actions": [action]}
    empty = dict.fromkeys(("step", "prompt_ids", "response_ids", "policy", "own", "behaviour_logps", "policy_version"))
    empty |= dict.fromkeys(("status", "error", "reference", "messages", "columns")) | {"turns": [turn]}
    bare = native("a") | {"turns": [{"actions": [{}]}]}
    with_nulls, without = read(write_lines(tmp_path / "a.jsonl", native("n") | empty, bare))
    assert with_nulls.turns == without.turns
    assert (with_nulls.status, with_nulls.columns, with_nulls.messages) == ("terminated", {}, ())


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 10**30])
def test_a_newer_schema_says_to_upgrade(tmp_path: Path, version: int) -> None:
    bad = problem(tmp_path, native("a") | {"apportion": version})
    assert (bad.field, bad.remedy) == ("apportion", "upgrade apportion")
    assert "newer than 1" in bad.problem


@pytest.mark.parametrize("version", [0, "1", True, 1.5, None])
def test_another_version_is_refused(tmp_path: Path, version: object) -> None:
    assert problem(tmp_path, native("a") | {"apportion": version}).field == "apportion"


@pytest.mark.parametrize(
    ("fields", "field", "remedy"),
    [
        ({"behavior_logps": [1.0]}, "behavior_logps", "did you mean 'behaviour_logps'?"),
        ({"reward": 1.0}, "reward", 'free data belongs under "columns"'),
        ({"turns": [{"obs": ""}]}, "turns[0].obs", "free data belongs"),
        ({"turns": [{"actions": [{"nme": "f"}]}]}, "turns[0].actions[0].nme", "did you mean 'name'?"),
    ],
)
def test_an_unknown_field_is_refused_with_the_likely_one(
    tmp_path: Path, fields: dict[str, Any], field: str, remedy: str
) -> None:
    """A misspelt field that became a free column would silently train without it."""
    bad = problem(tmp_path, native("a", **fields))
    assert bad.field == field
    assert remedy in bad.remedy


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"id": None}, "id"),
        ({"id": ""}, "id"),
        ({"id": True}, "id"),
        ({"id": ["a"]}, "id"),
        ({"group": None}, "group"),
        ({"step": "3"}, "step"),
        ({"step": 1.5}, "step"),
        ({"step": True}, "step"),
        ({"step": 2**63}, "step"),
        ({"response_ids": "1 2"}, "response_ids"),
        ({"response_ids": [1.5]}, "response_ids"),
        ({"response_ids": ["1"]}, "response_ids"),
        ({"response_ids": [1, None]}, "response_ids"),
        ({"response_ids": [[1], [2]]}, "response_ids"),
        ({"response_ids": [1, [2]]}, "response_ids"),
        ({"response_ids": [2**63]}, "response_ids"),
        ({"response_ids": [2**70]}, "response_ids"),
        ({"response_ids": [1], "policy": [2]}, "policy"),
        ({"response_ids": [1], "policy": [1, 0]}, "response_ids"),
        ({"policy": [1]}, "response_ids"),
        ({**TOKENS, "own": [1, 1]}, "own"),
        ({**TOKENS, "behaviour_logps": [None, 0.0]}, "behaviour_logps"),
        ({**TOKENS, "behaviour_logps": ["-1", 0]}, "behaviour_logps"),
        ({**TOKENS, "behaviour_logps": [[1], [2]]}, "behaviour_logps"),
        ({**TOKENS, "policy_version": [0.5, 1]}, "policy_version"),
        ({"status": "done"}, "status"),
        ({"status": ["terminated"]}, "status"),
        ({"error": "lost"}, "status"),
        ({"error": 3, "status": "aborted"}, "error"),
        ({"turns": {}}, "turns"),
        ({"turns": ["x"]}, "turns[0]"),
        ({"turns": [{}, {"text": 3}]}, "turns[1].text"),
        ({"turns": [{"observation": 3}]}, "turns[0].observation"),
        ({"group": float("nan")}, "group"),
        ({"id": float("inf")}, "id"),
        ({"group": True}, "group"),
        ({"turns": [{"span": [0]}]}, "turns[0].span"),
        ({"turns": [{"span": [0, 1.5]}]}, "turns[0].span"),
        ({"turns": [{"executed": 1}]}, "turns[0].executed"),
        ({"turns": [{"reward": float("nan")}]}, "turns[0].reward"),
        ({"turns": [{"reward": "high"}]}, "turns[0].reward"),
        ({"turns": [{"reward": 10**400}]}, "turns[0].reward"),
        ({"turns": [{"columns": []}]}, "turns[0].columns"),
        ({"turns": [{"actions": {}}]}, "turns[0].actions"),
        ({"turns": [{"actions": [{"arguments": "{}"}]}]}, "turns[0].actions[0].arguments"),
        ({**TOKENS, "turns": [{"span": [0, 9]}]}, "span"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": "hello"}, "messages"),
        ({"columns": [1]}, "columns"),
        ({"columns": {"deep": DEEP}}, "row"),
    ],
)
def test_a_wrong_value_is_named_by_its_field(tmp_path: Path, fields: dict[str, Any], field: str) -> None:
    assert problem(tmp_path, native("a") | fields).field == field


def test_a_huge_value_does_not_flood_the_error(tmp_path: Path) -> None:
    bad = problem(tmp_path, native("a", status="x" * 100_000, group="g") | {"y" * 100_000: 1})
    assert len(str(bad)) < 1000
