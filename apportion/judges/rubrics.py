"""`Rubric`: weighted criteria, what a judge is asked about each, and what its answers are worth together.

value = sum_c w_c v_c / sum_{c: w_c > 0} w_c        v = 0 / 1, a scale brought to [0, 1], or the number of an option
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from apportion.errors import InvalidArgument
from apportion.judges.forms import Choice, Form, Number, Slot, checked_form
from apportion.rewards import _arguments

__all__ = ["Criterion", "Rubric", "choice", "points", "scale", "yes_no"]


@dataclass(frozen=True, slots=True)
class Criterion:
    """One question; made by `yes_no`, `scale` or `choice`.

    Attributes:
        name: letters, digits, dots and underscores.
        question: what the judge is asked.
        slot: what it may answer.
        weight: how much it counts; negative for what should not be there.
        worth: number of every option; None for a number.
        unit: a number as it is ("points"), or as its share of the way from lowest to highest ("share").
    """

    name: str
    question: str
    slot: Number | Choice
    weight: float = 1.0
    worth: Mapping[str, float] | None = None
    unit: Literal["share", "points"] = "share"

    def __post_init__(self) -> None:
        _arguments.text("question", self.question)
        _arguments.number(f"weight of {self.name}", self.weight)
        checked_form({self.name: self.slot})

    def value(self, answer: Any) -> float:
        """What an answer is worth, before the weight."""
        if self.worth is not None:
            return self.worth[answer]
        slot = self.slot
        if self.unit == "points" or not isinstance(slot, Number):
            return float(answer)
        return (float(answer) - slot.low) / (slot.high - slot.low)

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest value."""
        if self.worth is not None:
            return min(self.worth.values()), max(self.worth.values())
        if self.unit == "points" and isinstance(self.slot, Number):
            return float(self.slot.low), float(self.slot.high)
        return 0.0, 1.0


def yes_no(name: str, question: str, *, weight: float = 1.0) -> Criterion:
    """A question that is answered by yes (1) or no (0).

    Example:
        >>> yes_no("sound", "Is every step sound?").value("yes")
        1.0
    """
    return Criterion(name, question, Choice(("yes", "no")), weight, {"yes": 1.0, "no": 0.0})


def scale(name: str, question: str, *, low: float = 1, high: float = 5, weight: float = 1.0) -> Criterion:
    """A question that is answered by a whole number, brought to [0, 1].

    Example:
        >>> scale("clear", "How clear is it?").value(4)
        0.75
    """
    return Criterion(name, question, Number(low, high), weight)


def points(name: str, question: str, *, low: float = 1, high: float = 10, weight: float = 1.0) -> Criterion:
    """A question that is answered by a whole number, which stays what it is.

    Example:
        >>> points("score", "How good is it?").value(7)
        7.0
    """
    return Criterion(name, question, Number(low, high), weight, unit="points")


def choice(name: str, question: str, *, options: Mapping[str, float], weight: float = 1.0) -> Criterion:
    """A question that is answered by one of several words, each worth a number.

    Example:
        >>> choice("tone", "Which tone?", options={"warm": 1, "flat": 0.5, "rude": 0}).value("flat")
        0.5
    """
    worth = {str(option): _arguments.number(f"option {option}", number) for option, number in options.items()}
    return Criterion(name, question, Choice(tuple(worth)), weight, worth)


@dataclass(frozen=True, slots=True)
class Rubric:
    """Several criteria.

    Attributes:
        criteria: with different names; at least one weight is not 0.

    Degenerate cases: with no positive weight the divisor is the sum of the weights' sizes, and values are <= 0.

    Raises:
        InvalidArgument: no criteria, one name twice, or weights that are all 0: before any call is paid for.

    Example:
        >>> both = Rubric((yes_no("right", "Is it right?", weight=3), yes_no("rude", "Is it rude?", weight=-1)))
        >>> both.value({"right": "yes", "rude": "yes"}), both.bounds
        (0.6666666666666666, (-0.3333333333333333, 1.0))
    """

    criteria: tuple[Criterion, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "criteria", tuple(self.criteria))
        names = [criterion.name for criterion in self.criteria]
        if not names:
            raise InvalidArgument("criteria", names, "at least one criterion")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidArgument("criteria", names, f"different names ({', '.join(twice)} repeats)")
        if not any(criterion.weight for criterion in self.criteria):
            raise InvalidArgument(
                "criteria", dict.fromkeys(names, 0), "a weight other than 0 for at least one criterion"
            )

    @property
    def form(self) -> Form:
        """The slots of a verdict."""
        slots: dict[str, Slot] = {criterion.name: criterion.slot for criterion in self.criteria}
        return slots

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value."""
        low = high = 0.0
        for criterion in self.criteria:
            products = [criterion.weight * end for end in criterion.ends]
            low, high = low + min(products), high + max(products)
        return low / self._divisor, high / self._divisor

    @property
    def _divisor(self) -> float:
        positive = sum(criterion.weight for criterion in self.criteria if criterion.weight > 0)
        return positive or sum(abs(criterion.weight) for criterion in self.criteria)

    def value(self, answers: Mapping[str, Any]) -> float:
        """What the answers are worth together."""
        return sum(c.weight * c.value(answers[c.name]) for c in self.criteria) / self._divisor

    def questions(self) -> str:
        """The criteria as lines of a prompt; weights are not shown to the judge."""
        return "\n".join(f"- {c.name}: {c.question} ({c.slot.expects})" for c in self.criteria)

    def words(self, answers: Mapping[str, Any]) -> str:
        """The answers, criterion by criterion."""
        shown: Sequence[str] = [f"{c.name}={_short(answers[c.name])} (weight {c.weight:g})" for c in self.criteria]
        return ", ".join(shown)

    def digest(self) -> str:
        """Twelve hexadecimal digits over all criteria."""
        made = [asdict(c) for c in self.criteria]
        return hashlib.sha256(json.dumps(made, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _short(answer: Any) -> str:
    return f"{answer:g}" if isinstance(answer, float) else str(answer)
