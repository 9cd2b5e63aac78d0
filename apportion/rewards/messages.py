"""Who said what between the policy's turns, as far as it was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from apportion.rewards.recorded import content_text
from apportion.rollouts import Trajectory

__all__ = ["Message", "Role", "messages_by_turn"]

# "unrecorded": not the policy's, but nobody wrote down whose.
Role: TypeAlias = Literal["policy", "user", "tool", "system", "unrecorded"]

_ROLES: Mapping[str, Role] = {
    "assistant": "policy",
    "user": "user",
    "human": "user",
    "tool": "tool",
    "function": "tool",
    "ipython": "tool",
    "system": "system",
    "developer": "system",
}


@dataclass(frozen=True, slots=True)
class Message:
    """One message between two actions.

    Attributes:
        role: who wrote it.
        text: what it says.
    """

    role: Role
    text: str


def messages_by_turn(trajectory: Trajectory) -> list[list[Message]]:
    """The messages before the first turn, then those of each turn: the policy's own text, and what answered it.

    Roles come from `Trajectory.messages` where these have one assistant message per turn. Elsewhere the answers are the
    turns' observations, and whether a user or a tool wrote them is unrecorded.

    Example:
        >>> from apportion.rollouts import Turn
        >>> chat = ({"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes?"})
        >>> messages_by_turn(Trajectory(id="r", group="q", turns=(Turn(text="yes?"),), messages=chat))
        [[Message(role='user', text='hi')], [Message(role='policy', text='yes?')]]
    """
    stretches = _stretches(trajectory.messages)
    opening = [_message(message) for message in stretches[0]]
    if len(stretches) == len(trajectory.turns) + 1:
        return [opening, *([_message(message) for message in stretch] for stretch in stretches[1:])]
    return [
        opening,
        *([Message("policy", turn.text), Message("unrecorded", turn.observation)] for turn in trajectory.turns),
    ]


def _stretches(messages: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    stretches: list[list[Mapping[str, Any]]] = [[]]
    for message in messages:
        if message.get("role") == "assistant":
            stretches.append([])
        stretches[-1].append(message)
    return stretches


def _message(message: Mapping[str, Any]) -> Message:
    role = message.get("role")
    return Message(_ROLES.get(role, "unrecorded") if isinstance(role, str) else "unrecorded", content_text(message))
