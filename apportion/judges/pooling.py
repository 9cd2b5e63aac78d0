"""From the samples of one rollout to its verdict, and to those of its criteria, with the evidence in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.judges.candidates import Sample
from apportion.judges.record import Judged
from apportion.judges.rubrics import Criterion, Rubric
from apportion.judges.samples import Pooled, Pooling, best_samples, pool_samples
from apportion.rewards import _arguments
from apportion.verdicts import Failed, Verdict

__all__ = ["Rule", "concluded"]


@dataclass(frozen=True, slots=True)
class Rule:
    """How samples become a verdict.

    Attributes:
        pooling: "mean", "median", "vote" or "sum".
        at_least: samples that must have a verdict.
        rubric: the criteria.
        bounds: the lowest and the highest value of one sample.
    """

    pooling: Pooling
    at_least: int
    rubric: Rubric
    bounds: tuple[float, float]

    def floor(self, samples: int) -> float:
        """The lowest verdict of so many samples."""
        return self.bounds[0] * (samples if self.pooling == "sum" else 1)

    def floored(self, why: str, samples: int) -> Judged:
        """The lowest verdict, without a question."""
        return Judged(self.floor(samples), why)


def concluded(
    rule: Rule, samples: Sequence[Sample], *, trust: Sequence[float | None] | None, flags: Sequence[str], source: str
) -> tuple[Pooled, Verdict, dict[str, Verdict]]:
    """The pooled number, the verdict, and the verdict of every criterion.

    Args:
        rule: how.
        samples: of one rollout.
        trust: of a meta judge, per sample; the better half (rounded up) of those with a verdict is pooled.
        flags: for the evidence.
        source: name and digest of the words, for the evidence.
    """
    used = list(samples)
    if trust is not None:
        known = [t if s.value is not None else None for t, s in zip(trust, samples, strict=True)]
        used = [samples[at] for at in best_samples(known, keep=(len(samples) + 1) // 2)]
    pooled = pool_samples([sample.value for sample in used], how=rule.pooling, at_least=rule.at_least)
    if pooled.value is None:
        return pooled, _nothing(samples, pooled), {}
    verdict = Judged(
        pooled.value,
        _words(rule, used, pooled, flags, source),
        spread=pooled.spread,
        read=pooled.read,
        asked=pooled.asked,
    )
    answered = [sample for sample in used if sample.answers]
    parts = {c.name: _part(rule, c, answered, len(used)) for c in rule.rubric.criteria} if answered else {}
    return pooled, verdict, parts


def _nothing(samples: Sequence[Sample], pooled: Pooled) -> Verdict:
    lost = [sample for sample in samples if sample.value is None]
    if not lost:
        return Failed(f"no verdict: {pooled.read} of {pooled.asked} samples were read, and they tie or are too few")
    return Failed(
        f"no verdict: {pooled.read} of {pooled.asked} samples were read; first: {_arguments.brief(lost[0].why, 700)}"
    )


def _part(rule: Rule, criterion: Criterion, samples: Sequence[Sample], asked: int) -> Verdict:
    values = [criterion.value(sample.answers[criterion.name]) for sample in samples]
    pooled = pool_samples(values, how=rule.pooling)
    if pooled.value is None:
        return Failed(f"no verdict on {criterion.name}: the samples tie")
    told = ", ".join(str(sample.answers[criterion.name]) for sample in samples)
    return Judged(pooled.value, f"{criterion.name}: {told}", spread=pooled.spread, read=len(values), asked=asked)


def _words(rule: Rule, used: Sequence[Sample], pooled: Pooled, flags: Sequence[str], source: str) -> str:
    read = [sample for sample in used if sample.value is not None]
    # The sample whose value is nearest to the pooled one speaks for all.
    per_sample = (pooled.value or 0.0) / (len(used) if rule.pooling == "sum" else 1)
    typical = min(read, key=lambda sample: abs((sample.value or 0.0) - per_sample))
    parts = [f"{pooled.read} of {pooled.asked} samples: {', '.join(f'{sample.value:g}' for sample in read)}"]
    if pooled.spread is not None:
        parts[0] += f" (spread {pooled.spread:.3g})"
    if typical.answers:
        parts.append(rule.rubric.words(typical.answers))
    parts.append(f"why: {_arguments.excerpt(typical.why, 260)}")
    if flags:
        parts.append(f"flags: {', '.join(flags)}")
    parts.append(source)
    return "; ".join(parts)
