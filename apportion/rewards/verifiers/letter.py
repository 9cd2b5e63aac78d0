"""`choice_letter`: the option that a reply chooses in a multiple-choice question."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.answers import Extract
from apportion.rewards.verifiers.answer import final_answer
from apportion.rewards.verifiers.base import TextVerifier, told
from apportion.verdicts import Scored, Verdict

__all__ = ["ChoiceLetter", "choice_letter", "chosen"]

_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s?\{([^{}]*)\}")
_LEAD = re.compile(
    r"(?:the )?(?:(?:correct|right|best) )?(?:(?:option|choice|answer)s? )?(?:(?:is|are):? )?", re.IGNORECASE
)
# A letter alone, or cut off from what follows it: "A dog" chooses nothing.
_ONE = re.compile(r"\(?([A-Za-z])(?:\)|[.:]|\)\s?[.:]|\s-)?(?:(?<=[).:-])\s.*)?", re.DOTALL)
_SEVERAL = re.compile(r"\(?[A-Za-z]\)?(?:(?:, and |, ?| and | & | )\(?[A-Za-z]\)?)+\.?")
_ALTERNATIVE = re.compile(r"\b(?:or|either|maybe|perhaps)\b|/", re.IGNORECASE)


def chosen(answer: str, options: str) -> frozenset[str] | None:
    """The letters that an extracted answer chooses; `None` when it is not clear which.

    Example:
        >>> [chosen(text, "ABCD") for text in ("(B)", "b", "B) or C)", "A dog")] == [{"B"}, {"B"}, None, None]
        True
        >>> sorted(chosen("A, C and D", "ABCD"))
        ['A', 'C', 'D']
    """
    # With single blanks the patterns below have one way to match.
    plain = " ".join(_WRAPPED.sub(r"\1", answer).split()).strip(" $*`_'\"")
    plain = plain[_LEAD.match(plain).end() :].strip(" $*`_'\"")  # type: ignore[union-attr]
    if _SEVERAL.fullmatch(plain):
        letters = re.findall(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])", plain)
        found = frozenset(letter.upper() for letter in letters)
        return found if found <= set(options) else None
    one = _ONE.fullmatch(plain)
    if one is None or one[1].upper() not in options:
        return None
    rest = plain[one.end(1) :]
    names_another = any(letter in options for letter in re.findall(r"(?<![A-Za-z'])[A-Z](?![A-Za-z'])", rest))
    return None if names_another and _ALTERNATIVE.search(rest) else frozenset(one[1].upper())


@dataclass(frozen=True)
class ChoiceLetter(TextVerifier):
    """See `choice_letter`."""

    options: str

    def gold_fault(self, gold: object) -> str | None:
        """One or several of the options."""
        letters = _letters(gold)
        if letters and letters <= set(self.options):
            return None
        return f"{_arguments.excerpt(gold, 80)} is none of the options {self.options}"

    def compare(self, gold: object, found: str) -> Verdict:
        """The same set of letters."""
        letters = chosen(found, self.options)
        if letters is None:
            return Scored(0.0, f"no_answer_found: {_arguments.excerpt(found, 80)} chooses no single option")
        return told(letters == _letters(gold), "".join(sorted(letters)), "".join(sorted(_letters(gold))))


def choice_letter(*, options: str = "ABCD", answer: Extract = final_answer) -> ChoiceLetter:
    r"""For `outcome`: the option that the reply chooses is the reference.

        1 when {letters chosen} = {letters of the reference}; else 0

    "B", "(b)", "B) Oslo", "\text{B}" and "the answer is B." choose B. "A dog" chooses nothing, and "B or C" chooses
    nothing either: naming two where one is right does not pay.

    Args:
        options: the letters there are.
        answer: takes the answer out of the policy's final text; thinking is left out by default.

    Returns:
        A verifier; the reference is a letter, or several ("AC" or a list) of which all must be chosen. It gives 1, or 0
        with `wrong_answer` or `no_answer_found`; `Failed` with `gold_unparsable` for a reference that is no option.

    Raises:
        InvalidArgument: options that are not different capital letters.

    Example:
        >>> check = choice_letter()
        >>> check.verify(gold="B", answer="It lies in Norway.\nAnswer: (B) Oslo")
        Scored(value=1.0, evidence="right_answer: 'B'")
        >>> check.verify(gold="B", answer=r"\boxed{B} or \boxed{C}")
        Scored(value=0.0, evidence='no_answer_found (final_answer)')
    """
    letters = _arguments.text("options", options)
    if not re.fullmatch(r"[A-Z]+", letters) or len(set(letters)) != len(letters):
        raise InvalidArgument("options", options, "different capital letters, such as 'ABCD'")
    return ChoiceLetter(answer, options)


def _letters(gold: object) -> frozenset[str]:
    if isinstance(gold, str):
        return frozenset(letter.upper() for letter in re.sub(r"[\s,().]", "", gold))
    if isinstance(gold, Iterable) and not isinstance(gold, (bytes, dict)):
        return frozenset(str(letter).strip().upper() for letter in gold)
    return frozenset()
