"""`text_f1` and `text_equal`: answers in words, after a stated normalisation."""

from __future__ import annotations

import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.answers import Extract
from apportion.rewards.verifiers.answer import final_answer
from apportion.rewards.verifiers.base import TextVerifier, told
from apportion.verdicts import Scored, Verdict

__all__ = ["TextEqual", "TextF1", "normalised", "text_equal", "text_f1"]

Step: TypeAlias = Literal["case", "punctuation", "articles", "accents"]
Pieces: TypeAlias = Literal["words", "characters"]

SQUAD: tuple[Step, ...] = ("case", "punctuation", "articles")

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = frozenset({"a", "an", "the"})


def normalised(text: str, steps: Iterable[Step] = SQUAD) -> str:
    """A text after these steps; blanks are always folded.

    - case: upper and lower case are the same
    - punctuation: ASCII punctuation and symbols are removed, not replaced by blanks ("don't" is "dont")
    - articles: the words a, an, the are removed
    - accents: marks on letters are removed ("é" is "e")

    Whatever the order they are given in, accents go first, then case, punctuation, articles.

    Example:
        >>> normalised("The  Eiffel Tower!"), normalised("Café", ["accents"])
        ('eiffel tower', 'Cafe')
    """
    chosen = set(steps)
    plain = unicodedata.normalize("NFKC", text)
    if "accents" in chosen:
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    if "case" in chosen:
        plain = plain.casefold()
    if "punctuation" in chosen:
        plain = plain.translate(_PUNCTUATION)
    words = plain.split()
    if "articles" in chosen:
        words = [word for word in words if word.casefold() not in _ARTICLES]
    return " ".join(words)


@dataclass(frozen=True)
class _Texts(TextVerifier):
    steps: tuple[Step, ...]

    def gold_fault(self, gold: object) -> str | None:
        """A gold answer of which nothing is left after normalising would equal any silence."""
        options = _options(gold)
        if options and all(normalised(option, self.steps) for option in options):
            return None
        return f"{_arguments.excerpt(gold, 80)} holds an answer without words"


@dataclass(frozen=True)
class TextEqual(_Texts):
    """See `text_equal`."""

    def compare(self, gold: object, found: str) -> Verdict:
        """One of the gold texts, after the same steps."""
        options = _options(gold)
        given = normalised(found, self.steps)
        return told(any(given == normalised(one, self.steps) for one in options), found, " or ".join(options))


@dataclass(frozen=True)
class TextF1(_Texts):
    """See `text_f1`."""

    pieces: Pieces

    def compare(self, gold: object, found: str) -> Verdict:
        """The best overlap with any of the gold texts."""
        given = self._counted(found)
        options = [(self._f1(given, self._counted(option)), option) for option in _options(gold)]
        (value, common), best = max(options, key=lambda entry: entry[0][0])
        words = f"{common} of {given.total()} {self.pieces} in {_arguments.excerpt(best, 80)}"
        return Scored(value, f"overlap {value:.3g}: {words}, from {_arguments.excerpt(found, 80)}")

    def _counted(self, text: str) -> Counter[str]:
        plain = normalised(text, self.steps)
        return Counter(plain.split() if self.pieces == "words" else plain.replace(" ", ""))

    @staticmethod
    def _f1(given: Counter[str], gold: Counter[str]) -> tuple[float, int]:
        common = (given & gold).total()
        return 2 * common / (given.total() + gold.total()), common


def text_equal(*, normalise: Sequence[Step] = SQUAD, answer: Extract = final_answer) -> TextEqual:
    """For `outcome`: the answer is the reference text after normalising both.

        1 when normalised(answer) = normalised(reference), or any of several references; else 0

    Args:
        normalise: the steps, see `normalised`; the default are SQuAD's. An empty list only folds blanks.
        answer: takes the answer out of the policy's final text.

    Returns:
        A verifier that gives 1, or 0 with `wrong_answer` or `no_answer_found`; `Failed` with `gold_unparsable` when
        nothing is left of a reference.

    Raises:
        InvalidArgument: an unknown step.

    Example:
        >>> text_equal().verify(gold=["Paris", "City of Paris"], answer="Answer: the city of Paris.").value
        1.0
    """
    return TextEqual(answer, _steps(normalise))


def text_f1(*, normalise: Sequence[Step] = SQUAD, pieces: Pieces = "words", answer: Extract = final_answer) -> TextF1:
    """For `outcome`: how much of the reference text the answer has, and how little else.

        F1 = 2 common / (pieces of the answer + pieces of the reference),  pieces counted as a multiset

    Args:
        normalise: the steps, see `normalised`; the default are SQuAD's.
        pieces: "words" between blanks, or "characters" for scripts without blanks.
        answer: takes the answer out of the policy's final text.

    Returns:
        A verifier in [0, 1]: 1 for the reference itself, 0 without a common piece; of several references the best.
        `Failed` with `gold_unparsable` when nothing is left of a reference.

    Raises:
        InvalidArgument: an unknown option.

    Example:
        >>> text_f1().verify(gold="flights to Oslo", answer="find flights to Oslo")
        Scored(value=0.857..., evidence="overlap 0.857: 3 of 4 words in 'flights to Oslo', from 'find flights to Oslo'")
    """
    _arguments.choice("pieces", pieces, get_args(Pieces))
    return TextF1(answer, _steps(normalise), pieces)


def _steps(steps: Sequence[Step]) -> tuple[Step, ...]:
    if isinstance(steps, str):
        raise InvalidArgument("normalise", steps, f"a list of {', '.join(get_args(Step))}")
    for step in steps:
        _arguments.choice("normalise", step, get_args(Step))
    return tuple(steps)


def _options(gold: object) -> list[str]:
    if isinstance(gold, (str, int, float)) and not isinstance(gold, bool):
        return [str(gold)]
    if isinstance(gold, Iterable) and not isinstance(gold, (bytes, dict)):
        return [str(option) for option in gold]
    return []
