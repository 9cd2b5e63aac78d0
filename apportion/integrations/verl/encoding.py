"""How verdicts travel in the dense scores of a response, the only floats that stock veRL carries to an estimator.

    score      an ordinary number on the last token that the policy wrote: what veRL logs and its own estimators see
    verdicts   numbers below 2^-79 on other tokens, in order: a header, then the verdicts of each observer of the recipe

    2^-126 .. 2^-125     codes: zero, absent, failed, "the score", unrecorded, wide; negative = a header that names all
    2^-124 .. 2^-80      value * 2^-100, for 6e-8 <= |value| < 1e6, to the 24 bits of a float32; less counts as zero
    wide, and four       a float64 of a million or more, in pieces of 16 bits: names of states are such numbers

A sum over the row is the score, to 1e-23, and finite. KL in the reward is subtracted where the policy wrote, and would
drown the small numbers there: with it they stand on the other tokens only, and the loop adds closing tokens outside the
loss where a response has too few. Without it any token will do.

A plain reward function has no more than the score: a missing verdict is then the code alone, in its place.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rewards import Reward
from apportion.rollouts import Level
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = [
    "ABSENT",
    "FAILED",
    "MOST_ENTRIES",
    "UNRECORDED",
    "Carried",
    "Layout",
    "carriers",
    "decode",
    "encode",
    "entries",
    "is_marker",
]

Row: TypeAlias = Sequence[Verdict]
Carried: TypeAlias = list[list[Verdict]] | Verdict | None

_CODE = 2.0**-126
_SCALE = 2.0**-100
_SMALLEST, _LARGEST = 2.0**-24, 2.0**20
_BELOW = 2.0**-79
ZERO, ABSENT, FAILED, SCORE, _UNRECORDED, _WIDE = (_CODE * (1 + i / 8) for i in range(6))
_PIECES = (48, 32, 16, 0)
MOST_ENTRIES = 1 + len(_PIECES)

# An abstention because nothing of what the observer reads was recorded: from every rollout it is a wrong name.
UNRECORDED = Abstained("the rollout records nothing of what this reads")


@dataclass(frozen=True)
class Layout:
    """Which verdicts a row carries; both ends make it from the recipe.

    Attributes:
        names: of the observers, in order.
        levels: of the observers.
        score: the index of the observer whose verdict is the score itself; None when there is no single outcome.
    """

    names: tuple[str, ...]
    levels: tuple[Level, ...]
    score: int | None

    @classmethod
    def of(cls, observers: Sequence[Reward]) -> Layout:
        """The layout of a recipe's observers: its only outcome of a whole trajectory is the score."""
        outcomes = [
            i
            for i, o in enumerate(observers)
            if o.level is Level.TRAJECTORY and getattr(o, "role", "outcome") == "outcome"
        ]
        return cls(
            names=tuple(o.name for o in observers),
            levels=tuple(o.level for o in observers),
            score=outcomes[0] if len(outcomes) == 1 else None,
        )

    @property
    def only_score(self) -> bool:
        """Nothing but the score is observed, so a plain number per row says everything."""
        return self.score is not None and len(self.names) == 1

    @property
    def header(self) -> float:
        """The first number of a row: it differs for other observers."""
        text = ";".join(f"{name}:{level.name}" for name, level in zip(self.names, self.levels, strict=True))
        return -_CODE * (1 + (zlib.crc32(text.encode()) % 2**23) / 2**23)


def is_marker(score: float) -> bool:
    """Whether a score stands for a missing verdict.

    Example:
        >>> is_marker(FAILED), is_marker(0.0), is_marker(1.0)
        (True, False, False)
    """
    return score in (ABSENT, FAILED)


def carriers(mask: npt.NDArray[np.bool_], *, kl_in_reward: bool) -> npt.NDArray[np.int64]:
    """The offsets that may carry a verdict: where the policy did not write and, without KL, all but the score's.

    Example:
        >>> mask = np.array([True, True, False, True])
        >>> carriers(mask, kl_in_reward=True).tolist(), carriers(mask, kl_in_reward=False).tolist()
        ([2], [0, 1, 2])
    """
    free = ~mask if kl_in_reward else np.ones_like(mask)
    if mask.any():
        free[np.flatnonzero(mask)[-1]] = False
    return np.flatnonzero(free)


def encode(
    layout: Layout, rows: Sequence[Row], *, score: float, mask: npt.NDArray[np.bool_], kl_in_reward: bool
) -> npt.NDArray[np.float32]:
    """The dense scores of one response.

    Args:
        layout: of the recipe.
        rows: for every observer its verdicts: one, or one per turn.
        score: what veRL is to log and its own estimators are to see; the verdict of the outcome where there is one.
        mask: bool[T] the policy wrote the token.
        kl_in_reward: whether KL is subtracted from what the policy's tokens carry.

    Raises:
        InvalidArgument: too few tokens to carry the verdicts.

    Example:
        >>> layout = Layout(names=("outcome", "paid"), levels=(Level.TRAJECTORY, Level.TURN), score=0)
        >>> verdicts = [[Scored(1.0)], [Scored(0.5), Abstained("-")]]
        >>> mask = np.array([True, False, False, True, False, False])
        >>> made = encode(layout, verdicts, score=1.0, mask=mask, kl_in_reward=True)
        >>> made[mask].tolist(), float(made.sum())
        ([0.0, 1.0], 1.0)
    """
    numbers = [layout.header]
    for i, row in enumerate(rows):
        for verdict in row:
            numbers += [SCORE] if i == layout.score and isinstance(verdict, Scored) else entries(verdict)
    where = carriers(mask, kl_in_reward=kl_in_reward)
    if len(numbers) > len(where):
        raise InvalidArgument("mask", int(mask.size), f"{len(numbers) - len(where)} more tokens to carry verdicts")
    made = np.zeros(mask.size, np.float32)
    made[where[: len(numbers)]] = numbers
    if mask.any():
        made[np.flatnonzero(mask)[-1]] = 0.0 if abs(score) < _BELOW else score
    return made


def entries(verdict: Verdict) -> list[float]:
    """The small numbers of a verdict: one, or `MOST_ENTRIES` for a value of a million or more."""
    if isinstance(verdict, Abstained):
        return [_UNRECORDED if verdict == UNRECORDED else ABSENT]
    if isinstance(verdict, Failed):
        return [FAILED]
    if abs(verdict.value) < _SMALLEST:
        return [ZERO]
    if abs(verdict.value) < _LARGEST:
        return [verdict.value * _SCALE]
    (bits,) = struct.unpack("<Q", struct.pack("<d", verdict.value))
    return [_WIDE, *(((bits >> shift) % 2**16 + 1) * _SCALE for shift in _PIECES)]


def decode(layout: Layout, rewards: Tensor, batch: Batch) -> tuple[list[float], list[Carried]]:
    """What `encode` wrote, and what a plain reward function left.

    Args:
        layout: of the recipe.
        rewards: [B, T] veRL's token-level rewards.
        batch: of the response mask.

    Returns:
        The score of each row: the sum of its ordinary numbers, KL included where it was subtracted. And what it carried
        beside: the verdicts of every observer, the missing verdict that stands in place of a score, or None.

    Raises:
        InvalidArgument: rows with a NaN or an infinity, rows that another recipe wrote, or rows whose turns are not
            those that were written, since the mask was changed (all are listed).
    """
    small = (rewards != 0) & (rewards.abs() < _BELOW)
    sums = torch.where(small, 0.0, rewards).sum(1, dtype=torch.float64)
    bad = torch.nonzero(~torch.isfinite(sums)).flatten()
    if bad.numel():
        remedy = "a reward that fails returns apportion.integrations.verl.FAILED, which leaves its group"
        raise InvalidArgument("token_level_rewards", float("nan"), f"finite numbers; {_rows(bad.tolist())}; {remedy}")
    score = sums.tolist()
    ends = torch.cumsum(small.sum(1), 0).tolist()
    numbers = rewards[small].to(torch.float64).tolist()
    turns = batch.turns.tolist()
    carried: list[Carried] = []
    strange: list[int] = []
    changed: list[int] = []
    for i, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        row = numbers[start:end]
        if not row:
            carried.append(None)
        elif len(row) == 1 and is_marker(row[0]):
            carried.append(_verdict(row, score[i]))
        else:
            made = _split(layout, row[1:], turns[i], score[i])
            strange += [i] if row[0] != layout.header else []
            changed += [i] if made is None else []
            carried.append(made)
    if strange:
        expected = f"verdicts of {', '.join(layout.names)}; {_rows(strange)} carry those of another recipe"
        raise InvalidArgument("token_level_rewards", "another header", expected)
    if changed:
        expected = (
            f"the turns that the agent loop wrote; {_rows(changed)} have others. Rejection of single tokens "
            "(rollout_rs 'token_...') splits turns: reject whole sequences instead"
        )
        raise InvalidArgument("response_mask", "changed", expected)
    return score, carried


def _split(layout: Layout, row: Sequence[float], turns: int, score: float) -> list[list[Verdict]] | None:
    """The verdicts of each observer; None when these are not exactly as many as there are numbers."""
    verdicts: list[Verdict] = []
    at = 0
    while at < len(row):
        verdicts.append(_verdict(row[at : at + MOST_ENTRIES], score))
        at += MOST_ENTRIES if row[at] == _WIDE else 1
    lengths = [turns if level is Level.TURN else 1 for level in layout.levels]
    if len(verdicts) != sum(lengths) or at != len(row):
        return None
    rest = iter(verdicts)
    return [list(islice(rest, length)) for length in lengths]


def _verdict(numbers: Sequence[float], score: float) -> Verdict:
    """The verdict that starts with the first of these."""
    first = numbers[0]
    if first == ABSENT:
        return Abstained("said where the rollout was scored")
    if first == _UNRECORDED:
        return UNRECORDED
    if first == FAILED:
        return Failed("said where the rollout was scored: see the log of its worker")
    if first != _WIDE:
        return Scored(score if first == SCORE else 0.0 if first == ZERO else first / _SCALE)
    pieces = [int(number / _SCALE) - 1 for number in numbers[1:]]
    bits = sum(piece << shift for piece, shift in zip(pieces, _PIECES, strict=False))
    (value,) = struct.unpack("<d", struct.pack("<Q", bits % 2**64))
    return Scored(value) if math.isfinite(value) else Failed("a number that was cut off on the way")


def _rows(which: Sequence[int]) -> str:
    return f"rows {', '.join(map(str, which[:10]))}"
