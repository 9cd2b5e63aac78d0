"""Regular expressions over text that a policy wrote: what could run for ever is refused, long text is windowed.

The pattern comes from a recipe, the text from a rollout that may be made to hurt. Backtracking over d unbounded repeats
costs about n^(d+1) steps on n characters (the + 1 is the search for a start), times the ways to choose what else is
optional, and exponentially many when repeats nest.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments

__all__ = ["Pattern"]

# The standard library's own reading of a pattern; only its node names and fields are used.
_parser: Any = importlib.import_module("re._parser")

# By number of unbounded repeats: the longest and the shortest window, and the steps that one text may cost.
_WINDOWS = ((20_000, 20_000), (10_000, 600), (600, 50))
_STEPS = 200_000_000
# By the same number: how often bounded repeats, options and alternatives may multiply.
_WAYS = (2_000, 32, 4)
# A bounded repeat up to this count may stand inside a repeated group, and one up to the other is not worth counting.
_SMALL = 3
_BOUNDED = 32


@dataclass(frozen=True, slots=True)
class Pattern:
    r"""A regular expression that is safe to search for in hostile text.

    Texts up to a window (10,000 characters with one unbounded repeat, 600 with two) are searched whole; longer ones in
    windows that overlap by half, so padding hides nothing; there, only matches up to half a window long are sure to be
    found. The longer the text, the shorter the windows, down to 600 and 50 characters.

    Attributes:
        source: the expression, in the syntax of `re`.
        compiled: the same, compiled.
        repeats: how many unbounded repeats there are.
        ways: in how many ways the rest can be chosen.

    Raises:
        InvalidArgument: an expression that does not compile, a repeated group that holds a repeat or an alternative
            (exponential), more than two unbounded repeats, or options that multiply to more
            than 2,000 ways (32 beside one unbounded repeat, 4 beside two).

    Example:
        >>> Pattern(r"--force\b").found_in("git push " + " " * 50_000 + "--force")
        True
        >>> Pattern(r"(a+)+$")
        Traceback (most recent call last):
            ...
        apportion.errors.InvalidArgument: matches='(a+)+$': expected a pattern whose repeated groups hold no repeat ...
    """

    source: str
    compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)
    repeats: int = field(init=False, repr=False, compare=False)
    ways: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _arguments.text("matches", self.source)
        try:
            object.__setattr__(self, "compiled", re.compile(self.source))
        except re.error as error:
            raise InvalidArgument("matches", self.source, f"a regular expression ({error})") from None
        unbounded, nested = _repeats(self.source)
        if nested:
            raise InvalidArgument(
                "matches",
                self.source,
                "a pattern whose repeated groups hold no repeat and no alternative (such patterns may run for ever)",
            )
        if unbounded >= len(_WINDOWS):
            raise InvalidArgument(
                "matches",
                self.source,
                f"at most {len(_WINDOWS) - 1} unbounded repeats (got {unbounded}): split it and join the parts with &",
            )
        ways = _ways(_parser.parse(self.source))
        if ways > _WAYS[unbounded]:
            raise InvalidArgument(
                "matches",
                self.source,
                f"options, bounded repeats and alternatives in at most {_WAYS[unbounded]:,} combinations: split it",
            )
        object.__setattr__(self, "repeats", unbounded)
        object.__setattr__(self, "ways", ways)

    def window(self, length: int) -> int:
        """How much of a text of that length is searched at once."""
        longest, shortest = _WINDOWS[self.repeats]
        if not self.repeats:
            return longest
        most = (_STEPS / (max(length, 1) * self.ways)) ** (1 / self.repeats)
        return int(min(longest, max(shortest, most)))

    def found_in(self, text: str) -> bool:
        """True when the pattern matches somewhere in `text`."""
        window = self.window(len(text))
        if len(text) <= window:
            return self.compiled.search(text) is not None
        for start in range(0, len(text) - window // 2, window // 2):
            stop = min(start + window, len(text))
            match = self.compiled.search(text, start, stop)
            # A match that ends where the window was cut may owe that to the cut ($, look-ahead); the next one decides.
            if match is not None and (match.end() < stop or stop == len(text)):
                return True
        return False


def _ways(items: Iterable[tuple[Any, Any]]) -> int:
    """In how many ways the optional parts of a parsed pattern can be chosen, unbounded repeats aside; capped."""
    total = 1
    for operator, value in items:
        name = str(operator)
        if name == "BRANCH":
            branches = [list(branch) for branch in value[1]]
            counts = [_ways(branch) for branch in branches]
            heads = [branch[0] for branch in branches if branch and str(branch[0][0]) == "LITERAL"]
            # The first letter tells which one it is.
            total *= max(counts) if len(set(heads)) == len(branches) else sum(counts)
        elif name.endswith("_REPEAT"):
            least, most, inner = value
            each = _ways(inner)
            times = min(most, _BOUNDED)
            total *= each**times * (1 if most > _BOUNDED else most - least + 1)
        elif name == "SUBPATTERN":
            total *= _ways(value[3])
        elif name in ("ASSERT", "ASSERT_NOT"):
            total *= _ways(value[1])
        elif name == "ATOMIC_GROUP":
            total *= _ways(value)
        elif name == "GROUPREF_EXISTS":
            total *= _ways(value[1]) + _ways(value[2] or ())
        total = min(total, _WAYS[0] + 1)
    return total


def _repeats(source: str) -> tuple[int, bool]:
    """How many long repeats a pattern has, and whether a repeated group holds a repeat, an option or an alternative."""
    unbounded, nested = 0, False
    # Whether each open group, and the group that was closed last, can match one text in several ways.
    risky: list[bool] = [False]
    closed: bool | None = None
    at = 0
    while at < len(source):
        char = source[at]
        was, closed = closed, None
        if char == "\\":
            at += 2
        elif char == "[":
            at = _after_class(source, at)
        elif char == "(":
            risky.append(False)
            at += 1
        elif char == ")":
            closed = risky.pop()
            risky[-1] = risky[-1] or closed
            at += 1
        elif char == "|" or (char == "?" and source[at - 1 : at] != "("):
            risky[-1] = True
            at += 1
        elif repeat := re.compile(r"[*+]|\{(\d*),?(\d*)\}").match(source, at):
            endless = char in "*+" or ("," in repeat.group() and not repeat[2])
            most = _BOUNDED + 1 if endless else int(repeat[2] or repeat[1] or 0)
            unbounded += most > _BOUNDED
            if most > _SMALL:
                nested = nested or bool(was)
                risky[-1] = True
            at = repeat.end()
            # A lazy or possessive mark belongs to the repeat.
            at += source[at : at + 1] in ("?", "+")
        else:
            at += 1
    return unbounded, nested


def _after_class(source: str, start: int) -> int:
    at = start + 1 + (source[start + 1 : start + 2] == "^")
    at += source[at : at + 1] == "]"
    while at < len(source) and source[at] != "]":
        at += 2 if source[at] == "\\" else 1
    return at + 1
