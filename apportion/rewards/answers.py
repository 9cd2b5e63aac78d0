"""Ways to take the answer out of a reply: each a plain function `text -> answer, or None when there is none`.

No rule is hidden: an outcome names the one it uses, and a reply without an answer is told apart from a wrong one. All
of them read the whole text, in time linear in its length.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from apportion.rewards import _arguments

__all__ = ["Extract", "after", "boxed", "in_tag", "last_line", "last_number", "parse_number", "whole_text"]

Extract: TypeAlias = Callable[[str], str | None]

# Bounded on every side: an exponent of a million digits must not become a number.
_NUMBER = re.compile(r"[+-]?(?:\d{1,60}(?:\.\d{0,60})?|\.\d{1,60})(?:[eE][+-]?\d{1,3})?")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3}){1,20}(?:\.\d{0,60})?")
_RATIO = re.compile(r"([+-]?\d{1,60}) ?/ ?(\d{1,60})")
_MIXED = re.compile(r"([+-]?)(\d{1,60}) (\d{1,60})/(\d{1,60})")
_IN_TEXT = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:(?: \d+)? ?/ ?\d+)?%?")
_LONGEST_NUMBER = 100


def whole_text(text: str) -> str | None:
    """The whole text without surrounding blanks.

    Example:
        >>> whole_text(" 42 ")
        '42'
    """
    return text.strip() or None


def last_line(text: str) -> str | None:
    r"""The last line that is not blank.

    Example:
        >>> last_line("so\nthe answer: 7\n\n")
        'the answer: 7'
    """
    stripped = text.strip()
    return stripped.rsplit("\n", 1)[-1].strip() or None


def boxed(text: str) -> str | None:
    r"""The content of the last complete \boxed{...}, braces balanced.

    Example:
        >>> boxed(r"\boxed{3}, no: \boxed{\frac{1}{2}}")
        '\\frac{1}{2}'
    """
    end = len(text)
    while (start := text.rfind(r"\boxed{", 0, end)) >= 0:
        content = start + len(r"\boxed{")
        depth = 1
        # Only up to where the box found before it began, so that the scan stays linear.
        for at in range(content, end):
            depth += (text[at] == "{") - (text[at] == "}")
            if depth == 0:
                return text[content:at].strip() or None
        end = start
    return None


def last_number(text: str) -> str | None:
    """The last number in the text, with its thousands separators, and whole where it is a fraction or a mixed number.

    Example:
        >>> last_number("2 boxes of 1,200 nails"), last_number("it takes 2 2/3 hours")
        ('1,200', '2 2/3')
    """
    last = deque(_IN_TEXT.finditer(text), maxlen=1)
    return last[0].group() if last else None


@dataclass(frozen=True)
class After:
    """See `after`."""

    marker: str

    def __call__(self, text: str) -> str | None:
        """The answer, or `None` without the marker."""
        found = text.rfind(self.marker)
        if found < 0:
            return None
        rest = text[found + len(self.marker) :].strip(" \t")
        return rest.split("\n", 1)[0].strip() or None


def after(marker: str) -> After:
    """What follows the last occurrence of a marker, up to the end of its line.

    Example:
        >>> after("####")("work; #### 17")
        '17'
    """
    return After(_arguments.text("marker", marker))


@dataclass(frozen=True)
class InTag:
    """See `in_tag`."""

    tag: str

    def __call__(self, text: str) -> str | None:
        """The answer, or `None` without a complete tag."""
        stop = text.rfind(f"</{self.tag}>")
        start = text.rfind(f"<{self.tag}>", 0, max(stop, 0))
        return text[start + len(self.tag) + 2 : stop].strip() or None if start >= 0 else None


def in_tag(tag: str) -> InTag:
    """The content of the last complete <tag>...</tag>.

    Example:
        >>> in_tag("answer")("<answer> 4 </answer>")
        '4'
    """
    return InTag(_arguments.text("tag", tag))


def parse_number(text: str) -> Fraction | None:
    """The exact number that a short text stands for; `None` when it stands for none, or for several.

    Understands signs, decimals, exponents of up to three digits, thousands separators, fractions, mixed numbers, a
    percent sign, and the marks $ and * around a number. "(1,234)" is a pair and "4 10/3" is not a mixed number: `None`.

    Example:
        >>> [parse_number(text) for text in ("1,234", "$18.00", "2 2/3", "28%", "(1,234)")]
        [Fraction(1234, 1), Fraction(18, 1), Fraction(8, 3), Fraction(7, 25), None]
    """
    if len(text) > _LONGEST_NUMBER:
        return None
    bare = text.replace("{,}", ",").replace("\\%", "%").strip(" \t\n$*").removesuffix(".").replace("−", "-")
    scale = 1
    if bare.endswith("%"):
        bare, scale = bare[:-1].rstrip(), 100
    bare = bare.removeprefix("$")
    if not bare.isascii():
        return None
    if _GROUPED.fullmatch(bare):
        bare = bare.replace(",", "")
    if _NUMBER.fullmatch(bare):
        return Fraction(bare) / scale
    if (ratio := _RATIO.fullmatch(bare)) and int(ratio[2]):
        return Fraction(int(ratio[1]), int(ratio[2])) / scale
    mixed = _MIXED.fullmatch(bare)
    if mixed and 0 < int(mixed[3]) < int(mixed[4]):
        value = int(mixed[2]) + Fraction(int(mixed[3]), int(mixed[4]))
        return (-value if mixed[1] == "-" else value) / scale
    return None
