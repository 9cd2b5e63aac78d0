"""What observing a trajectory yields: a score, an abstention, or a failure. Never a silent zero.

    Scored(value, evidence)   the policy earned this; includes everything the policy itself caused
    Abstained(reason)         the question does not apply here (a code reward on a maths task)
    Failed(error)             nobody knows: a judge that could not be parsed, a sandbox that did not start

In a sum of rewards an abstention adds nothing and a failure makes the sum unknown; before a baseline both leave
their group; after it both are neutral. Only what the policy cannot cause may be `Failed` or `Abstained`, otherwise a
policy learns to break its judge.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

from apportion.errors import InvalidArgument, shorten

__all__ = ["LARGEST", "Abstained", "Failed", "Presence", "Scored", "Verdict", "as_verdict", "presence"]


# The square of a larger number is infinite in float64: its group would divide by infinity and earn a quiet 0.
LARGEST = 1e150


class Presence(IntEnum):
    """What is known about one element of a `Signal`: a value, nothing to say, or nobody knows."""

    FAILED = 0
    ABSENT = 1
    KNOWN = 2


@dataclass(frozen=True, slots=True)
class Scored:
    """A finite number and the evidence a person can read.

    Example:
        >>> Scored(1.0, "3 of 3 checks passed").value
        1.0
        >>> Scored(float("nan"))
        Traceback (most recent call last):
            ...
        apportion.errors.InvalidArgument: value=nan: expected a finite number (use Failed(error) for an unknown one)
    """

    value: float
    evidence: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.value, (int, float)) or not abs(self.value) <= sys.float_info.max:
            raise InvalidArgument("value", self.value, "a finite number (use Failed(error) for an unknown one)")
        object.__setattr__(self, "value", float(self.value))
        _check_text("evidence", self.evidence)


@dataclass(frozen=True, slots=True)
class Abstained:
    """The reward does not apply; the reason is kept."""

    reason: str

    def __post_init__(self) -> None:
        _check_text("reason", self.reason)


@dataclass(frozen=True, slots=True)
class Failed:
    """Observing went wrong for a cause outside the policy; the error is kept as text."""

    error: str

    def __post_init__(self) -> None:
        _check_text("error", self.error)


def _check_text(argument: str, value: object) -> None:
    # Verdicts are stored and replayed: an exception or a mapping here would break the file at the end of a run.
    if not isinstance(value, str):
        raise InvalidArgument(argument, value, "text")


Verdict: TypeAlias = Scored | Abstained | Failed


def presence(verdict: Verdict) -> Presence:
    """The typed-missing state of a verdict.

    Example:
        >>> [presence(v).name for v in (Scored(0.0), Abstained("not maths"), Failed("timeout"))]
        ['KNOWN', 'ABSENT', 'FAILED']
    """
    if isinstance(verdict, Scored):
        return Presence.KNOWN
    return Presence.ABSENT if isinstance(verdict, Abstained) else Presence.FAILED


def as_verdict(value: Any, *, source: str) -> Verdict:
    """What a plain reward function returned, as a verdict.

    `None` is an abstention; a finite number (or bool, or NumPy/torch scalar) is a score; a verdict stays itself; NaN,
    an infinity, a number beyond `LARGEST`, or anything else is a failure that names `source`.

    Example:
        >>> as_verdict(True, source="exact_match")
        Scored(value=1.0, evidence='')
        >>> as_verdict(None, source="exact_match")
        Abstained(reason='exact_match returned None')
        >>> as_verdict(float("inf"), source="exact_match")
        Failed(error='exact_match returned inf, which is not a finite number')
    """
    if isinstance(value, (Scored, Abstained, Failed)):
        return value
    if value is None:
        return Abstained(f"{source} returned None")
    if isinstance(value, (str, bytes, bytearray)):
        return Failed(f"{source} returned the text {shorten(value)}, not a number")
    try:
        # A tensor that requires a gradient warns when it is read; a verdict is data and has none.
        value = value.detach() if hasattr(value, "detach") else value
        number = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return Failed(f"{source} returned {shorten(value)}, not a number")
    if not math.isfinite(number):
        return Failed(f"{source} returned {number}, which is not a finite number")
    if abs(number) > LARGEST:
        return Failed(f"{source} returned {number:g}, which is beyond {LARGEST:g}")
    return Scored(number)
