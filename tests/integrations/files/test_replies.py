from __future__ import annotations

from pathlib import Path

import pytest

from apportion.errors import BadRow
from apportion.integrations.files import detect_format, read
from tests.integrations.files.builders import write_lines

ROW = {"group": "p1", "style": "short", "puzzle": "1 2 3 4", "replies": ["a", "b", "c"], "rewards": [0, True, None]}


def test_a_row_is_a_group_with_one_trajectory_per_reply(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl.gz", ROW, ROW | {"group": "p2", "replies": ["d"], "rewards": [0.5]})
    assert detect_format(path) == "replies"
    found = list(read(path))
    assert [(t.id, t.group) for t in found] == [("p1-0", "p1"), ("p1-1", "p1"), ("p1-2", "p1"), ("p2-0", "p2")]
    assert [t.turns[0].text for t in found] == ["a", "b", "c", "d"]
    assert [t.columns["reward"] for t in found] == [0.0, 1.0, None, 0.5]
    assert found[0].columns == {"style": "short", "puzzle": "1 2 3 4", "reward": 0.0}


def test_a_row_without_an_id_is_a_group_of_its_own(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", *[{"prompt": "2+2", "completions": ["4", "5"], "scores": ["1", "0"]}] * 2)
    assert [(t.id, t.columns["reward"]) for t in read(path)] == [
        ("line1-0", 1.0),
        ("line1-1", 0.0),
        ("line2-0", 1.0),
        ("line2-1", 0.0),
    ]


def test_without_rewards_there_is_no_column(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", {"prompt": "2+2", "responses": ["4"], "answer": "4", "step": 3})
    (t,) = read(path)
    assert (t.columns, t.reference, t.step) == ({"prompt": "2+2"}, "4", 3)


def test_how_each_reply_ended_is_its_own(tmp_path: Path) -> None:
    row = ROW | {"finish_reasons": ["stop", "length", None], "errors": [None, None, "server gone"]}
    found = list(read(write_lines(tmp_path / "a.jsonl", row)))
    assert [(t.status, t.error) for t in found] == [
        ("terminated", None),
        ("truncated", None),
        ("aborted", "server gone"),
    ]
    assert [t.columns.get("finish_reason") for t in found] == ["stop", "length", None]


def test_actions_in_a_reply_are_read(tmp_path: Path) -> None:
    reply = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    (t,) = read(write_lines(tmp_path / "a.jsonl", {"replies": [reply]}))
    assert [action.name for action in t.turns[0].actions] == ["f"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"replies": []}, "replies"),
        ({"replies": "a"}, "replies"),
        ({"replies": None}, "replies"),
        ({"replies": ["a", 3, "c"]}, "replies[1]"),
        ({"rewards": [0, 1]}, "rewards"),
        ({"rewards": 1}, "rewards"),
        ({"rewards": [0, 1, float("nan")]}, "rewards[2]"),
        ({"rewards": [0, "x", 1]}, "rewards[1]"),
        ({"finish_reasons": ["stop"]}, "finish_reasons"),
        ({"group": []}, "group"),
    ],
)
def test_a_bad_group_is_refused_whole(tmp_path: Path, fields: dict[str, object], field: str) -> None:
    skipped: list[BadRow] = []
    path = write_lines(tmp_path / "a.jsonl", ROW | fields, ROW | {"group": "good"})
    found = list(read(path, format="replies", on_error="skip", skipped=skipped))
    assert [t.group for t in found] == ["good"] * 3
    assert [(bad.line, bad.field) for bad in skipped] == [(1, field)]


def test_the_same_group_in_two_rows_is_found_by_its_ids(tmp_path: Path) -> None:
    with pytest.raises(BadRow, match="'p1-0' is already the id of line 1"):
        list(read(write_lines(tmp_path / "a.jsonl", ROW, ROW)))
