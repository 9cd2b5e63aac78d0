"""What is judged: candidates of one task, alone, two at a time, or all in one context; each way gives k samples."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from apportion.judges.answering import Answered
from apportion.judges.builtin import PAIR
from apportion.judges.fencing import Piece
from apportion.judges.forms import Choice, Form, Slot
from apportion.judges.grammar import Read
from apportion.judges.orders import Settled, label_of, order_of, settle_pair, unshuffled
from apportion.judges.prompts import Prompt, Server, build
from apportion.judges.rubrics import Rubric
from apportion.judges.templates import Template
from apportion.rewards import _arguments
from apportion.rewards.running import gather

__all__ = ["Ask", "Candidate", "Context", "Plan", "Sample", "judged"]

Context: TypeAlias = Literal["alone", "pairs", "group"]
Ask: TypeAlias = Callable[[Prompt], Awaitable[Answered]]

_CRITIQUE = 240


@dataclass(frozen=True, slots=True)
class Candidate:
    """One answer to a task.

    Attributes:
        key: tells it from its siblings; fixes the shuffles.
        task: what was asked, as pieces.
        reference: the gold answer, as pieces.
        pieces: the answer, given the label under which it is shown.
    """

    key: str
    task: Sequence[Piece]
    reference: Sequence[Piece]
    pieces: Callable[[str], Sequence[Piece]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One judgement of one candidate.

    Attributes:
        value: what it is worth; None without a verdict.
        answers: by criterion; empty for pairs and without a verdict.
        why: the judge's words, cut; without a verdict, what went wrong.
        provoked: there is no verdict, and the rollout itself may be why.
        settled: for pairs, what both orders of each pair say.
    """

    value: float | None
    answers: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    provoked: bool = False
    settled: Sequence[Settled] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """How candidates are judged.

    Attributes:
        context: "alone", "pairs" (each with each, in both orders) or "group" (all at once, shuffled).
        template: the words.
        rubric: the criteria.
        server: how the model is asked.
        samples: k.
    """

    context: Context
    template: Template
    rubric: Rubric
    server: Server
    samples: int


async def judged(plan: Plan, candidates: Sequence[Candidate], ask: Ask) -> list[list[Sample]]:
    """Samples of each candidate, in order; all questions under way together, as far as `ask` allows.

    Args:
        plan: how.
        candidates: of one task.
        ask: gives what came of one prompt.
    """
    one = {"alone": _alone, "pairs": _pairs, "group": _group}[plan.context]
    rounds = await gather(one(plan, candidates, ask, k) for k in range(plan.samples))
    return [list(samples) for samples in zip(*rounds, strict=True)] if rounds else []


async def _alone(plan: Plan, candidates: Sequence[Candidate], ask: Ask, k: int) -> list[Sample]:
    return list(itertools.chain(*await gather(_context(plan, [one], ask, k) for one in candidates)))


async def _group(plan: Plan, candidates: Sequence[Candidate], ask: Ask, k: int) -> list[Sample]:
    order = order_of(len(candidates), seed="\0".join(one.key for one in candidates), sample=k)
    return unshuffled(order, await _context(plan, [candidates[at] for at in order], ask, k))


async def _context(plan: Plan, shown: Sequence[Candidate], ask: Ask, k: int) -> list[Sample]:
    """One question about the candidates, in the order shown."""
    labels = [label_of(place) for place in range(len(shown))]
    single = len(shown) == 1
    slots: dict[str, Slot] = {
        (name if single else f"{label}.{name}"): slot for label in labels for name, slot in plan.rubric.form.items()
    }
    answer = await ask(_prompt(plan, plan.template, labels, shown, slots, f"sample {k}"))
    if not isinstance(answer.reply, Read):
        return [_none(answer)] * len(shown)
    found: list[Sample] = []
    for label in labels:
        answers = {name: answer.reply.values[name if single else f"{label}.{name}"] for name in plan.rubric.form}
        told = _arguments.brief(answer.reply.critique, _CRITIQUE)
        found.append(Sample(plan.rubric.value(answers), answers, told))
    return found


async def _pairs(plan: Plan, candidates: Sequence[Candidate], ask: Ask, k: int) -> list[Sample]:
    places = list(itertools.combinations(range(len(candidates)), 2))
    asked = [
        _prompt(plan, PAIR, ("A", "B"), (candidates[one], candidates[other]), _PAIR_FORM, f"sample {k}")
        for i, j in places
        for one, other in ((i, j), (j, i))
    ]
    answers = await gather(ask(prompt) for prompt in asked)
    met: list[list[tuple[Settled, Answered, Answered]]] = [[] for _ in candidates]
    for (i, j), first, second in zip(places, answers[::2], answers[1::2], strict=True):
        met[i].append((settle_pair(_winner(first, "A", "B"), _winner(second, "B", "A")), first, second))
        met[j].append((settle_pair(_winner(first, "B", "A"), _winner(second, "A", "B")), first, second))
    return [_record(one) for one in met]


_PAIR_FORM: Form = {"winner": Choice(("A", "B", "tie"))}


def _winner(answer: Answered, me: str, opponent: str) -> str | None:
    """Who won, as seen by one of the two: A is the one whose view it is."""
    if not isinstance(answer.reply, Read):
        return None
    return {me: "A", opponent: "B", "tie": "tie"}[answer.reply.values["winner"]]


def _record(met: Sequence[tuple[Settled, Answered, Answered]]) -> Sample:
    """The share of decided pairs that one candidate won; a tie is half."""
    known = [settled.winner for settled, _, _ in met if settled.winner is not None]
    both = [answer for _, *pair in met for answer in pair]
    settled = tuple(one for one, _, _ in met)
    if not known:
        lost = [answer for answer in both if not isinstance(answer.reply, Read)]
        why = str(lost[0].reply) if lost else "there was nothing to compare it with"
        return Sample(None, why=why, provoked=all(answer.provoked for answer in lost), settled=settled)
    won = sum({"A": 1.0, "tie": 0.5, "B": 0.0}[winner] for winner in known)
    return Sample(won / len(known), why=f"{won:g} of {len(known)} pairs won", settled=settled)


def _prompt(
    plan: Plan, template: Template, labels: Sequence[str], shown: Sequence[Candidate], form: Form, tag: str
) -> Prompt:
    material = {
        "task": shown[0].task,
        "reference": shown[0].reference,
        "candidates": [
            piece for label, one in zip(labels, shown, strict=True) for piece in one.pieces(f"candidate {label}")
        ],
    }
    words = {"criteria": plan.rubric.questions()}
    return build(template, material=material, words=words, form=form, server=plan.server, tag=tag)


def _none(answer: Answered) -> Sample:
    return Sample(None, why=str(answer.reply), provoked=answer.provoked)
