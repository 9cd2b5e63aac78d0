"""`Finding`: something a person should know about a set of rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

__all__ = ["SEVERITIES", "Finding", "Place", "Severity"]

Severity: TypeAlias = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a rollout's tokens something was found.

    Attributes:
        trajectory: its id.
        turn: the reply, counted from 0; None for the prompt.
        index: the token, counted over prompt and response together; None where no single one is meant.
        recorded: the tokens around it, readable.
        instead: the tokens that a second rendering or encoding has there; "" when there are none to compare.
    """

    trajectory: str
    turn: int | None
    index: int | None
    recorded: str
    instead: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something a person should know about the rollouts.

    Attributes:
        code: stable name, for filters and scripts.
        severity: "error" (training on this learns something wrong), "warning" (probably) or "info".
        message: what was found, with its numbers.
        count: how many rollouts, groups or steps it concerns.
        examples: ids of the first few.
        advice: what to do.
        places: the first few tokens that it concerns, for findings about tokens.
    """

    code: str
    severity: Severity
    message: str
    count: int
    examples: tuple[str, ...] = ()
    advice: str
    places: tuple[Place, ...] = ()
