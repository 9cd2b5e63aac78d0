"""`Finding`: something a person should know about a set of rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

__all__ = ["SEVERITIES", "Finding", "Severity"]

Severity: TypeAlias = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


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
    """

    code: str
    severity: Severity
    message: str
    count: int
    examples: tuple[str, ...] = ()
    advice: str
