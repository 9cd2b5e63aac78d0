"""JSON read without guessing: what Python's parser would quietly mend or choke on is one kind of error.

A key that appears twice, an integer of a million digits and brackets nested a thousand deep are all well known ways to
make two readers of the same text disagree, or one of them fall over. Here each of them is a `BadJson` with a position.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

__all__ = ["MAX_DEPTH", "BadJson", "decode", "decode_row", "too_deep"]

MAX_DEPTH = 64
_NESTING = (dict, list, tuple)


class BadJson(ValueError):
    """Text that is not acceptable JSON: what is wrong, and at which character."""

    def __init__(self, problem: str, position: int) -> None:
        self.problem = problem
        self.position = position
        super().__init__(f"{problem} at character {position}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {twice[:80]!r} appears twice")
    return mapping


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is too large for a number")
    return number


_CALL = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
_ROW = json.JSONDecoder(object_pairs_hook=_unique)


def too_deep(values: Iterable[Any], limit: int = MAX_DEPTH) -> bool:
    """True when lists, tuples and objects nest deeper than `limit` anywhere in `values`."""
    level = [value for value in values if isinstance(value, _NESTING)]
    for _ in range(limit):
        level = [
            child
            for value in level
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, _NESTING)
        ]
        if not level:
            return False
    return bool(level)


def _decode(decoder: json.JSONDecoder, text: str, start: int) -> tuple[Any, int]:
    try:
        return decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise BadJson(error.msg.removesuffix(" at"), error.pos) from None
    except RecursionError:
        raise BadJson(f"nested deeper than {MAX_DEPTH} levels", start) from None
    except ValueError as error:
        # An integer beyond the interpreter's digit limit, or one of the hooks above.
        raise BadJson(str(error).partition(";")[0], start) from None


def decode(text: str, start: int = 0) -> tuple[Any, int]:
    """The JSON value at `start`, and where it ends; numbers must be finite.

    Raises:
        BadJson: a syntax error, a key that appears twice, NaN or an infinity, a number beyond float64, an integer
            beyond the interpreter's digit limit, more than `MAX_DEPTH` levels.

    Example:
        >>> decode('{"a": [1, 2]} and more')
        ({'a': [1, 2]}, 13)
        >>> decode('{"a": 1, "a": 2}')
        Traceback (most recent call last):
            ...
        apportion.integrations.strict_json.BadJson: key 'a' appears twice at character 0
    """
    value, end = _decode(_CALL, text, start)
    if too_deep([value]):
        raise BadJson(f"nested deeper than {MAX_DEPTH} levels", start)
    return value, end


def decode_row(text: str, start: int = 0) -> tuple[Any, int]:
    """Like `decode` for a row of a file: NaN and the infinities stay numbers, and depth is left to the caller.

    Python's own `json` writes non-finite numbers, so files hold them; which fields may is for the reader to say.
    """
    return _decode(_ROW, text, start)
