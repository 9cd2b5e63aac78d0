from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apportion.errors import BadRow
from apportion.integrations.files import detect_format, read
from apportion.rollouts import Trajectory

STEPS: list[dict[str, Any]] = [
    {
        "action": "open main.py\n",
        "observation": "x = 1",
        "response": "Open it.\n```\nopen main.py\n```",
        "thought": "Open it.",
        "state": "{}",
    },
    {"action": "submit", "observation": "", "response": "Done.", "thought": "Done.", "execution_time": 0.5},
]
RUN: dict[str, Any] = {
    "environment": "main",
    "trajectory": STEPS,
    "history": [{"role": "system", "content": "You fix code."}],
    "info": {"exit_status": "submitted", "submission": "diff"},
}


def write_run(tmp_path: Path, **fields: object) -> Path:
    path = tmp_path / "owner__repo-7.traj"
    path.write_text(json.dumps({name: value for name, value in (RUN | fields).items() if value != "absent"}, indent=2))
    return path


def one(tmp_path: Path, **fields: object) -> Trajectory:
    (t,) = read(write_run(tmp_path, **fields))
    return t


def test_each_step_is_a_turn_with_its_command(tmp_path: Path) -> None:
    assert detect_format(write_run(tmp_path)) == "sweagent"
    t = one(tmp_path)
    assert [turn.actions[0].name for turn in t.turns] == ["open", "submit"]
    first = t.turns[0]
    assert (first.actions[0].arguments, first.actions[0].raw) == ({"command": "open main.py"}, "open main.py\n")
    assert (first.text, first.observation) == (STEPS[0]["response"], "x = 1")
    assert first.columns == {"thought": "Open it.", "state": "{}"}
    assert t.turns[1].columns == {"thought": "Done.", "execution_time": 0.5}


def test_the_file_names_the_instance_and_nothing_is_lost(tmp_path: Path) -> None:
    t = one(tmp_path, replay_config={"seed": 1})
    assert (t.id, t.group, t.status) == ("owner__repo-7", "owner__repo-7", "terminated")
    recorded = {"environment": "main", "info": RUN["info"], "replay_config": {"seed": 1}}
    assert t.columns == {**recorded, "submitted": True}
    assert list(t.messages) == RUN["history"]


def test_no_reward_is_missing_and_not_zero(tmp_path: Path) -> None:
    assert "reward" not in one(tmp_path).columns
    assert one(tmp_path, info={"exit_status": "submitted", "resolved": False}).columns["reward"] == 0.0
    assert one(tmp_path, info={"exit_status": "submitted", "reward": None}).columns["reward"] is None
    assert one(tmp_path, score=0.5).columns["reward"] == 0.5


def test_a_demonstration_is_not_a_rollout(tmp_path: Path) -> None:
    with pytest.raises(BadRow, match="a history alone is a demonstration, not a rollout"):
        one(tmp_path, trajectory="absent")


@pytest.mark.parametrize(
    ("exit_status", "status"),
    [
        ("submitted", "terminated"),
        ("exit_format", "terminated"),
        ("exit_command_timeout", "terminated"),
        ("submitted (exit_cost)", "truncated"),
        ("exit_context", "truncated"),
        ("exit_total_execution_time", "truncated"),
        ("exit_environment_error", "aborted"),
        ("submitted (exit_error)", "aborted"),
        (None, "aborted"),
        ("", "aborted"),
    ],
)
def test_exit_statuses_are_told_apart(tmp_path: Path, exit_status: str | None, status: str) -> None:
    """What the policy caused ends a run; a limit cuts it off; the infrastructure breaks it."""
    t = one(tmp_path, info={"exit_status": exit_status})
    assert t.status == status
    assert (t.error is not None) == (status == "aborted")


def test_a_run_that_broke_before_its_first_step_is_kept(tmp_path: Path) -> None:
    assert one(tmp_path, trajectory=[], info={"exit_status": "exit_environment_error"}).turns == ()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"trajectory": []}, "trajectory"),
        ({"trajectory": {}}, "trajectory"),
        ({"trajectory": ["ls"]}, "trajectory[0]"),
        ({"trajectory": [{"action": 3}]}, "trajectory[0].action"),
        ({"history": "x"}, "history"),
        ({"history": ["x"]}, "history[0]"),
        ({"info": []}, ""),
        ({"info": "submitted"}, "info"),
        ({"info": {"exit_status": "submitted", "reward": "nan"}}, "info.reward"),
    ],
)
def test_a_broken_run_is_named_by_its_field(tmp_path: Path, fields: dict[str, object], field: str) -> None:
    if not field:
        assert one(tmp_path, **fields).status == "aborted"
        return
    with pytest.raises(BadRow) as caught:
        list(read(write_run(tmp_path, **fields), format="sweagent"))
    assert caught.value.field == field


def test_a_step_without_action_has_no_action(tmp_path: Path) -> None:
    assert one(tmp_path, trajectory=[{"action": "", "response": "hm"}]).turns[0].actions == ()
