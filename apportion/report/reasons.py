"""Why verdicts are missing: reasons with their counts, few enough to read and to keep."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["count_reason", "most_common"]

# Error texts carry addresses and times; a file of them must not fill the memory.
_MOST, _LONGEST = 50, 200


def count_reason(counts: dict[str, int], reason: str, times: int = 1) -> None:
    """Count a reason, so many times; beyond 50 different ones the rest are counted together.

    Example:
        >>> counts = {}
        >>> for reason in ("timeout", "timeout", "no answer"):
        ...     count_reason(counts, reason)
        >>> most_common(counts)
        '2 x timeout; 1 x no answer'
    """
    short = reason[:_LONGEST]
    key = short if short in counts or len(counts) < _MOST else "other reasons"
    counts[key] = counts.get(key, 0) + times


def most_common(counts: Mapping[str, int], *, most: int = 3) -> str:
    """The most common reasons on one line."""
    return "; ".join(f"{n} x {why}" for why, n in sorted(counts.items(), key=lambda entry: -entry[1])[:most])
