"""Rows that hold one prompt with its replies and their rewards: a row is a whole group.

{"group": "p7", "prompt": "4 5 6 10", "replies": ["...", "..."], "rewards": [0, 1]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apportion.integrations.actions import parse_actions
from apportion.integrations.files.ending import ending
from apportion.integrations.files.fields import FieldProblem, choose, integer, number, text
from apportion.integrations.files.messages import GROUPS, Place, group_of
from apportion.rollouts import Trajectory, Turn

__all__ = ["REPLIES", "from_row"]

REPLIES = ("replies", "completions", "responses")
_REWARDS = ("rewards", "scores")
_REFERENCES = ("reference", "ground_truth", "answer")
# Recorded once per reply, and known to a trajectory under the name on the right.
_PER_REPLY = {"finish_reasons": "finish_reason", "errors": "error"}


def from_row(row: Mapping[str, Any], place: Place) -> Iterator[Trajectory]:
    """One trajectory per reply, of a single turn; `FieldProblem` says what is wrong.

    Ids are the group with the position of the reply. A row without a group field is a group of its own. Fields of the
    row become columns of each of its trajectories.
    """
    name = choose(row, REPLIES)
    if name is None:
        raise FieldProblem(REPLIES[0], "absent", f"give the replies as one of {', '.join(REPLIES)}")
    replies = _per_reply(row, name)
    group_name, group = group_of(row) if choose(row, GROUPS) else ("", f"line{place.line}")
    reward_name = next((key for key in _REWARDS if key in row), None)
    rewards = _per_reply(row, reward_name, len(replies)) if reward_name else None
    extra = {single: _per_reply(row, many, len(replies)) for many, single in _PER_REPLY.items() if many in row}
    gold_name = choose(row, _REFERENCES)
    step = row.get("step")
    taken = {name, reward_name, gold_name, group_name if group_name == "group" else "", "step", *_PER_REPLY}
    shared = {key: value for key, value in row.items() if key not in taken}
    for k, reply in enumerate(replies):
        written = text(reply, f"{name}[{k}]")
        own = {single: values[k] for single, values in extra.items() if values[k] is not None}
        status, error = ending(own)
        own.pop("error", None)
        reward = {} if rewards is None else {"reward": number(rewards[k], f"{reward_name}[{k}]")}
        yield Trajectory(
            id=f"{group}-{k}",
            group=group,
            step=None if step is None else integer(step, "step"),
            status=status,
            error=error,
            reference=row[gold_name] if gold_name else None,
            turns=(Turn(text=written, actions=parse_actions(written, place.syntax)),),
            columns=shared | own | reward,
        )


def _per_reply(row: Mapping[str, Any], name: str, count: int | None = None) -> list[Any]:
    values = row[name]
    if not isinstance(values, list) or not values:
        raise FieldProblem(name, "not a list with at least one entry", "give one entry per reply")
    if count is not None and len(values) != count:
        raise FieldProblem(
            name, f"{len(values)} entries for {count} replies", "give one entry per reply, null if unknown"
        )
    return values
