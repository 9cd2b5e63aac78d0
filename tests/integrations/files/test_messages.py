from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apportion.errors import BadRow
from apportion.integrations.files import detect_format, read
from apportion.rollouts import Trajectory
from tests.integrations.files.builders import write_lines

CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"city": "Oslo"}'}}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "You book trains."},
    {"role": "user", "content": "To Oslo, please."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "name": "find", "content": "two trains"},
    {"role": "assistant", "content": "The early one?"},
    {"role": "user", "content": "Yes."},
]


def episode(**fields: object) -> dict[str, object]:
    return {"task_id": 4, "trial": 1, "reward": 1.0, "traj": CHAT, **fields}


def one(tmp_path: Path, row: object) -> Trajectory:
    (t,) = read(write_lines(tmp_path / "a.jsonl", row), format="messages")
    return t


def problem(tmp_path: Path, row: object) -> BadRow:
    with pytest.raises(BadRow) as caught:
        one(tmp_path, row)
    return caught.value


def test_one_turn_per_assistant_message_with_what_answers_it(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl.gz", episode())
    assert detect_format(path) == "messages"
    (t,) = read(path)
    assert [(turn.text, turn.observation) for turn in t.turns] == [("", "two trains"), ("The early one?", "Yes.")]
    (call,) = t.turns[0].actions
    assert (call.name, call.arguments, call.call_id) == ("find", {"city": "Oslo"}, "c1")
    assert t.turns[1].actions == ()
    assert not t.has_tokens


def test_task_is_the_group_and_task_with_trial_the_id(tmp_path: Path) -> None:
    t = one(tmp_path, episode())
    assert (t.id, t.group) == ("4-1", "4")


def test_nothing_recorded_is_lost(tmp_path: Path) -> None:
    info = {"source": "user", "cost": 0.25}
    t = one(tmp_path, episode(info=info, note=["kept"]))
    assert t.columns == {"task_id": 4, "trial": 1, "reward": 1.0, "info": info, "note": ["kept"]}
    assert list(t.messages) == CHAT


def test_several_answers_are_one_observation(tmp_path: Path) -> None:
    chat = [*CHAT[:3], {"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}]
    assert one(tmp_path, episode(traj=chat)).turns[0].observation == "one\ntwo"


def test_assistant_messages_in_a_row_are_turns_of_their_own(tmp_path: Path) -> None:
    chat = [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": [{"type": "text", "text": "b"}]}]
    assert [turn.text for turn in one(tmp_path, episode(traj=chat)).turns] == ["a", "b"]


@pytest.mark.parametrize("name", ["messages", "conversation", "conversations", "traj", "trajectory"])
@pytest.mark.parametrize("reward", ["reward", "score"])
def test_the_usual_names_are_known(tmp_path: Path, name: str, reward: str) -> None:
    path = write_lines(tmp_path / "a.jsonl", {"group_id": "g", "id": 7, name: CHAT, reward: "0.5"})
    assert detect_format(path) == "messages"
    (t,) = read(path)
    assert (t.id, t.group, t.columns["reward"], t.n_turns) == ("7", "g", 0.5, 2)


def test_without_trial_the_line_makes_the_id(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", *[{"group": "g", "messages": CHAT}] * 2)
    assert [t.id for t in read(path)] == ["g-line1", "g-line2"]


def test_a_list_of_rows_is_read_as_rows(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps([episode(trial=k) for k in range(3)], indent=1))
    assert [t.id for t in read(path)] == ["4-0", "4-1", "4-2"]


def test_gold_answers_are_the_reference(tmp_path: Path) -> None:
    assert one(tmp_path, episode(ground_truth="42")).reference == "42"
    task = {"instruction": "go", "actions": [{"name": "book"}], "outputs": []}
    assert one(tmp_path, episode(info={"task": task})).reference == {"actions": [{"name": "book"}], "outputs": []}
    assert one(tmp_path, episode()).reference is None


@pytest.mark.parametrize(
    ("reward", "expected"), [(0, 0.0), (True, 1.0), (False, 0.0), ("1.0", 1.0), (" -2e-1 ", -0.2), (None, None)]
)
def test_rewards_become_floats_and_null_stays_unknown(tmp_path: Path, reward: object, expected: float | None) -> None:
    value = one(tmp_path, episode(reward=reward)).columns["reward"]
    assert value == expected
    assert type(value) is type(expected)


def test_rewards_of_messages_are_those_of_their_turn(tmp_path: Path) -> None:
    """The call was paid 0.25 and its result 0.5; nothing was paid for the answer, which is not 0."""
    chat = [
        {"role": "user", "content": "hi", "reward": 9.0},
        {"role": "assistant", "content": "look", "reward": 0.25},
        {"role": "tool", "content": "found", "reward": "0.5"},
        {"role": "assistant", "content": "done", "reward": None},
        {"role": "user", "content": "thanks"},
    ]
    t = one(tmp_path, episode(traj=chat))
    assert [turn.reward for turn in t.turns] == [0.75, None]


def test_what_is_no_reward_of_a_message_is_refused(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "x", "reward": float("nan")}]
    assert problem(tmp_path, episode(traj=chat)).field == "traj[1].reward"


def test_without_a_reward_there_is_no_column(tmp_path: Path) -> None:
    row = episode()
    del row["reward"]
    assert "reward" not in one(tmp_path, row).columns


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), "nan", "good", "1_0", "", [1.0], {"total": 1}, 10**400])
def test_what_is_no_reward_is_refused(tmp_path: Path, reward: object) -> None:
    assert problem(tmp_path, episode(reward=reward)).field == "reward"


# --- how it ended


def test_an_episode_stopped_at_the_step_limit_is_truncated_and_not_failed(tmp_path: Path) -> None:
    """tau-bench stores it with reward 0.0 like a real failure, but without the details of a judgement."""
    stopped = one(tmp_path, episode(reward=0.0, traj=CHAT[:4], info={"reward_info": None}))
    assert (stopped.status, stopped.columns["reward"]) == ("truncated", 0.0)
    judged = one(tmp_path, episode(reward=0.0, info={"reward_info": {"reward": 0.0}}))
    assert judged.status == "terminated"
    assert one(tmp_path, episode(reward=0.0)).status == "terminated"


@pytest.mark.parametrize(
    "fields",
    [
        {"error": "SandboxError"},
        {"state": {"error": "SandboxError"}},
        {"info": {"error": "SandboxError"}},
        {"error": "SandboxError", "status": "terminated"},
    ],
)
def test_a_recorded_error_means_aborted(tmp_path: Path, fields: dict[str, object]) -> None:
    """A stored error that nobody reads makes an outage the policy's failure (PrimeIntellect-ai/prime-rl#1553)."""
    t = one(tmp_path, episode(reward=0.0, **fields))
    assert (t.status, t.error) == ("aborted", "SandboxError")


def test_an_error_that_is_an_object_is_kept_as_text(tmp_path: Path) -> None:
    assert one(tmp_path, episode(error={"type": "OOM"})).error == '{"type": "OOM"}'


@pytest.mark.parametrize("nothing", [None, "", False, {}])
def test_an_empty_error_is_no_error(tmp_path: Path, nothing: object) -> None:
    assert one(tmp_path, episode(error=nothing)).status == "terminated"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"status": "completed"}, "terminated"),
        ({"status": "truncated"}, "truncated"),
        ({"status": "aborted"}, "aborted"),
        ({"truncated": True}, "truncated"),
        ({"truncated": False}, "terminated"),
        ({"finish_reason": "length"}, "truncated"),
        ({"finish_reason": "stop"}, "terminated"),
        ({"finish_reason": "abort"}, "aborted"),
    ],
)
def test_endings_are_told_apart(tmp_path: Path, fields: dict[str, object], status: str) -> None:
    assert one(tmp_path, episode(**fields)).status == status


def test_a_rollout_that_broke_before_its_first_turn_is_kept(tmp_path: Path) -> None:
    t = one(tmp_path, episode(traj=CHAT[:1], error="no sandbox"))
    assert (t.status, t.turns) == ("aborted", ())


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"status": "resolved"}, "status"),
        ({"status": 3}, "status"),
        ({"traj": CHAT[:2]}, "traj"),
        ({"traj": []}, "traj"),
        ({"traj": None}, "messages"),
        ({"traj": "hello"}, "traj"),
        ({"traj": ["hello"]}, "traj[0]"),
        ({"traj": [{"content": "x"}]}, "traj[0].role"),
        ({"traj": [{"role": "assistant", "content": 3}]}, "traj[0].content"),
        ({"task_id": None}, "group"),
        ({"task_id": []}, "task_id"),
        ({"trial": {}}, "trial"),
        ({"step": "x"}, "step"),
    ],
)
def test_a_row_that_is_no_episode_is_named_by_its_field(tmp_path: Path, fields: dict[str, object], field: str) -> None:
    bad = problem(tmp_path, episode(**fields))
    assert bad.field == field
    assert bad.remedy


def test_actions_are_read_in_the_syntax_that_is_named(tmp_path: Path) -> None:
    chat = [{"role": "assistant", "content": "Look.\n```\nls\n```"}]
    path = write_lines(tmp_path / "a.jsonl", episode(traj=chat))
    assert next(read(path)).turns[0].actions == ()
    assert next(read(path, syntax="shell")).turns[0].actions[0].name == "ls"
