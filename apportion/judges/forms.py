"""What a verdict consists of: named slots, each with an exact range.

    form = {"score": Number(1, 10)}                       one score
    form = {"A": Number(1, 10), "B": Number(1, 10)}       all candidates of a group in one context
    form = {"correct": Choice(("yes", "no")), ...}        a rubric
    form = {"first_wrong": Turns(5, most=1)}              turns, by number
    form = {"supports": Edges(5)}                         pairs of turns

A slot reads one value from text or from JSON, and says what it expects, in a prompt and as a JSON schema. It never
clamps, rounds or guesses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments

__all__ = ["Choice", "Edges", "Form", "Number", "OutOfRange", "Slot", "Text", "Turns", "checked_form"]

Value: TypeAlias = Any

# ASCII digits only, without exponents: what is not written like a score is none.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,6})?")
_WHOLE = re.compile(r"[0-9]{1,6}")
_EDGE = re.compile(r"([0-9]{1,6})>([0-9]{1,6})")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,63}")


class OutOfRange(ValueError):
    """A well-formed value that the slot does not allow."""


class Slot(Protocol):
    """One part of a verdict. What cannot be read is a `ValueError`, or `OutOfRange` where only the range is wrong."""

    @property
    def quoted(self) -> bool:
        """Whether it stands in double quotes in a verdict line."""

    @property
    def expects(self) -> str:
        """What may stand there, for the prompt."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """The same as JSON schema."""

    def from_text(self, text: str) -> Value:
        """The value in a verdict line."""

    def from_json(self, value: Any) -> Value:
        """The value in a JSON reply."""


Form: TypeAlias = Mapping[str, Slot]


@dataclass(frozen=True, slots=True)
class Number:
    """A number within bounds, both allowed.

    Attributes:
        low: the lowest.
        high: the highest; more than `low`.
        step: "whole" numbers, or "any".

    Example:
        >>> Number(1, 10).from_text("7")
        7.0
        >>> Number(1, 10).from_text("85")
        Traceback (most recent call last):
            ...
        apportion.judges.forms.OutOfRange: 85 is outside [1, 10]
    """

    low: float
    high: float
    step: Literal["whole", "any"] = "whole"

    def __post_init__(self) -> None:
        low, high = _arguments.number("low", self.low), _arguments.number("high", self.high)
        if high <= low:
            raise InvalidArgument("high", self.high, f"more than low={self.low:g}")
        _arguments.choice("step", self.step, ("whole", "any"))

    quoted: ClassVar[bool] = False

    @property
    def expects(self) -> str:
        """In words."""
        return f"{'a whole number' if self.step == 'whole' else 'a number'} from {self.low:g} to {self.high:g}"

    @property
    def schema(self) -> Mapping[str, Any]:
        """As JSON schema."""
        kind = "integer" if self.step == "whole" else "number"
        return {"type": kind, "minimum": self.low, "maximum": self.high}

    def from_text(self, text: str) -> float:
        """The number."""
        if not _NUMBER.fullmatch(text) or (self.step == "whole" and "." in text):
            raise ValueError(f"{_arguments.excerpt(text, 60)} is not {self.expects}")
        return self._within(float(text), text)

    def from_json(self, value: Any) -> float:
        """The number; a text or a bool is none."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{_arguments.excerpt(value, 60)} is not {self.expects}")
        if self.step == "whole" and not isinstance(value, int):
            raise ValueError(f"{value} is not {self.expects}")
        return self._within(value, _arguments.excerpt(value, 40))

    def _within(self, value: float, shown: str) -> float:
        if not self.low <= value <= self.high:
            raise OutOfRange(f"{shown} is outside [{self.low:g}, {self.high:g}]")
        return float(value)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several words, written exactly so.

    Attributes:
        options: at least two, without blanks, semicolons and quotes.
    """

    options: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(self.options))
        fine = all(isinstance(o, str) and o and not re.search(r"[\s;=\"']", o) for o in self.options)
        if len(self.options) < 2 or len(set(self.options)) < len(self.options) or not fine:
            raise InvalidArgument("options", self.options, "at least two different words")

    quoted: ClassVar[bool] = False

    @property
    def expects(self) -> str:
        """In words."""
        return "one of " + ", ".join(self.options)

    @property
    def schema(self) -> Mapping[str, Any]:
        """As JSON schema."""
        return {"enum": list(self.options)}

    def from_text(self, text: str) -> str:
        """The word."""
        if text not in self.options:
            raise ValueError(f"{_arguments.excerpt(text, 60)} is not {self.expects}")
        return text

    def from_json(self, value: Any) -> str:
        """The word."""
        if not isinstance(value, str):
            raise ValueError(f"{_arguments.excerpt(value, 60)} is not {self.expects}")
        return self.from_text(value)


@dataclass(frozen=True, slots=True)
class Turns:
    """Numbers of turns, from 0; "none" for none of them.

    Attributes:
        turns: how many there are.
        most: how many may be named.
    """

    turns: int
    most: int = 1_000

    quoted: ClassVar[bool] = False

    @property
    def expects(self) -> str:
        """In words."""
        few = "one turn number" if self.most == 1 else "turn numbers separated by commas"
        return f"{few} from 0 to {self.turns - 1}, or none"

    @property
    def schema(self) -> Mapping[str, Any]:
        """As JSON schema."""
        one = {"type": "integer", "minimum": 0, "maximum": max(self.turns - 1, 0)}
        return {"type": "array", "items": one, "maxItems": self.most}

    def from_text(self, text: str) -> tuple[int, ...]:
        """The numbers, in the order given."""
        if text == "none":
            return ()
        parts = text.split(",")
        if not all(_WHOLE.fullmatch(part) for part in parts):
            raise ValueError(f"{_arguments.excerpt(text, 60)} is not {self.expects}")
        return self._within([int(part) for part in parts])

    def from_json(self, value: Any) -> tuple[int, ...]:
        """The numbers, in the order given."""
        if not isinstance(value, list) or not all(isinstance(k, int) and not isinstance(k, bool) for k in value):
            raise ValueError(f"{_arguments.excerpt(value, 60)} is no list of turn numbers")
        return self._within(value)

    def _within(self, numbers: list[int]) -> tuple[int, ...]:
        bad = [k for k in numbers if not 0 <= k < self.turns]
        if bad:
            raise OutOfRange(f"there is no turn {_arguments.excerpt(bad[0], 40)}; turns go from 0 to {self.turns - 1}")
        if len(numbers) > self.most:
            raise OutOfRange(f"{len(numbers)} turns named, at most {self.most} allowed")
        return tuple(numbers)


@dataclass(frozen=True, slots=True)
class Edges:
    """Pairs of turns "i>j" with i < j; "none" for no pair.

    Attributes:
        turns: how many turns there are.
        most: how many pairs may be named.
    """

    turns: int
    most: int = 1_000

    quoted: ClassVar[bool] = False

    @property
    def expects(self) -> str:
        """In words."""
        return f"pairs like 0>2 separated by commas, earlier turn first, from 0 to {self.turns - 1}, or none"

    @property
    def schema(self) -> Mapping[str, Any]:
        """As JSON schema."""
        one = {"type": "integer", "minimum": 0, "maximum": max(self.turns - 1, 0)}
        pair = {"type": "array", "items": one, "minItems": 2, "maxItems": 2}
        return {"type": "array", "items": pair, "maxItems": self.most}

    def from_text(self, text: str) -> tuple[tuple[int, int], ...]:
        """The pairs, in the order given."""
        if text == "none":
            return ()
        found = [_EDGE.fullmatch(part) for part in text.split(",")]
        if not all(found):
            raise ValueError(f"{_arguments.excerpt(text, 60)} is not {self.expects}")
        return self._within([(int(one[1]), int(one[2])) for one in found if one])

    def from_json(self, value: Any) -> tuple[tuple[int, int], ...]:
        """The pairs, in the order given."""
        if not isinstance(value, list) or not all(_is_pair(one) for one in value):
            raise ValueError(f"{_arguments.excerpt(value, 60)} is no list of pairs of turns")
        return self._within([(one[0], one[1]) for one in value])

    def _within(self, pairs: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        bad = [f"{i}>{j}" for i, j in pairs if not 0 <= i < j < self.turns]
        if bad:
            raise OutOfRange(f"{_arguments.excerpt(bad[0], 40)} is no pair of an earlier and a later turn")
        if len(pairs) > self.most:
            raise OutOfRange(f"{len(pairs)} pairs named, at most {self.most} allowed")
        return tuple(pairs)


@dataclass(frozen=True, slots=True)
class Text:
    """A short text, in double quotes as JSON writes it; read, never counted.

    Attributes:
        most: its longest length, in characters.
    """

    most: int = 500

    quoted: ClassVar[bool] = True

    @property
    def expects(self) -> str:
        """In words."""
        return f'a text of at most {self.most} characters in "double quotes"'

    @property
    def schema(self) -> Mapping[str, Any]:
        """As JSON schema."""
        return {"type": "string", "maxLength": self.most}

    def from_text(self, text: str) -> str:
        """The text; what the quotes hold was read by the grammar."""
        return self.from_json(text)

    def from_json(self, value: Any) -> str:
        """The text."""
        if not isinstance(value, str):
            raise ValueError(f"{_arguments.excerpt(value, 60)} is no text")
        if len(value) > self.most:
            raise OutOfRange(f"{len(value)} characters, at most {self.most} allowed")
        return value


def checked_form(form: Form) -> Form:
    """`form`, or `InvalidArgument`: no slots, or names that a verdict line cannot hold.

    Example:
        >>> list(checked_form({"A": Number(1, 10), "B": Number(1, 10)}))
        ['A', 'B']
    """
    bad = [name for name in form if not isinstance(name, str) or not _NAME.fullmatch(name)]
    if not form or bad:
        raise InvalidArgument("form", bad or form, "at least one slot, named by letters, digits, dots and underscores")
    return form


def _is_pair(one: Any) -> bool:
    whole = isinstance(one, list) and len(one) == 2
    return whole and all(isinstance(k, int) and not isinstance(k, bool) for k in one)
