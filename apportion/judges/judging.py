"""One step of a judge: the rollouts by group, what is known without asking, the questions, and the judgements."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from apportion.judges.answering import Answered, answered
from apportion.judges.canaries import Canaries, canary_result
from apportion.judges.candidates import Ask, Candidate, Plan, Sample, judged
from apportion.judges.contentless import contentless as why_contentless
from apportion.judges.exchange import Transport
from apportion.judges.flags import flags
from apportion.judges.orders import unshuffled
from apportion.judges.pooling import Rule, concluded
from apportion.judges.prompts import Prompt, Shows, candidate_pieces, reference_pieces, task_pieces
from apportion.judges.record import JudgeLog, Judgement
from apportion.judges.samples import Pooled
from apportion.judges.suspects import OnSuspect, with_suspects
from apportion.rewards.recorded import final_text, interrupted, require_text, require_turns
from apportion.rewards.running import Later, Limits, gather
from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Verdict

__all__ = ["Contentless", "Judgements", "Reference", "Run", "Trust"]

Trust: TypeAlias = Callable[[Trajectory, Sample], Awaitable[float | None]]
Contentless: TypeAlias = Literal["floor", "ask"]
Reference: TypeAlias = Literal["show", "hide"]
Judgements: TypeAlias = list[Judgement]

_UNASKED = Pooled(None, None, 0, 0)


@dataclass(frozen=True)
class Run:
    """All settings of a judge; called with the trajectories of one step."""

    transport: Transport
    plan: Plan
    rule: Rule
    shows: Shows
    reference: Reference
    reasks: int
    trust: Trust | None
    contentless: Contentless
    on_suspect: OnSuspect
    canaries: Canaries | None
    log: JudgeLog | None
    name: str

    def __call__(self, trajectories: Sequence[Trajectory], limits: Limits) -> Awaitable[Judgements]:
        """The judgements of these trajectories, in order, to await."""
        require_text(self.name, trajectories)
        if self.shows == "conversation":
            require_turns(self.name, trajectories)
        return Later(functools.partial(self._all, trajectories, limits))

    async def _all(self, trajectories: Sequence[Trajectory], limits: Limits) -> Judgements:
        groups: dict[str, list[int]] = {}
        for at, trajectory in enumerate(trajectories):
            groups.setdefault(trajectory.group, []).append(at)
        found = await gather(self._group([trajectories[at] for at in group], limits) for group in groups.values())
        places = [at for group in groups.values() for at in group]
        made = unshuffled(places, [one for group in found for one in group])
        if self.log is not None:
            self.log.judgements.extend(made)
        return made

    async def _group(self, group: Sequence[Trajectory], limits: Limits) -> Judgements:
        ask = functools.partial(self._ask, limits)
        settled = [self._without_asking(trajectory) for trajectory in group]
        if self.plan.context == "pairs" and settled.count(None) == 1:
            alone = settled.index(None)
            settled[alone] = self._record(group[alone], Abstained("there is nothing to compare it with"))
        asked = [t for t, known in zip(group, settled, strict=True) if known is None]
        candidates = [self._candidate(trajectory) for trajectory in asked]
        samples: list[list[Sample]]
        questions: list[Awaitable[Any]] = [judged(self.plan, candidates, ask), self._canaries(asked, candidates, ask)]
        samples, _ = await gather(questions)
        answers = iter(await gather(self._judgement(t, s) for t, s in zip(asked, samples, strict=True)))
        made = [known if known is not None else next(answers) for known in settled]
        return with_suspects(made, on_suspect=self.on_suspect, floor=self.rule.floor(self.plan.samples))

    async def _ask(self, limits: Limits, prompt: Prompt) -> Answered:
        answer = await answered(self.transport, prompt, limits=limits, reasks=self.reasks)
        if self.log is not None:
            self.log.add_cost(answer)
        return answer

    def _without_asking(self, trajectory: Trajectory) -> Judgement | None:
        broken = interrupted(trajectory)
        if broken is not None:
            return self._record(trajectory, broken)
        reason = why_contentless(final_text(trajectory)) if self.contentless == "floor" else None
        if reason is None:
            return None
        return self._record(trajectory, self.rule.floored(f"no content: {reason}", self.plan.samples), reason=reason)

    def _candidate(self, trajectory: Trajectory) -> Candidate:
        return Candidate(
            key=trajectory.id,
            task=task_pieces(trajectory),
            reference=reference_pieces(trajectory) if self.reference == "show" else [],
            pieces=lambda label: candidate_pieces(trajectory, label=label, shows=self.shows),
        )

    async def _canaries(self, asked: Sequence[Trajectory], candidates: Sequence[Candidate], ask: Ask) -> list[Any]:
        if self.canaries is None:
            return []
        picked = [(at, self.canaries.picked(f"{t.step} {t.id}")) for at, t in enumerate(asked)]
        results = await gather(canary_result(self.plan, candidates, at, bad, ask) for at, bad in picked if bad)
        if self.log is not None:
            self.log.canaries.extend(results)
        return results

    async def _judgement(self, trajectory: Trajectory, samples: Sequence[Sample]) -> Judgement:
        trust = None if self.trust is None else await gather(self.trust(trajectory, sample) for sample in samples)
        found = _flags(trajectory, self.shows)
        pooled, verdict, parts = concluded(self.rule, samples, trust=trust, flags=found, source=self._source)
        return self._record(trajectory, verdict, pooled=pooled, samples=samples, parts=parts, found=found)

    @property
    def _source(self) -> str:
        template = self.plan.template
        return f"{template.name} {template.version} ({template.digest()})"

    def _record(
        self,
        trajectory: Trajectory,
        verdict: Verdict,
        *,
        pooled: Pooled = _UNASKED,
        samples: Sequence[Sample] = (),
        parts: dict[str, Verdict] | None = None,
        found: tuple[str, ...] | None = None,
        reason: str | None = None,
    ) -> Judgement:
        return Judgement(
            id=trajectory.id,
            group=trajectory.group,
            verdict=verdict,
            pooled=pooled,
            samples=tuple(samples),
            parts=parts or {},
            flags=_flags(trajectory, self.shows) if found is None else found,
            length=sum(len(piece.text) for piece in candidate_pieces(trajectory, label="", shows=self.shows)),
            contentless=reason,
            template=self._source,
            rubric=self.plan.rubric.digest(),
            model=self.plan.server.model,
        )


def _flags(trajectory: Trajectory, shows: Shows) -> tuple[str, ...]:
    found = [flags(piece.text) for piece in candidate_pieces(trajectory, label="", shows=shows)]
    return tuple(dict.fromkeys(flag for one in found for flag in one))
