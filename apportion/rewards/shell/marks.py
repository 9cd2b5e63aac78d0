"""Characters that stand for what a shell word means beyond its letters, so that an expanded word stays a plain string.

UNKNOWN is text that nobody can know (a shell word never holds a NUL); the others are from the private use area. What
the policy wrote is cleaned of all of them before it is parsed, so they cannot be forged.
"""

from __future__ import annotations

__all__ = [
    "ANY",
    "CLOSE",
    "COMMA",
    "DEEP",
    "EMPTY",
    "LEFT",
    "OPEN",
    "RIGHT",
    "SPLIT",
    "STAR",
    "TILDE",
    "UNKNOWN",
    "clean",
    "globbing",
    "is_wild",
    "plain",
]

UNKNOWN = "\0"
# An active *, ?, [, ], {, comma, }, a word boundary, an empty quoted part, an active ~, any path below.
STAR, ANY, OPEN, CLOSE, LEFT, COMMA, RIGHT, SPLIT, EMPTY, TILDE, DEEP = map(chr, range(0xE000, 0xE00B))

_FORGED = str.maketrans(dict.fromkeys([UNKNOWN, *map(chr, range(0xE000, 0xE00B))], "\ufffd"))
_GLOB = str.maketrans({"*": STAR, "?": ANY, "[": OPEN, "]": CLOSE})
_PLAIN = str.maketrans(
    {
        UNKNOWN: "…",
        STAR: "*",
        ANY: "?",
        OPEN: "[",
        CLOSE: "]",
        LEFT: "{",
        COMMA: ",",
        RIGHT: "}",
        SPLIT: " ",
        EMPTY: "",
        TILDE: "~",
        DEEP: "**/",
    }
)


def clean(text: str) -> str:
    """Text from outside, without any mark.

    Example:
        >>> clean("a" + STAR) == "a\ufffd"
        True
    """
    return text.translate(_FORGED).encode("utf-8", "replace").decode("utf-8")


def globbing(text: str) -> str:
    """Text in which `*`, `?` and `[...]` are active."""
    return text.translate(_GLOB)


def plain(text: str) -> str:
    """A marked word as a person would write it.

    Example:
        >>> plain(globbing("*.py") + UNKNOWN)
        '*.py…'
    """
    return text.translate(_PLAIN)


def is_wild(text: str) -> bool:
    """True when the word stands for more than one text."""
    return any(mark in text for mark in (UNKNOWN, STAR, ANY, OPEN, DEEP))
