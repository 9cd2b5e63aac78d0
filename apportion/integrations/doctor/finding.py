"""One thing that the doctor found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Finding", "Severity"]

Severity: TypeAlias = Literal["error", "warning", "fine"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found, and what to do about it.

    Attributes:
        severity: "error" where a run would fail or train something else than was asked; "fine" for what was checked.
        about: what was looked at: a package, a process, a key of a configuration.
        message: what is so.
        remedy: what to do; "" where there is nothing to do.
        details: the whole of it, such as a traceback.
    """

    severity: Severity
    about: str
    message: str
    remedy: str = ""
    details: str = ""
