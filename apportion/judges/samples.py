"""k verdicts on one thing become one: mean, median, vote, sum, or the sum of those that a meta judge trusts.

A sample without a verdict is left out and counted; it is never a number. Too few samples give no value.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments

__all__ = ["Pooled", "Pooling", "best_samples", "pool_samples"]

Pooling: TypeAlias = Literal["mean", "median", "vote", "sum"]


@dataclass(frozen=True, slots=True)
class Pooled:
    """What k samples say together.

    Attributes:
        value: the pooled number; None when too few samples have a verdict, or when a vote ties.
        spread: sample standard deviation (ddof 1) of the samples; None below two of them.
        read: how many samples have a verdict.
        asked: how many were asked for.
    """

    value: float | None
    spread: float | None
    read: int
    asked: int

    @property
    def missing(self) -> int:
        """How many samples have no verdict."""
        return self.asked - self.read


def pool_samples(samples: Sequence[float | None], *, how: Pooling = "mean", at_least: int = 1) -> Pooled:
    """One number of k samples.

    Args:
        samples: one value per sample; None where it has no verdict.
        how: "mean", "median", "vote" (the most frequent value; a tie gives none), or "sum" scaled to all k samples:
            k * mean, so that a missing sample does not count as 0.
        at_least: how many samples must have a verdict.

    Raises:
        InvalidArgument: an unknown pooling, `at_least` below 1, or a value that is not finite.

    Example:
        >>> pool_samples([7, 7, None, 6, 7])
        Pooled(value=6.75, spread=0.5, read=4, asked=5)
        >>> pool_samples([1, 0, None], how="vote").value is None
        True
    """
    if how not in get_args(Pooling):
        raise InvalidArgument("how", how, f"one of {', '.join(get_args(Pooling))}")
    _arguments.whole("at_least", at_least, at_least=1)
    read = [float(value) for value in samples if value is not None]
    if not all(map(math.isfinite, read)):
        raise InvalidArgument("samples", list(samples), "finite numbers, or None where there is no verdict")
    spread = statistics.stdev(read) if len(read) > 1 else None
    value = _pooled(read, len(samples), how) if len(read) >= at_least else None
    return Pooled(value, spread, len(read), len(samples))


def _pooled(read: Sequence[float], asked: int, how: Pooling) -> float | None:
    if how == "median":
        return statistics.median(read)
    if how == "vote":
        ranked = Counter(read).most_common(2)
        return None if len(ranked) == 2 and ranked[0][1] == ranked[1][1] else ranked[0][0]
    mean = math.fsum(read) / len(read)
    return mean * asked if how == "sum" else mean


def best_samples(trust: Sequence[float | None], *, keep: int) -> list[int]:
    """The samples that a meta judge trusts most; those it could not judge are not among them.

    Args:
        trust: one number per sample, higher is better; None = unknown.
        keep: how many stay; DeepSeek-GRM keeps half.

    Returns:
        Their positions, in order. Equal trust keeps the earlier one.

    Raises:
        InvalidArgument: `keep` below 1.

    Example:
        >>> best_samples([0.1, 0.9, 0.8, None], keep=2)
        [1, 2]

    Source: arXiv 2504.02495.
    """
    _arguments.whole("keep", keep, at_least=1)
    ranked = sorted((-value, at) for at, value in enumerate(trust) if value is not None)
    return sorted(at for _, at in ranked[:keep])
