"""One field of one row: what it may hold, and what to do when it holds something else."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from apportion.errors import shorten

__all__ = ["FieldProblem", "choose", "flag", "floats", "identifier", "integer", "integers", "mapping", "number", "text"]

_INT64 = 2**63
# Below this every whole number has a float of its own.
_WHOLE = 2.0**53


class FieldProblem(Exception):
    """What is wrong with a field and what would be right; the reader adds the file and the line."""

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        self.field = field
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{field}: {problem}; {remedy}")


def choose(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """The first of `names` that the row holds with something other than null."""
    return next((name for name in names if row.get(name) is not None), None)


def identifier(value: Any, field: str) -> str:
    """An id as text; numbers become their text, so 3, 3.0 and "3" are the same id.

    NaN is what tables write where an id is missing: as text it would make one group of all rows without a group.

    Example:
        >>> identifier(3, "task_id"), identifier(3.0, "task_id"), identifier("3", "task_id")
        ('3', '3', '3')
    """
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if abs(value) < _WHOLE and value.is_integer() else str(value)
    raise FieldProblem(field, f"{shorten(value)} is not an id", "give a non-empty text or a number")


def text(value: Any, field: str) -> str:
    """Text, unchanged."""
    if isinstance(value, str):
        return value
    raise FieldProblem(field, f"{shorten(type(value).__name__)} is not text", "give a string")


def flag(value: Any, field: str) -> bool:
    """True or False; 0 and 1 are neither."""
    if isinstance(value, bool):
        return value
    raise FieldProblem(field, f"{shorten(value)} is not true or false", "give true or false")


def integer(value: Any, field: str) -> int:
    """A whole number that fits 64 bits."""
    if isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64:
        return value
    shown = shorten(value) if not isinstance(value, int) else "a number beyond 64 bits"
    raise FieldProblem(field, f"{shown} is not a whole number", "give an integer of at most 64 bits")


def number(value: Any, field: str) -> float | None:
    """A reward: a finite number, true (1.0), false (0.0), a number written as text, or null for an unknown one.

    Example:
        >>> number("0.5", "reward"), number(True, "reward"), number(None, "reward")
        (0.5, 1.0, None)
    """
    if value is None:
        return None
    try:
        if not isinstance(value, int | float | str) or (isinstance(value, str) and "_" in value):
            raise TypeError
        converted = float(value)
    except (TypeError, ValueError):
        raise FieldProblem(field, f"{shorten(value)} is not a number", "give a number, or null if unknown") from None
    except OverflowError:
        raise FieldProblem(field, "the number is too large for a float", "give a finite number") from None
    if not math.isfinite(converted):
        raise FieldProblem(field, f"{converted} is not a finite number", "give a finite number, or null if unknown")
    return converted


def mapping(value: Any, field: str) -> dict[str, Any]:
    """A JSON object."""
    if isinstance(value, dict):
        return value
    raise FieldProblem(field, f"{shorten(type(value).__name__)} is not an object", "give a JSON object")


def integers(value: Any, field: str) -> npt.NDArray[np.generic]:
    """A flat list of whole numbers, or of true and false."""
    array = _flat(value, field, "whole numbers")
    if array.size and (array.dtype.kind not in "iub" or (array.dtype.kind == "u" and int(array.max()) >= _INT64)):
        raise FieldProblem(field, "the list holds something else than whole numbers of 64 bits", "give integers only")
    return array


def floats(value: Any, field: str) -> npt.NDArray[np.float64]:
    """A flat list of numbers; null is NaN, which is allowed where the value is never used."""
    if isinstance(value, list) and None in value:
        value = [math.nan if item is None else item for item in value]
    array = _flat(value, field, "numbers")
    if array.size and array.dtype.kind not in "iuf":
        raise FieldProblem(field, "the list holds something else than numbers", "give numbers only")
    return array.astype(np.float64)


def _flat(value: Any, field: str, of: str) -> npt.NDArray[np.generic]:
    if not isinstance(value, list | np.ndarray):
        raise FieldProblem(field, f"{shorten(type(value).__name__)} is not a list", f"give a flat list of {of}")
    try:
        array = np.asarray(value)
    except ValueError:
        raise FieldProblem(field, "the list is nested", f"give a flat list of {of}") from None
    if array.ndim != 1:
        raise FieldProblem(field, "the list is nested", f"give a flat list of {of}")
    return array


def as_text(value: Any) -> str:
    """A text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
