"""How a recorded rollout ended: three different things that producers spell in many ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.errors import shorten
from apportion.integrations.files.fields import FieldProblem, as_text
from apportion.rollouts import Status

__all__ = ["ending", "recorded_error"]

_STATUSES: Mapping[str, Status] = {
    "terminated": "terminated",
    "completed": "terminated",
    "finished": "terminated",
    "truncated": "truncated",
    "aborted": "aborted",
}
_FINISH_REASONS: Mapping[str, Status] = {
    "length": "truncated",
    "max_tokens": "truncated",
    "max_turns": "truncated",
    "abort": "aborted",
    "error": "aborted",
}


def recorded_error(row: Mapping[str, Any]) -> str | None:
    """What the infrastructure reported: `error` of the row, or of its `info` or `state`; empty ones do not count."""
    for place in (row, row.get("info"), row.get("state")):
        if isinstance(place, Mapping) and place.get("error"):
            return as_text(place["error"])
    return None


def ending(row: Mapping[str, Any]) -> tuple[Status, str | None]:
    """Status and error of a row.

    The first that applies: an error was recorded (aborted); `status`; `truncated` is true; `finish_reason` names a
    limit or an abort; `info.reward_info` is there but null, which tau-bench leaves when its turn limit ends an episode
    before anything was judged (truncated). Anything else terminated.

    Raises:
        FieldProblem: a `status` of another name, because counting it as an ordinary end would be a guess.

    Example:
        >>> ending({"reward": 0.0, "info": {"reward_info": None}})
        ('truncated', None)
        >>> ending({"reward": 0.0, "error": "SandboxError"})
        ('aborted', 'SandboxError')
    """
    error = recorded_error(row)
    if error is not None:
        return "aborted", error
    status = row.get("status")
    if status is not None:
        if not isinstance(status, str) or status not in _STATUSES:
            raise FieldProblem("status", f"{shorten(status)} is not known", f"use one of {', '.join(_STATUSES)}")
        return _STATUSES[status], None
    if row.get("truncated") is True:
        return "truncated", None
    reason, info = row.get("finish_reason"), row.get("info")
    if isinstance(reason, str) and reason in _FINISH_REASONS:
        return _FINISH_REASONS[reason], None
    unjudged = isinstance(info, Mapping) and "reward_info" in info and info["reward_info"] is None
    return ("truncated" if unjudged else "terminated"), None
