"""A judge's opinion as the reward, normalised in its group: any judge, all rollouts in one context, or k votes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from apportion import advantages as adv
from apportion.batch import Batch
from apportion.judges.builtin import PRINCIPLES
from apportion.judges.exchange import Transport
from apportion.judges.judge import judge as ask_judge
from apportion.judges.prompts import Server, Shows
from apportion.judges.rubrics import Rubric, points
from apportion.recipe import Recipe, State
from apportion.recipes.files import defined_in
from apportion.recipes.note_inputs import GivenReward, reward_of
from apportion.rewards import Truncated, outcome
from apportion.rewards.base import Reward
from apportion.signal import Signal

__all__ = ["grm", "judge", "ruler_like"]

Asked: TypeAlias = Transport | str | None

_SCORE = Rubric((points("score", "How good is the answer, by the task and what it asks for?"),))


def judge(
    *,
    judge: GivenReward = None,
    column: str = "judge_score",
    dialect: str = "apportion",
    truncated: Truncated = "keep",
) -> Recipe:
    """A judge's verdict, normalised in its group.

        A = (v - mean) / std over the rollouts of the group that have a verdict

    Args:
        judge: a TRAJECTORY reward, such as `apportion.judges.judge(...)`, or a Python file that defines `judge`;
            default the column.
        column: trajectory column of recorded verdicts.
        dialect: whose GRPO.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: a rollout without a verdict leaves its group; a group in which fewer than two have one gets 0.

    Raises:
        InvalidArgument: something that is no reward, or one of another level.
        MissingInput: neither a judge nor the column.

    Source: a model as the judge: arXiv 2306.05685; the composition is our own.
    """
    given: Reward | str = column if judge is None else reward_of(judge, argument="judge")
    settings = {"judge": getattr(judge, "name", judge)}
    return _recipe("judge", given, settings, column=column, dialect=dialect, truncated=truncated)


def ruler_like(
    *,
    transport: Asked = None,
    model: str = "judge",
    samples: int = 1,
    shows: Shows = "conversation",
    column: str = "judge_score",
    dialect: str = "apportion",
    truncated: Truncated = "keep",
) -> Recipe:
    """All rollouts of a group are judged in one context, and their scores normalised in the group.

        v_1 .. v_n = one answer about all n rollouts, shuffled for every sample        A = (v - mean) / std

    Args:
        transport: carries requests to the model, or a Python file that defines `transport`; default the column.
        model: what the server calls it.
        samples: k, each in another order.
        shows: the whole "conversation" (needs the turn table), or the last "answer".
        column: trajectory column of recorded verdicts.
        dialect: whose GRPO.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: an answer that lacks one score fails the whole group, whose advantages are 0.

    Raises:
        InvalidArgument: samples below 1.
        MissingInput: neither a transport nor the column.

    Source: the idea is that of RULER in the ART library, which has no paper (a model as the judge: arXiv 2306.05685);
    prompt, parser and shuffles are ours.
    """
    given: Reward | str = column
    if transport is not None:
        given = ask_judge(
            _transport(transport), server=Server(model), rubric=_SCORE, context="group", shows=shows, samples=samples
        )
    settings = {"transport": _shown(transport), "model": model, "samples": samples, "shows": shows}
    return _recipe("ruler_like", given, settings, column=column, dialect=dialect, truncated=truncated)


def grm(
    *,
    transport: Asked = None,
    model: str = "judge",
    samples: int = 8,
    temperature: float = 0.5,
    shows: Shows = "answer",
    column: str = "judge_score",
    dialect: str = "apportion",
    truncated: Truncated = "keep",
) -> Recipe:
    """A model derives principles, criticises by them and scores 1 to 10; k such votes are added up.

        S*_j = sum_s S_{j,s}        A = (S* - mean) / std over the group

    Args:
        transport: carries requests to the model, or a Python file that defines `transport`; default the column.
        model: what the server calls it.
        samples: k, each in another order; the paper votes over up to 32.
        temperature: of the samples; the paper's 0.5.
        shows: the last "answer", or the whole "conversation" (needs the turn table).
        column: trajectory column of recorded votes.
        dialect: whose GRPO.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: a vote that cannot be read is left out, and the sum is scaled to k votes; without any the group is
    unknown and its advantages are 0.

    Raises:
        InvalidArgument: samples below 1 or a negative temperature.
        MissingInput: neither a transport nor the column.

    Source: arXiv 2504.02495 (DeepSeek-GRM); the words of the prompt are ours, and the model is not one trained for it.
    """
    given: Reward | str = column
    if transport is not None:
        given = ask_judge(
            _transport(transport),
            server=Server(model, temperature=temperature, max_tokens=4096),
            rubric=_SCORE,
            context="group",
            template=PRINCIPLES,
            shows=shows,
            samples=samples,
            pooling="sum",
        )
    settings = {
        "transport": _shown(transport),
        "model": model,
        "samples": samples,
        "temperature": temperature,
        "shows": shows,
    }
    return _recipe("grm", given, settings, column=column, dialect=dialect, truncated=truncated)


def _transport(given: Transport | str) -> Transport:
    found: Transport = defined_in(given, "transport", argument="transport") if isinstance(given, str) else given
    return found


def _shown(given: Asked) -> str | None:
    return given if given is None or isinstance(given, str) else type(given).__name__


# Of a model as the judge in general, and of votes; RULER has no paper.
_PAPERS: Mapping[str, str] = {"judge": "2306.05685", "ruler_like": "2306.05685", "grm": "2504.02495"}
_REBUILT: Mapping[str, str] = {
    "judge": "",
    "ruler_like": "after the documentation of RULER; prompt, parser and shuffles are ours",
    "grm": "the words of the prompt are ours; the paper's reward models are trained for this format",
}


def _recipe(
    name: str,
    given: Reward | str,
    settings: Mapping[str, object],
    *,
    column: str,
    dialect: str,
    truncated: Truncated,
) -> Recipe:
    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        return adv.grpo(signals["judge"], dialect=dialect)

    remedy = "judge=" if name == "judge" else "transport="
    told = f"give {remedy} (an object, or a Python file that defines `{remedy[:-1]}`), or record verdicts"
    return Recipe(
        name=name,
        observers=[outcome(given, truncated=truncated, name="judge", remedy=told)],
        assign_signals=assign,
        aggregation=adv.dialect(dialect).aggregation,
        scope="group",
        paper=_PAPERS[name],
        needs=(f"trajectory column {column!r}, or {remedy}",) if isinstance(given, str) else (),
        reconstruction=_REBUILT[name],
        parameters={**settings, "column": column, "dialect": dialect, "truncated": truncated},
    )
