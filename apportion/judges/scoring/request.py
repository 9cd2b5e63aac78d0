"""What is asked of a re-scorer and what it answers: tokens in, one log-probability per target token out.

    ids        ..............|.............|............|          one sequence, scored once
    at                       ^ at[0]       ^ at[1]      ^ at[2]    K boundaries
    branch k   ids[:at[k]] + lead + targets[k]                     only the tokens of targets[k] are scored

Everything is token ids: a caller encodes each piece of text once, and no piece ever reaches across a boundary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from apportion.errors import InvalidArgument
from apportion.verdicts import Abstained, Failed

__all__ = ["Answer", "LogProbs", "Request", "at_boundaries", "continuation", "own_tokens"]

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]

# A log-probability is at most 0; float32 arithmetic ends this far above it, a wrong unit or sign much further.
_ROUNDING = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class LogProbs:
    """The log-probability of every target token, natural log, float64.

    Attributes:
        values: float64[a], each finite and <= 0.

    Example:
        >>> scores = LogProbs(np.array([-0.5, -1.5]))
        >>> scores.sum, scores.mean
        (-2.0, -1.0)
    """

    values: FloatArray

    @property
    def sum(self) -> float:
        """The sum of `values`: log p(target | context), in nats."""
        return float(self.values.sum())

    @property
    def mean(self) -> float:
        """`sum` divided by the number of target tokens, in nats per token."""
        return float(self.values.mean())


# What a re-scorer says of one boundary.
Answer: TypeAlias = LogProbs | Abstained | Failed


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """K targets after K boundaries of one token sequence; made by `at_boundaries`, `continuation` and `own_tokens`.

    Attributes:
        ids: int64[L] the sequence.
        at: int64[K] boundaries in [0, L]: branch k continues ids[:at[k]]. In any order, repeats allowed.
        targets: K arrays int64[a_k], the tokens to score.
        lead: int64[m] tokens between every boundary and its target that are read but not scored (a question, the
            opening of a message); empty by default.

    Raises:
        InvalidArgument: ids that are no flat list of whole numbers >= 0, a boundary outside [0, L], or a number of
            targets that is not the number of boundaries.
    """

    ids: IntArray
    at: IntArray
    targets: tuple[IntArray, ...]
    lead: IntArray

    def __post_init__(self) -> None:
        for name in ("ids", "at", "lead"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        object.__setattr__(self, "targets", tuple(_whole("targets", target) for target in self.targets))
        if len(self.targets) != self.at.size:
            raise InvalidArgument("targets", len(self.targets), f"one target per boundary ({self.at.size} boundaries)")
        outside = self.at[self.at > self.ids.size]
        if outside.size:
            raise InvalidArgument("at", outside.tolist(), f"boundaries in [0, {self.ids.size}], the sequence's length")

    def context(self, k: int) -> IntArray:
        """int64[at[k] + m]: what precedes the first scored token of branch k."""
        return np.concatenate((self.ids[: self.at[k]], self.lead))

    def digests(self, *, prefix: bytes) -> Iterator[str]:
        """One hexadecimal SHA-256 per branch over `prefix`, its context and its target."""
        for k, target in enumerate(self.targets):
            digest = hashlib.sha256(prefix)
            for part in (self.context(k), target):
                digest.update(f"|{part.size}|".encode())
                digest.update(part.astype("<i8").tobytes())
            yield digest.hexdigest()


def at_boundaries(ids: Any, at: Any, target: Any, *, lead: Any = ()) -> Request:
    """The same target after K boundaries of one sequence.

        answer k = log p(target_j | ids[:at[k]], lead, target_<j) for every j

    Args:
        ids: int[L] token ids of one trajectory.
        at: int[K] boundaries in [0, L].
        target: int[a] the ids to score after each of them; K lists of ids give each boundary its own.
        lead: int[m] ids between boundary and target, read but not scored.

    Returns:
        A request with K branches; K = 0 is allowed and asks nothing.

    Raises:
        InvalidArgument: as `Request`.

    Example:
        >>> request = at_boundaries([5, 6, 7, 8], [2, 4], [9, 9])
        >>> [request.context(k).tolist() for k in range(2)]
        [[5, 6], [5, 6, 7, 8]]
    """
    at = _whole("at", at)
    nested = isinstance(target, Sequence) and any(not np.isscalar(part) for part in target)
    targets = tuple(target) if nested else (_whole("target", target),) * at.size
    return Request(ids, at, targets, lead)


def continuation(context: Any, target: Any) -> Request:
    """One target after one context: the same tokens under another prompt, hindsight or a privileged answer.

        answer = log p(target_j | context, target_<j) for every j

    Args:
        context: int[n] ids.
        target: int[a] ids.

    Returns:
        A request with one branch.

    Raises:
        InvalidArgument: as `Request`.

    Example:
        >>> continuation([1, 2], [3]).targets[0].tolist()
        [3]
    """
    context = _whole("context", context)
    return Request(context, np.array([context.size]), (target,), np.empty(0, np.int64))


def own_tokens(ids: Any, *, start: int = 1) -> Request:
    """The tokens of a sequence under the model itself.

        answer = log p(ids_j | ids_<j) for j = start .. L-1

    Args:
        ids: int[L] ids of the whole sequence, prompt included.
        start: the first scored position, in [0, L]; the first token of all has nothing before it and abstains.

    Returns:
        A request with one branch of L - start target tokens; entry i belongs to token start + i.

    Raises:
        InvalidArgument: as `Request`, or `start` outside [0, L].

    Example:
        >>> request = own_tokens([4, 5, 6, 7], start=2)
        >>> request.context(0).tolist(), request.targets[0].tolist()
        ([4, 5], [6, 7])
    """
    ids = _whole("ids", ids)
    if isinstance(start, bool) or not isinstance(start, (int, np.integer)) or not 0 <= start <= ids.size:
        raise InvalidArgument("start", start, f"a position in [0, {ids.size}]")
    return continuation(ids[:start], ids[start:])


def answered(values: FloatArray) -> LogProbs | Failed:
    """Checked values as an answer: finite and <= 0, where rounding just above 0 becomes 0."""
    values = np.asarray(values, np.float64)
    bad = np.flatnonzero(~np.isfinite(values) | (values > _ROUNDING))
    if bad.size:
        return Failed(f"the log-probability of target token {bad[0]} is {values[bad[0]]:g}, expected a finite one <= 0")
    return LogProbs(np.minimum(values, 0.0))


def _whole(name: str, value: Any) -> IntArray:
    try:
        array = np.asarray(value)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise TypeError
        array = array.astype(np.int64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(name, value, "a flat list of whole numbers >= 0") from None
    if array.size and int(array.min()) < 0:
        raise InvalidArgument(name, int(array.min()), "whole numbers >= 0; a negative id is a label, not a token")
    return array
