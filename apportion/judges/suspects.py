"""Suspects: rollouts whose judge gave no verdict, again and again, while their siblings were judged.

A policy must not escape a bad score by breaking its judge. Who broke it cannot be proven from here; what is done is
declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from apportion.judges.record import Judged, Judgement
from apportion.rewards import _arguments
from apportion.verdicts import Abstained, Failed, Verdict

__all__ = ["OnSuspect", "with_suspects"]

OnSuspect: TypeAlias = Literal["floor", "abstain"]


def with_suspects(group: Sequence[Judgement], *, on_suspect: OnSuspect, floor: float) -> list[Judgement]:
    """The judgements of a group, with suspects marked and given their verdict.

    Suspect is a rollout all of whose samples failed by causes it may be behind (a reply that cannot be read, a refusal,
    a timeout; never an outage), when more than half of the other rollouts that were asked about have a verdict.

    Args:
        group: of one group.
        on_suspect: "floor" gives the lowest value; "abstain" none.
        floor: that value.
    """
    asked = [one for one in group if one.samples]
    return [_marked(one, asked, on_suspect, floor) if _broke(one) else one for one in group]


def _broke(one: Judgement) -> bool:
    return bool(one.samples) and isinstance(one.verdict, Failed) and all(sample.provoked for sample in one.samples)


def _marked(one: Judgement, asked: Sequence[Judgement], on_suspect: OnSuspect, floor: float) -> Judgement:
    siblings = [other for other in asked if other is not one]
    judged = sum(other.pooled.value is not None for other in siblings)
    if 2 * judged <= len(siblings):
        return one
    error = one.verdict.error if isinstance(one.verdict, Failed) else ""
    why = f"suspect: {judged} of {len(siblings)} siblings were judged, this one never; {_arguments.brief(error, 700)}"
    verdict: Verdict = Judged(floor, why, asked=one.pooled.asked) if on_suspect == "floor" else Abstained(why)
    return replace(one, verdict=verdict, suspect=True)
