"""Exact arithmetic on a written expression: integers, + - * /, brackets. Nothing is handed to an interpreter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

__all__ = ["NotArithmetic", "evaluate", "tokens"]

_LONGEST = 500
_DEEPEST = 40
_TOKEN = re.compile(r"\s*(?:(\d{1,30})(?![\d.])|([-+*/()]))")
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "[": "(", "]": ")"})


class NotArithmetic(ValueError):
    """A text that is no expression of this kind, and why."""


def tokens(text: str) -> list[str]:
    """The numbers, signs and brackets of an expression.

    Raises:
        NotArithmetic: anything else stands there.

    Example:
        >>> tokens("(8 - 4) × 6")
        ['(', '8', '-', '4', ')', '*', '6']
    """
    plain = text.translate(_SIGNS).strip()
    if len(plain) > _LONGEST:
        raise NotArithmetic(f"longer than {_LONGEST} characters")
    found, at = [], 0
    while at < len(plain):
        match = _TOKEN.match(plain, at)
        if match is None:
            raise NotArithmetic(f"{plain[at:].strip()[:20]!r} is no number, sign or bracket")
        found.append(match[1] or match[2])
        at = match.end()
    return found


def evaluate(parts: Sequence[str]) -> Fraction:
    """The exact value of the tokens of an expression; a sign stands between two operands.

    Raises:
        NotArithmetic: an operand or a bracket is missing, brackets nest too deeply, or something is divided by zero.

    Example:
        >>> evaluate(tokens("8 / (3 - 8 / 3)"))
        Fraction(24, 1)
        >>> evaluate(tokens("4 / (2 - 2)"))
        Traceback (most recent call last):
            ...
        apportion.rewards.verifiers.arithmetic.NotArithmetic: division by zero
    """
    value, at = _sum(parts, 0, 0)
    if at != len(parts):
        raise NotArithmetic(f"{parts[at]!r} is out of place")
    return value


def _sum(parts: Sequence[str], at: int, depth: int) -> tuple[Fraction, int]:
    value, at = _product(parts, at, depth)
    while at < len(parts) and parts[at] in "+-":
        other, after = _product(parts, at + 1, depth)
        value = value + other if parts[at] == "+" else value - other
        at = after
    return value, at


def _product(parts: Sequence[str], at: int, depth: int) -> tuple[Fraction, int]:
    value, at = _operand(parts, at, depth)
    while at < len(parts) and parts[at] in "*/":
        other, after = _operand(parts, at + 1, depth)
        if parts[at] == "/" and not other:
            raise NotArithmetic("division by zero")
        value = value * other if parts[at] == "*" else value / other
        at = after
    return value, at


def _operand(parts: Sequence[str], at: int, depth: int) -> tuple[Fraction, int]:
    if at >= len(parts):
        raise NotArithmetic("an operand is missing at the end")
    if parts[at].isdigit():
        return Fraction(int(parts[at])), at + 1
    if parts[at] != "(" or depth >= _DEEPEST:
        raise NotArithmetic("brackets nest too deeply" if parts[at] == "(" else f"{parts[at]!r} is out of place")
    value, at = _sum(parts, at + 1, depth + 1)
    if at >= len(parts) or parts[at] != ")":
        raise NotArithmetic("a bracket is not closed")
    return value, at + 1
