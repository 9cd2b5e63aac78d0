"""`game24`: the given numbers, each used once, make the target. A verifier that is exact and needs no gold answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from apportion.rewards import _arguments
from apportion.rewards.answers import Extract, last_line
from apportion.rewards.verifiers.arithmetic import NotArithmetic, evaluate, tokens
from apportion.rewards.verifiers.base import TextVerifier
from apportion.verdicts import Scored, Verdict

__all__ = ["Game24", "game24"]

_LABEL = re.compile(r"\s*(?:final )?(?:answer|solution)\s*:\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Game24(TextVerifier):
    """See `game24`."""

    target: int

    def gold_fault(self, gold: object) -> str | None:
        """The numbers of the puzzle are the gold side."""
        return None if _numbers(gold) else f"{_arguments.excerpt(gold, 80)} is no list of whole numbers"

    def compare(self, gold: object, found: str) -> Verdict:
        """What stands before the first equals sign, checked against the rules and the target."""
        label = _LABEL.match(found)
        expression = found[label.end() if label else 0 :].split("=", 1)[0].strip().strip("$*`").strip()
        shown = _arguments.excerpt(expression, 80)
        try:
            parts = tokens(expression)
            used = Counter(int(part) for part in parts if part.isdigit())
            given = Counter(_numbers(gold))
            if used != given:
                return Scored(0.0, f"wrong_numbers: {shown} uses {_listed(used)}, not {_listed(given)}")
            value = evaluate(parts)
        except NotArithmetic as reason:
            return Scored(0.0, f"answer_unparsable: {reason} in {shown}")
        if value != self.target:
            return Scored(0.0, f"wrong_answer: {shown} is {value}, not {self.target}")
        return Scored(1.0, f"right_answer: {shown} is {value}")


def game24(*, target: int = 24, answer: Extract = last_line) -> Game24:
    """For `outcome`: an expression over + - * / that uses every number of the reference once and makes the target.

        1 when {numbers used} = {numbers given} as multisets and value = target, exactly; else 0

    Values are fractions, so 8 / (3 - 8 / 3) is 24 and 23.99999 is not. A label "Answer:" in front and what follows an
    equals sign are not looked at: the expression counts, not what it is claimed to be. A sign in front of a number or
    two numbers written together are no part of the game.

    Args:
        target: what the expression has to make.
        answer: takes the expression out of the policy's final text.

    Returns:
        A verifier; the reference of a trajectory is its numbers, as a text ("4 5 6 10") or a list. It gives 1, or 0
        with `wrong_numbers`, `wrong_answer`, `answer_unparsable` or `no_answer_found`.

    Raises:
        InvalidArgument: a target that is no whole number.

    Example:
        >>> check = game24()
        >>> check.verify(gold="4 5 6 10", answer="Answer: (10 - 4) * 5 - 6 = 24")
        Scored(value=1.0, evidence="right_answer: '(10 - 4) * 5 - 6' is 24")
        >>> check.verify(gold=[4, 5, 6, 10], answer="(6 - 4) * (10 + 5 - 3)").evidence
        "wrong_numbers: '(6 - 4) * (10 + 5 - 3)' uses 3 4 5 6 10, not 4 5 6 10"
    """
    return Game24(answer, _arguments.whole("target", target, at_least=0))


def _numbers(gold: object) -> list[int]:
    if isinstance(gold, str):
        words = gold.replace(",", " ").split()
        return [int(word) for word in words] if words and all(_small(word) for word in words) else []
    if isinstance(gold, Iterable) and not isinstance(gold, (bytes, dict)):
        items = list(gold)
        return (
            items if all(isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in items) else []
        )
    return []


def _small(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 30


def _listed(numbers: Counter[int]) -> str:
    return " ".join(map(str, sorted(numbers.elements())))
