"""When two mathematical values are the same, and the verdict on an answer. Runs in a worker process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from apportion._extras import require
from apportion.rewards.verifiers.maths_text import Unreadable
from apportion.rewards.verifiers.maths_values import Leaf, Many, Real, Row, Value, read, real_members

__all__ = ["Inequalities", "Percent", "Rules", "judged", "same"]

Percent: TypeAlias = Literal["strict", "bare"]
Inequalities: TypeAlias = Literal["refuse", "accept"]


@dataclass(frozen=True)
class Rules:
    """What counts as the same where that is a matter of choice; see `maths`."""

    percent: Percent = "strict"
    inequalities: Inequalities = "refuse"
    decimals: int = 6


def judged(*, gold: str | Sequence[str], answer: str, **rules: Any) -> dict[str, str]:
    """The verdict as plain data: `status` is "right", "wrong", "gold_unparsable" or "answer_unparsable".

    Args:
        gold: a text, or several values in no order.
        answer: the extracted answer.
        rules: the fields of `Rules`.
    """
    chosen = Rules(**rules)
    try:
        wanted = read(gold) if isinstance(gold, str) else Many(tuple(read(part) for part in gold))
    except Unreadable as reason:
        return {"status": "gold_unparsable", "note": str(reason)}
    try:
        given = read(answer)
    except Unreadable as reason:
        return {"status": "answer_unparsable", "note": str(reason)}
    return {"status": "right" if same(gold=wanted, answer=given, rules=chosen) else "wrong", "note": ""}


def same(*, gold: Value, answer: Value, rules: Rules) -> bool:
    """True when the answer is what the gold answer says.

    Several values are equal as sets, rows in order and with the same brackets. A pair between brackets is an interval
    where the other side is a set of reals.
    """
    if isinstance(gold, Many) or isinstance(answer, Many):
        golds, answers = _items(gold), _items(answer)
        return all(any(same(gold=g, answer=a, rules=rules) for a in answers) for g in golds) and all(
            any(same(gold=g, answer=a, rules=rules) for g in golds) for a in answers
        )
    if isinstance(gold, Leaf) and isinstance(answer, Leaf):
        return _same_leaf(gold, answer, rules)
    if isinstance(gold, Row) and isinstance(answer, Row):
        return (gold.opening, gold.closing, len(gold.items)) == (
            answer.opening,
            answer.closing,
            len(answer.items),
        ) and all(same(gold=g, answer=a, rules=rules) for g, a in zip(gold.items, answer.items, strict=True))
    if isinstance(gold, Leaf) or isinstance(answer, Leaf):
        return False
    restated = isinstance(answer, Real) and answer.inequality and not (isinstance(gold, Real) and gold.inequality)
    if restated and rules.inequalities == "refuse":
        return False
    try:
        wanted, given = real_members(gold), real_members(answer)
    except Unreadable:
        return False
    return bool(wanted == given or wanted.symmetric_difference(given).is_empty)


def _items(value: Value) -> tuple[Value, ...]:
    return value.items if isinstance(value, Many) else (value,)


def _same_leaf(gold: Leaf, answer: Leaf, rules: Rules) -> bool:
    if gold.unit and answer.unit and gold.unit != answer.unit:
        return False
    if gold.name and answer.name and gold.name != answer.name:
        return False
    if gold.percent and not answer.percent and rules.percent == "bare" and answer.exact is not None:
        return gold.exact is not None and answer.exact in (gold.exact, gold.exact * 100)
    if gold.exact is not None and answer.exact is not None:
        return gold.exact == answer.exact or _rounded(gold.expression, answer, rules)
    if _rounded(gold.expression, answer, rules):
        return True
    verify = require("math_verify", extra="math").verify
    # The process around this is the time limit: the library's own uses signals.
    return bool(
        verify(gold.expression, answer.expression, float_rounding=rules.decimals, strict=True, timeout_seconds=None)
    )


def _rounded(gold: Any, answer: Leaf, rules: Rules) -> bool:
    """A decimal fraction that is the gold value rounded, to enough places, where no decimal fraction is exact."""
    if not answer.decimal or answer.exact is None or not gold.is_number or _terminates(gold):
        return False
    scale = 10**rules.decimals
    difference = abs(gold.evalf(30) - answer.expression)
    return bool(difference.is_comparable and difference * 2 * scale <= 1)


def _terminates(gold: Any) -> bool:
    if not gold.is_Rational:
        return False
    rest = Fraction(int(gold.p), int(gold.q)).denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1
