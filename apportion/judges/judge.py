"""`judge`: a reward that asks a model, and abstains or fails where the model says nothing that can be read."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, get_args

from apportion.errors import InvalidArgument
from apportion.judges.builtin import ALONE, PAIR, TOGETHER
from apportion.judges.canaries import Canaries
from apportion.judges.candidates import Context, Plan
from apportion.judges.exchange import Transport
from apportion.judges.judging import Contentless, Judgements, Reference, Run, Trust
from apportion.judges.pooling import Rule
from apportion.judges.prompts import Server, Shows
from apportion.judges.record import JudgeLog, Judgement
from apportion.judges.rubrics import Rubric, scale
from apportion.judges.samples import Pooling
from apportion.judges.suspects import OnSuspect
from apportion.judges.templates import Template
from apportion.rewards import _arguments
from apportion.rewards.asking import AskedOnce
from apportion.rewards.base import Composable, Observation, Role
from apportion.rewards.running import UNLIMITED, Later, Limits
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["SCORE", "Judge", "JudgePart", "judge"]

SCORE = Rubric((scale("score", "How well does the answer do what the task asks?", low=1, high=10),))


@dataclass(frozen=True, eq=False)
class JudgePart(Composable):
    """One number of what a judge found; all parts of a judge share its questions.

    Attributes:
        asked: the judge, asked once.
        pick: the verdict of one judgement.
        name: what the verdicts are called.
        part_role: "outcome" or "metric".
    """

    asked: AskedOnce[Judgements]
    pick: Callable[[Judgement], Verdict]
    name: str
    part_role: Role = "outcome"
    level: ClassVar[Level] = Level.TRAJECTORY

    @property
    def role(self) -> Role:
        """As given."""
        return self.part_role

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation | Awaitable[Observation]:
        """The verdicts, in the order of `trajectories`, to await."""
        return self.observe_within(trajectories, UNLIMITED)

    def observe_within(
        self, trajectories: Sequence[Trajectory], limits: Limits
    ) -> Observation | Awaitable[Observation]:
        """Like `observe`, with limits on the time of each question and on how many are under way."""
        found = self.asked(trajectories, limits)
        if isinstance(found, list):
            return [self.pick(one) for one in found]
        return Later(functools.partial(self._wait, found), found)

    async def _wait(self, found: Awaitable[Judgements]) -> Observation:
        return [self.pick(one) for one in await found]


@dataclass(frozen=True, eq=False)
class Judge(JudgePart):
    """See `judge`.

    Attributes:
        rubric: the criteria.
    """

    rubric: Rubric = SCORE

    def spread(self) -> JudgePart:
        """The standard deviation of the samples, as a metric named "<name> spread"; absent below two samples."""
        return JudgePart(self.asked, _spread, f"{self.name} spread", "metric")

    def criteria(self) -> tuple[JudgePart, ...]:
        """One reward per criterion, named "<name> <criterion>", each before its weight: what `vector` takes."""
        return tuple(
            JudgePart(self.asked, functools.partial(_criterion, c.name), f"{self.name} {c.name}")
            for c in self.rubric.criteria
        )


def judge(
    transport: Transport,
    *,
    server: Server,
    rubric: Rubric = SCORE,
    context: Context = "alone",
    template: Template | None = None,
    shows: Shows = "answer",
    reference: Reference = "show",
    samples: int = 1,
    pooling: Pooling = "mean",
    at_least: int = 1,
    reasks: int = 1,
    trust: Trust | None = None,
    contentless: Contentless = "floor",
    on_suspect: OnSuspect = "floor",
    canaries: Canaries | None = None,
    log: JudgeLog | None = None,
    name: str = "judge",
) -> Judge:
    r"""A model's opinion of each rollout, pooled over k samples.

        value = pool over samples s of sum_c w_c v_{s,c} / sum_{c: w_c > 0} w_c        alone, group
        value = pool over samples s of (wins + ties / 2) / pairs                        pairs

    What the policy wrote stands between fences (`apportion.judges.fencing`); a verdict counts once, in the last line,
    with the code of its request. That makes it harder to talk a judge into a verdict; it does not make it impossible.

    Args:
        transport: carries requests; with its own retries, cache, budget and limits.
        server: which model, and how it is asked.
        rubric: the criteria; default one score from 1 to 10, brought to [0, 1].
        context: "alone"; "group", all rollouts of a group in one context, shuffled anew for every sample; or "pairs",
            each with each of its group, in both orders.
        template: the words; default those of the context. Its version and digest enter every record.
        shows: the last "answer", or the whole "conversation" (needs the turn table).
        reference: "show" the trajectory's reference to the judge, or "hide" it.
        samples: k; with temperature 0 alone they differ only by their order in a group.
        pooling: "mean", "median", "vote" or "sum".
        at_least: samples that must have a verdict; fewer is `Failed`.
        reasks: how often a reply that cannot be read is asked for again.
        trust: a meta judge: a number per sample, higher is better; the better half (rounded up) is pooled.
        contentless: an answer without content (see `apportion.judges.contentless`) earns the "floor" without a
            question, or is asked about all the same. Only the last answer is looked at.
        on_suspect: what a rollout earns that had no verdict, by causes it may be behind, while its siblings had one:
            the "floor" or "abstain".
        canaries: known-bad answers to be judged beside the rollouts.
        log: collects the judgements in full, for `JudgeLog.report`.
        name: what the verdicts are called.

    Returns:
        An async TRAJECTORY observer; its scores are `Judged`, with spread and counts. `.spread()` and `.criteria()` are
        observers of the same answers.

    Degenerate cases: a rollout that the infrastructure aborted is `Failed`. A lone rollout is judged alone in "group"
    and is absent in "pairs". A reply that is unparsable, out of range, refused, late, cut off or gives two verdicts is
    `Failed` with its text, never a number; in "group" it fails the whole group: nobody knows whose scores shifted.

    Raises:
        InvalidArgument: no transport, samples below 1, `at_least` beyond them, or an unknown choice.
        MissingInput: rollouts without text, or without turns where the conversation is shown.

    Example:
        >>> from apportion.judges.exchange import Response
        >>> class Seven:
        ...     async def ask(self, request):
        ...         code = request.messages[1].content.rsplit("VERDICT ", 1)[1][:8]
        ...         return Response(f"Fine.\nVERDICT {code}: score=7")
        ...     async def aclose(self): ...
        >>> from apportion.rollouts import Turn
        >>> from apportion.rewards import observe
        >>> opinion = judge(Seven(), server=Server("judge"))
        >>> verdict = observe([opinion], [Trajectory(id="r", group="q", turns=[Turn(text="4")])])["judge"][0]
        >>> round(verdict.value, 4), verdict.read
        (0.6667, 1)

    Source: our own; k samples, shuffles and the meta judge as in DeepSeek-GRM (arXiv 2504.02495).
    """
    if not isinstance(transport, Transport):
        raise InvalidArgument("transport", transport, "what carries requests: an object with `ask` and `aclose`")
    _arguments.whole("samples", samples, at_least=1)
    _arguments.whole("reasks", reasks, at_least=0)
    if _arguments.whole("at_least", at_least, at_least=1) > samples:
        raise InvalidArgument("at_least", at_least, f"at most samples={samples}")
    for argument, value, kind in (
        ("context", context, Context),
        ("shows", shows, Shows),
        ("reference", reference, Reference),
        ("pooling", pooling, Pooling),
        ("contentless", contentless, Contentless),
        ("on_suspect", on_suspect, OnSuspect),
    ):
        _arguments.choice(argument, value, get_args(kind))
    words = template or {"alone": ALONE, "group": TOGETHER, "pairs": PAIR}[context]
    run = Run(
        transport,
        Plan(context, words, rubric, server, samples),
        Rule(pooling, at_least, rubric, (0.0, 1.0) if context == "pairs" else rubric.bounds),
        shows,
        reference,
        reasks,
        trust,
        contentless,
        on_suspect,
        canaries,
        log,
        _arguments.text("name", name),
    )
    return Judge(AskedOnce(run), _verdict, name, rubric=rubric)


def _verdict(one: Judgement) -> Verdict:
    return one.verdict


def _spread(one: Judgement) -> Verdict:
    if one.pooled.spread is None:
        return Abstained(f"{one.pooled.read} samples have a verdict; a spread needs two")
    return Scored(one.pooled.spread, f"over {one.pooled.read} of {one.pooled.asked} samples")


def _criterion(name: str, one: Judgement) -> Verdict:
    if name in one.parts:
        return one.parts[name]
    if isinstance(one.verdict, Failed):
        return one.verdict
    return Abstained("judged as a whole" if one.contentless is None else f"no content: {one.contentless}")
