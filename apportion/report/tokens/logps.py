"""Log-probabilities that cannot be what they say, and how far trainer and sampler are apart.

    gap[t] = behaviour_logps[t] - trainer_logps[t]        in nats, over the tokens that the policy sampled

Its mean is an estimate of the divergence KL(sampler || trainer) per token; its mean size is what the ratio of an
off-policy correction starts from before a single update was made.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from apportion.report.findings import Place
from apportion.report.tokens.compare import BoolArray
from apportion.report.tokens.hits import Hit
from apportion.report.tokens.view import View

__all__ = ["TRAINER_LOGPS", "Gap", "LogProbs"]

FloatArray: TypeAlias = npt.NDArray[np.float64]

TRAINER_LOGPS = "trainer_logps"
THRESHOLDS = (0.1, 0.5, 1.0)
_WORST = 5
# A float32 softmax may round to a hair above 1; nothing was ever sampled at exp(-1e6).
_HIGHEST, _LOWEST = 1e-6, -1e6
# A certain token happens; a reply of so many and no others was not scored.
_ALL_ZERO = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """How far trainer and sampler are apart.

    Attributes:
        tokens: own tokens for which both log-probs are known.
        mean: mean of |sampler - trainer|, nats per token.
        signed: mean of sampler - trainer, an estimate of KL(sampler || trainer) in nats per token.
        worst: the largest |sampler - trainer|, nats.
        above: threshold in nats -> share of the tokens above it.
        places: the worst tokens, the worst first.
    """

    tokens: int
    mean: float
    signed: float
    worst: float
    above: Mapping[str, float]
    places: Sequence[Place]


@dataclass(eq=False)
class LogProbs:
    """Sums over rollouts, one at a time.

    Attributes:
        own: tokens that the policy sampled and the sampler scored.
        zeros: those with a log-prob of exactly 0.
        ends: own end tokens, of which `zero_ends` have exactly 0.
    """

    own: int = 0
    zeros: int = 0
    ends: int = 0
    zero_ends: int = 0
    _tokens: int = 0
    _size: float = 0.0
    _signed: float = 0.0
    _above: list[int] = field(default_factory=lambda: [0] * len(THRESHOLDS))
    _worst: list[tuple[float, int, Place]] = field(default_factory=list)

    def check(self, view: View) -> Iterator[Hit]:
        """Add a rollout; what is wrong with it alone is returned."""
        own = view.trajectory.own
        if own is None:
            return
        sampler, trainer = view.trajectory.behaviour_logps, None
        try:
            trainer = _trainer(view)
        except ValueError as error:
            yield Hit(code="trainer-logps-unusable", recorded=str(error))
        for logps, whose in ((sampler, "sampler"), (trainer, "trainer")):
            if logps is not None:
                yield from _impossible(view, logps, own, whose)
        if sampler is not None:
            yield from self._zeros(view, sampler, own)
            if trainer is not None:
                self._compare(view, sampler, trainer, own)

    def _zeros(self, view: View, logps: FloatArray, own: BoolArray) -> Iterator[Hit]:
        ends = sorted(view.scaffold.end_ids)
        for reply in view.replies:
            span = slice(reply.start - view.prompt, reply.stop - view.prompt)
            mine, zero = own[span], (logps[span] == 0.0) & own[span]
            n, last = int(mine.sum()), reply.stop - 1
            self.own += n
            self.zeros += int(zero.sum())
            if n >= _ALL_ZERO and int(zero.sum()) == n:
                yield _hit(view, "logps-zero", reply.turn, reply.start, n)
            if mine[-1] and int(view.ids[last]) in ends:
                self.ends += 1
                self.zero_ends += int(zero[-1])
                if zero[-1] and n > 1:
                    yield _hit(view, "end-appended", reply.turn, last, 1)

    def _compare(self, view: View, sampler: FloatArray, trainer: FloatArray, own: BoolArray) -> None:
        where = np.flatnonzero(own & _possible(sampler) & _possible(trainer))
        gap = sampler[where] - trainer[where]
        size = np.abs(gap)
        seen = self._tokens
        self._tokens += gap.size
        self._size += float(size.sum())
        self._signed += float(gap.sum())
        self._above = [n + int((size > limit).sum()) for n, limit in zip(self._above, THRESHOLDS, strict=True)]
        for k in np.argsort(-size, kind="stable")[:_WORST].tolist():
            at = int(where[k])
            if len(self._worst) < _WORST or size[k] > self._worst[0][0]:
                words = f"sampler {sampler[at]:.4g}, trainer {trainer[at]:.4g}"
                place = _place(view, view.prompt + at, words)
                # Of equal ones the first stays: the second entry decides, and it falls.
                entry = (float(size[k]), -(seen + k), place)
                (heapq.heappush if len(self._worst) < _WORST else heapq.heapreplace)(self._worst, entry)

    def gap(self) -> Gap | None:
        """What was seen so far; None when no token has both log-probs."""
        if not self._tokens:
            return None
        worst = sorted(self._worst, key=lambda entry: entry[:2], reverse=True)
        return Gap(
            tokens=self._tokens,
            mean=self._size / self._tokens,
            signed=self._signed / self._tokens,
            worst=worst[0][0],
            above={f"{limit:g}": n / self._tokens for limit, n in zip(THRESHOLDS, self._above, strict=True)},
            places=tuple(place for _, _, place in worst),
        )

    @property
    def zeros_elsewhere(self) -> float:
        """Share of exact zeros among the own tokens that do not end a reply."""
        rest = self.own - self.ends
        return (self.zeros - self.zero_ends) / rest if rest else 0.0


def _possible(logps: FloatArray) -> BoolArray:
    found: BoolArray = np.isfinite(logps) & (logps >= _LOWEST) & (logps <= _HIGHEST)
    return found


def _impossible(view: View, logps: FloatArray, own: BoolArray, whose: str) -> Iterator[Hit]:
    bad = np.flatnonzero(own & np.isfinite(logps) & ~_possible(logps))
    if bad.size:
        at = int(bad[0])
        place = _place(view, view.prompt + at, f"{whose} {logps[at]:.4g}")
        yield Hit(
            code="logps-impossible",
            turn=place.turn,
            index=place.index,
            recorded=place.recorded,
            instead=place.instead,
            tokens=bad.size,
        )


def _trainer(view: View) -> FloatArray | None:
    """The trainer's log-probs of every response token, NaN = unknown; None when there are none.

    Raises:
        ValueError: there is something under that name, and it is no list of so many numbers.
    """
    t = view.trajectory
    if TRAINER_LOGPS in t.token_columns:
        return t.token_columns[TRAINER_LOGPS]
    given = t.columns.get(TRAINER_LOGPS)
    if given is None:
        return None
    size = view.ids.size - view.prompt
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{TRAINER_LOGPS} is no list of numbers") from None
    if numbers.shape != (size,):
        raise ValueError(f"{TRAINER_LOGPS} has shape {numbers.shape}, the response {size} tokens")
    return numbers


def _place(view: View, index: int, words: str) -> Place:
    turn = next((reply.turn for reply in view.replies if reply.start <= index < reply.stop), None)
    return Place(trajectory=view.trajectory.id, turn=turn, index=index, recorded=view.around(index), instead=words)


def _hit(view: View, code: str, turn: int, index: int, tokens: int) -> Hit:
    return Hit(code=code, turn=turn, index=index, recorded=view.around(index), tokens=tokens)
