"""Rows that hold one conversation as OpenAI-style messages, with a reward.

    {"task_id": 0, "trial": 2, "reward": 1.0, "info": {...}, "traj": [{"role": "system", "content": "..."}, ...]}

One turn is one assistant message; what follows it, up to the next one, is its observation. A message may have a reward
of its own: a turn's is the sum of those of its messages. No tokens are recorded in such a file, so credit is per turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from apportion.integrations.actions import Syntax, content_text, parse_actions
from apportion.integrations.files.ending import ending
from apportion.integrations.files.fields import FieldProblem, choose, identifier, integer, mapping, number
from apportion.rollouts import Trajectory, Turn

__all__ = ["CONVERSATIONS", "GROUPS", "Place", "from_row", "group_of", "reward_of"]

CONVERSATIONS = ("messages", "conversation", "conversations", "traj", "trajectory")
GROUPS = ("group", "group_id", "task_id", "prompt_id", "problem_id", "instance_id")
_IDS = ("id", "trajectory_id", "rollout_id")
_TRIALS = ("trial", "sample", "sample_id", "attempt")
_REWARDS = ("reward", "score")
_REFERENCES = ("reference", "ground_truth", "answer")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row comes from, and how the actions in it are written."""

    line: int
    stem: str
    syntax: Syntax


def from_row(row: Mapping[str, Any], place: Place) -> Iterator[Trajectory]:
    """The trajectory of one conversation; `FieldProblem` says what is wrong.

    The id is `id` (or `trajectory_id`, `rollout_id`), else the group with the trial, else the group with the line. The
    reward becomes the column "reward" as a float, None where it is null, and is absent where none was recorded. Every
    other field stays a column under its own name.
    """
    name = choose(row, CONVERSATIONS)
    if name is None:
        raise FieldProblem(CONVERSATIONS[0], "absent", f"give the messages as one of {', '.join(CONVERSATIONS)}")
    messages = _messages(row[name], name)
    status, error = ending(row)
    turns = _turns(messages, name, place.syntax)
    if not turns and error is None:
        remedy = 'record "error" if the rollout never started, or leave the row out'
        raise FieldProblem(name, "no message of the assistant, so the policy did nothing", remedy)
    group_name, group = group_of(row)
    id_name = choose(row, _IDS)
    gold_name = choose(row, _REFERENCES)
    step = row.get("step")
    taken = {name, group_name if group_name == "group" else "", id_name, gold_name, "step", "status", "error"}
    yield Trajectory(
        id=identifier(row[id_name], id_name) if id_name else _made_up_id(row, group, place),
        group=group,
        step=None if step is None else integer(step, "step"),
        status=status,
        error=error,
        reference=row[gold_name] if gold_name else _tau_bench_gold(row),
        turns=turns,
        messages=messages,
        columns={key: value for key, value in row.items() if key not in taken} | reward_of(row),
    )


def group_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Which field names the group of a row, and the group."""
    name = choose(row, GROUPS)
    if name is None:
        problem = "absent, and nothing but an id says which rollouts share a prompt"
        raise FieldProblem(GROUPS[0], problem, f"give one of {', '.join(GROUPS)}")
    return name, identifier(row[name], name)


def reward_of(row: Mapping[str, Any]) -> dict[str, float | None]:
    """The column "reward" of a row: empty where nothing was recorded."""
    name = next((name for name in _REWARDS if name in row), None)
    return {} if name is None else {"reward": number(row[name], name)}


def _made_up_id(row: Mapping[str, Any], group: str, place: Place) -> str:
    trial = choose(row, _TRIALS)
    return f"{group}-{identifier(row[trial], trial)}" if trial else f"{group}-line{place.line}"


def _tau_bench_gold(row: Mapping[str, Any]) -> dict[str, Any] | None:
    info = row.get("info")
    task = info.get("task") if isinstance(info, Mapping) else None
    if not isinstance(task, Mapping):
        return None
    return {name: task[name] for name in ("actions", "outputs") if name in task} or None


def _messages(value: Any, name: str) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list):
        raise FieldProblem(name, f"{type(value).__name__} is not a list", "give a list of messages")
    messages = tuple(mapping(item, f"{name}[{k}]") for k, item in enumerate(value))
    for k, message in enumerate(messages):
        if not isinstance(message.get("role"), str):
            raise FieldProblem(
                f"{name}[{k}].role", "absent or not text", 'give "assistant", "user", "tool" or "system"'
            )
        if not isinstance(message.get("content"), str | list | None):
            kind = type(message["content"]).__name__
            raise FieldProblem(f"{name}[{k}].content", f"{kind} is not text", "give text, a list of parts, or null")
    return messages


def _turns(messages: tuple[dict[str, Any], ...], name: str, syntax: Syntax) -> tuple[Turn, ...]:
    starts = [k for k, message in enumerate(messages) if message["role"] == "assistant"]
    return tuple(
        Turn(
            text=content_text(messages[start].get("content")),
            actions=parse_actions(messages[start], syntax),
            observation="\n".join(content_text(answer.get("content")) for answer in messages[start + 1 : stop]),
            reward=_paid([(f"{name}[{k}].reward", messages[k].get("reward")) for k in range(start, stop)]),
        )
        for start, stop in pairwise([*starts, len(messages)])
    )


def _paid(rewards: list[tuple[str, Any]]) -> float | None:
    """What the messages of one turn were paid; None where no message has a reward."""
    found = [value for field, given in rewards if (value := number(given, field)) is not None]
    return sum(found) if found else None
