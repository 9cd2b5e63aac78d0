"""Checks of arguments that several rewards share: each names the argument, the value and what would be right."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from apportion.errors import InvalidArgument, shorten
from apportion.rollouts import Level


def number(argument: str, value: object, *, at_least: float | None = None, at_most: float | None = None) -> float:
    """`value` as a finite float inside the bounds, or `InvalidArgument`."""
    bounds = []
    if at_least is not None:
        bounds.append(f">= {at_least:g}")
    if at_most is not None:
        bounds.append(f"<= {at_most:g}")
    expected = "a finite number" + (f" {' and '.join(bounds)}" if bounds else "")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        raise InvalidArgument(argument, value, expected)
    if (at_least is not None and value < at_least) or (at_most is not None and value > at_most):
        raise InvalidArgument(argument, value, expected)
    return float(value)


def whole(argument: str, value: object, *, at_least: int) -> int:
    """`value` as an int that is at least `at_least`, or `InvalidArgument`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise InvalidArgument(argument, value, f"a whole number >= {at_least}")
    return value


def choice(argument: str, value: object, options: Iterable[str]) -> None:
    """Raises `InvalidArgument` unless `value` is one of the named options."""
    listed = tuple(options)
    if value not in listed:
        raise InvalidArgument(argument, value, f"one of {', '.join(repr(option) for option in listed)}")


def text(argument: str, value: object) -> str:
    """`value` as a non-empty string, or `InvalidArgument`."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(argument, value, "a non-empty string")
    return value


def observable_level(argument: str, value: object) -> Level:
    """`value` as a level that a reward can have, or `InvalidArgument`."""
    if value is not Level.TRAJECTORY and value is not Level.TURN:
        raise InvalidArgument(argument, value, "Level.TRAJECTORY or Level.TURN")
    return Level(value)


def excerpt(content: object, limit: int = 200) -> str:
    """Text from a rollout, quoted and cut, so that evidence stays readable and one hostile row cannot flood a log."""
    try:
        return shorten(content[: limit * 2] if isinstance(content, str) else content, limit)
    except RecursionError:
        return f"{type(content).__name__}, nested too deeply to show"


def brief(evidence: str, limit: int = 300) -> str:
    """Evidence of a part, cut for use inside the evidence of the whole."""
    return evidence if len(evidence) <= limit else f"{evidence[: limit - 1]}…"
