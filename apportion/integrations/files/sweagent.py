"""A SWE-agent run: one `.traj` document with its steps, the chat history, and how it ended.

    {"environment": "...", "trajectory": [{"action": "ls", "observation": "...", "response": "..."}, ...],
     "history": [...], "info": {"exit_status": "submitted", ...}}

SWE-agent records no reward: the trajectory has the column "reward" only where `info` (or the document) gives one. The
column "submitted" says whether the agent handed in an answer, which is no judgement of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from apportion.integrations.actions import shell_command
from apportion.integrations.files.ending import recorded_error
from apportion.integrations.files.fields import FieldProblem, choose, identifier, mapping, number, text
from apportion.integrations.files.messages import Place
from apportion.rollouts import Status, Trajectory, Turn

__all__ = ["from_row"]

_IDS = ("instance_id", "id")
_REWARDS = ("reward", "score", "resolved")
_STEP_FIELDS = ("action", "observation", "response")
# A run that hits a limit is submitted as it stands, e.g. "submitted (exit_cost)".
_EXIT = re.compile(r"exit_\w++")
_LIMITS = frozenset({"exit_context", "exit_cost", "exit_total_execution_time"})
_INFRASTRUCTURE = frozenset({"exit_api", "exit_environment_error", "exit_error"})


def from_row(row: Mapping[str, Any], place: Place) -> Iterator[Trajectory]:
    """The trajectory of a run; `FieldProblem` says what is wrong.

    Group and id are the instance, which the file is named after. Each step is a turn with one action, the command.
    """
    if "trajectory" not in row:
        problem = "absent: a history alone is a demonstration, not a rollout"
        raise FieldProblem("trajectory", problem, "give the .traj file that a run of the agent wrote")
    steps = row["trajectory"]
    if not isinstance(steps, list):
        raise FieldProblem("trajectory", f"{type(steps).__name__} is not a list", "give a list of steps")
    info = mapping(row.get("info") or {}, "info")
    history = row.get("history") or []
    if not isinstance(history, list):
        raise FieldProblem("history", f"{type(history).__name__} is not a list", "give a list of messages")
    status, error = _ending(row, info)
    if not steps and status != "aborted":
        raise FieldProblem("trajectory", "no steps, so the policy did nothing", "leave the file out")
    id_name = choose(row, _IDS)
    instance = identifier(row[id_name], id_name) if id_name else place.stem
    yield Trajectory(
        id=instance,
        group=instance,
        status=status,
        error=error,
        turns=tuple(_turn(step, f"trajectory[{k}]") for k, step in enumerate(steps)),
        messages=tuple(mapping(message, f"history[{k}]") for k, message in enumerate(history)),
        columns={key: value for key, value in row.items() if key not in ("trajectory", "history", "error")}
        | {"submitted": str(info.get("exit_status", "")).startswith("submitted")}
        | _reward(row, info),
    )


def _turn(data: Any, where: str) -> Turn:
    step = mapping(data, where)
    action = text(step.get("action") or "", f"{where}.action")
    return Turn(
        text=text(step.get("response") or "", f"{where}.response"),
        actions=(shell_command(action),) if action.strip() else (),
        observation=text(step.get("observation") or "", f"{where}.observation"),
        columns={key: value for key, value in step.items() if key not in _STEP_FIELDS},
    )


def _ending(row: Mapping[str, Any], info: Mapping[str, Any]) -> tuple[Status, str | None]:
    error = recorded_error(row)
    if error is not None:
        return "aborted", error
    exit_status = info.get("exit_status")
    if not isinstance(exit_status, str) or not exit_status:
        return "aborted", "no exit status was recorded: the run did not end"
    reasons = set(_EXIT.findall(exit_status))
    if reasons & _INFRASTRUCTURE:
        return "aborted", exit_status
    return ("truncated" if reasons & _LIMITS else "terminated"), None


def _reward(row: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, float | None]:
    for source, prefix in ((info, "info."), (row, "")):
        name = next((name for name in _REWARDS if name in source), None)
        if name is not None:
            return {"reward": number(source[name], prefix + name)}
    return {}
