"""Regular expressions over text that a policy wrote: what could run for ever is refused, long text is windowed.

The pattern comes from a recipe, the text from a rollout that may be made to hurt. Backtracking over d unbounded repeats
costs about n^(d+1) steps on n characters (the + 1 is the search for a start), and exponentially many when repeats nest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments

__all__ = ["Pattern"]

# By number of unbounded repeats: windows in which even the worst text costs at most about a second.
_WINDOWS = (20_000, 10_000, 600)
# A bounded repeat up to this count may stand inside a repeated group, and one up to the other is not worth counting.
_SMALL = 3
_BOUNDED = 32


@dataclass(frozen=True, slots=True)
class Pattern:
    r"""A regular expression that is safe to search for in hostile text.

    Texts up to a window (10,000 characters with one unbounded repeat, 600 with two) are searched whole; longer ones in
    windows that overlap by half, so padding hides nothing; there, only matches up to half a window long are sure to be
    found.

    Attributes:
        source: the expression, in the syntax of `re`.
        compiled: the same, compiled.
        window: the length up to which a text is searched whole.

    Raises:
        InvalidArgument: an expression that does not compile, a repeated group that holds a repeat or an alternative
            (exponential), more than two unbounded repeats.

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
    window: int = field(init=False, repr=False, compare=False)

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
        object.__setattr__(self, "window", _WINDOWS[unbounded])

    def found_in(self, text: str) -> bool:
        """True when the pattern matches somewhere in `text`."""
        window = self.window
        if len(text) <= window:
            return self.compiled.search(text) is not None
        for start in range(0, len(text) - window // 2, window // 2):
            stop = min(start + window, len(text))
            match = self.compiled.search(text, start, stop)
            # A match that ends where the window was cut may owe that to the cut ($, look-ahead); the next one decides.
            if match is not None and (match.end() < stop or stop == len(text)):
                return True
        return False


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
