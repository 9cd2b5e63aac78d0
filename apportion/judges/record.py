"""What a judge found, in full: one `Judgement` per rollout, and the `JudgeLog` that reports on a run."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apportion.judges.answering import Answered
from apportion.judges.candidates import Sample
from apportion.judges.orders import consistency
from apportion.judges.samples import Pooled
from apportion.verdicts import Scored, Verdict

__all__ = ["CanaryResult", "JudgeLog", "Judged", "Judgement"]


@dataclass(frozen=True, slots=True)
class Judged(Scored):
    """A score of a judge, with what a noise-aware reader needs.

    Attributes:
        spread: standard deviation of the samples; None below two.
        read: samples with a verdict.
        asked: samples asked for; 0 where no model was asked.

    Example:
        >>> Judged(6.75, "7, 7, -, 6, 7", spread=0.5, read=4, asked=5).value
        6.75
    """

    spread: float | None = None
    read: int = 0
    asked: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """Everything about one rollout.

    Attributes:
        id: of the trajectory.
        group: of the trajectory.
        verdict: what observing gives.
        pooled: the samples together.
        samples: one by one.
        parts: by criterion, over all samples that have a verdict.
        flags: signs that its text speaks to the judge.
        length: characters of what was judged.
        contentless: why no model was asked; None when one was.
        suspect: it had no verdict while its siblings had one.
        template: name, version and digest of the words.
        rubric: digest of the criteria.
        model: who was asked.
    """

    id: str
    group: str
    verdict: Verdict
    pooled: Pooled
    samples: Sequence[Sample] = ()
    parts: Mapping[str, Verdict] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    length: int = 0
    contentless: str | None = None
    suspect: bool = False
    template: str = ""
    rubric: str = ""
    model: str = ""

    @property
    def failed(self) -> bool:
        """Whether a model was asked and gave no verdict."""
        return self.contentless is None and bool(self.samples) and self.pooled.value is None


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """A known-bad answer in the place of a rollout's.

    Attributes:
        key: which one.
        value: what the judge gave it; None without a verdict.
        accepted: whether the value is above the middle of the range; None without a verdict.
    """

    key: str
    value: float | None
    accepted: bool | None


@dataclass(slots=True)
class JudgeLog:
    """Collects judgements; give it to a `judge`, and ask it for a report after the run.

    Example:
        >>> JudgeLog().report()["judged"]
        0
    """

    judgements: list[Judgement] = field(default_factory=list)
    canaries: list[CanaryResult] = field(default_factory=list)
    questions: int = 0
    tokens: int = 0
    cached: int = 0

    def add_cost(self, answer: Answered) -> None:
        """Counts what one question cost, its further attempts included."""
        self.questions += answer.attempts
        self.tokens += answer.input_tokens + answer.output_tokens
        self.cached += answer.cached

    def report(self) -> dict[str, Any]:
        """The run in numbers, as plain data; None where nothing can be said.

        Returns:
            judged, contentless, failed, suspects: counts of rollouts. failure_rate: of those a model was asked about,
            in all, of the shorter and the longer half, and with and without a flag. flags: count of each. spread: mean
            over the rollouts that have one. false_positive_rate: of the canaries that got a verdict; canaries: how many
            were asked about. order_consistency: of pairs in both orders. questions, tokens: canaries included.
        """
        asked = [one for one in self.judgements if one.contentless is None and one.samples]
        middle = statistics.median(one.length for one in asked) if asked else 0
        known = [one.accepted for one in self.canaries if one.accepted is not None]
        spreads = [one.pooled.spread for one in asked if one.pooled.spread is not None]
        settled = [pair for one in asked for sample in one.samples for pair in sample.settled]
        return {
            "judged": len(self.judgements),
            "contentless": sum(one.contentless is not None for one in self.judgements),
            "failed": sum(one.failed for one in asked),
            "suspects": sum(one.suspect for one in asked),
            "failure_rate": {
                "all": _rate(asked, lambda _: True),
                "shorter half": _rate(asked, lambda one: one.length <= middle),
                "longer half": _rate(asked, lambda one: one.length > middle),
                "flagged": _rate(asked, lambda one: bool(one.flags)),
                "not flagged": _rate(asked, lambda one: not one.flags),
            },
            "flags": dict(sorted(Counter(flag for one in self.judgements for flag in one.flags).items())),
            "spread": statistics.fmean(spreads) if spreads else None,
            "canaries": len(self.canaries),
            "false_positive_rate": sum(known) / len(known) if known else None,
            "order_consistency": consistency(settled),
            "questions": self.questions,
            "answered from store": self.cached,
            "tokens": self.tokens,
        }


def _rate(asked: Sequence[Judgement], which: Callable[[Judgement], bool]) -> float | None:
    chosen = [one.failed for one in asked if which(one)]
    return sum(chosen) / len(chosen) if chosen else None
