"""Inverse specification: a model sees only the result and says what was asked for; the score is how well it guessed.

    value = sum_f w_f match_f(predicted_f, asked_f) / sum_f w_f

The model never sees the request, and gives texts and counts, never a score: talking it into a verdict gains nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from apportion.errors import InvalidArgument
from apportion.judges.answering import answered
from apportion.judges.builtin import INVERSE
from apportion.judges.contentless import contentless
from apportion.judges.exchange import Transport
from apportion.judges.forms import Slot, Text, checked_form
from apportion.judges.grammar import Read
from apportion.judges.prompts import Server, build, candidate_pieces
from apportion.judges.templates import Template
from apportion.rewards import _arguments
from apportion.rewards.function import FunctionReward
from apportion.rewards.recorded import final_text, interrupted
from apportion.rewards.running import UNLIMITED
from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["Field", "count_ratio", "exact_or_part", "inverse_specification", "recall"]

Match: TypeAlias = Callable[[Any, Any], float]

_WORD = re.compile(r"[^\W_]+")
_STOP = frozenset(
    {
        *("a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "have", "in", "is", "it", "its"),
        *("of", "on", "or", "that", "the", "their", "this", "to", "was", "were", "with"),
    }
)
_TEXT = Text(500)


def _words(text: Any) -> set[str]:
    return {word for word in _WORD.findall(str(text).casefold()) if word not in _STOP}


def recall(predicted: Any, asked: Any) -> float:
    """The share of what was asked for that was predicted, by words; 0 when nothing was asked for.

    Example:
        >>> recall("a talk on cats and dogs", "cats, dogs, birds, fish")
        0.5
    """
    wanted = _words(asked)
    return len(wanted & _words(predicted)) / len(wanted) if wanted else 0.0


def exact_or_part(predicted: Any, asked: Any) -> float:
    """1 when equal, 0.7 when one holds the other, otherwise 0.4 times the share of its words.

    Example:
        >>> exact_or_part("Engineers", "engineers"), exact_or_part("senior engineers", "engineers")
        (1.0, 0.7)
    """
    one, other = (" ".join(str(text).casefold().split()) for text in (predicted, asked))
    if not one or not other:
        return 0.0
    if one == other:
        return 1.0
    return 0.7 if one in other or other in one else 0.4 * recall(predicted, asked)


def count_ratio(predicted: Any, asked: Any) -> float:
    """The smaller count over the larger; 0 where either is not positive.

    Example:
        >>> count_ratio(8, 10)
        0.8
    """
    low, high = sorted((float(predicted), float(asked)))
    return low / high if low > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Field:
    """One part of a request.

    Attributes:
        question: what the model is asked.
        match: (predicted, asked) -> a number in [0, 1].
        weight: > 0.
        slot: what the model may answer; default a text.
    """

    question: str
    match: Match = recall
    weight: float = 1.0
    slot: Slot = _TEXT

    def __post_init__(self) -> None:
        _arguments.text("question", self.question)
        if _arguments.number("weight", self.weight, at_least=0) == 0:
            raise InvalidArgument("weight", self.weight, "a number > 0")


def inverse_specification(
    transport: Transport,
    *,
    server: Server,
    fields: Mapping[str, Field],
    asked: Callable[[Trajectory], Mapping[str, Any] | None],
    reasks: int = 1,
    template: Template = INVERSE,
    name: str = "inverse specification",
) -> FunctionReward:
    """How much of its request a result gives away.

    Args:
        transport: carries requests.
        server: which model; temperature 0.
        fields: parts of the request, by name.
        asked: the true values of a trajectory, one per field; None where it has none.
        reasks: how often a reply that cannot be read is asked for again.
        template: the words.
        name: what the verdicts are called.

    Returns:
        An async TRAJECTORY observer in [0, 1]; evidence field by field. A result without content earns 0; it abstains
        where nothing is known of the request; a reply that cannot be read, and one that does not come, is `Failed`.

    Raises:
        InvalidArgument: no fields, names that a verdict line cannot hold, or a weight that is not positive.

    Example:
        >>> from apportion.judges.forms import Number
        >>> parts = {"topic": Field("What is it about?"), "pages": Field("How many?", count_ratio, 0.5, Number(0, 99))}
        >>> from apportion.judges.exchange import Response
        >>> from apportion.rewards import observe
        >>> from apportion.rollouts import Turn
        >>> class Guesses:
        ...     async def ask(self, request):
        ...         code = request.messages[1].content.rsplit("VERDICT ", 1)[1][:8]
        ...         return Response(f'VERDICT {code}: topic="cats"; pages=8')
        ...     async def aclose(self): ...
        >>> guess = inverse_specification(Guesses(), server=Server("judge"), fields=parts, asked=lambda t: t.columns)
        >>> true = {"topic": "cats, dogs", "pages": 10}
        >>> made = Trajectory(id="r", group="q", turns=[Turn(text="Cats purr.")], columns=true)
        >>> observe([guess], [made])["inverse specification"][0].value
        0.6

    Source: the reward of the slide-forge repository, without its 0 for an outage; matchers and weights are arguments.
    """
    form = checked_form({field_name: field.slot for field_name, field in fields.items()})
    _arguments.whole("reasks", reasks, at_least=0)
    questions = "\n".join(f"- {field_name}: {field.question}" for field_name, field in fields.items())

    async def guess(trajectory: Trajectory) -> Verdict:
        broken = interrupted(trajectory)
        truth = asked(trajectory)
        if broken is not None or truth is None:
            return broken or Abstained("nothing is known of the request")
        missing = sorted(set(fields) - set(truth))
        if missing:
            return Failed(f"the request lacks {', '.join(missing)}")
        empty = contentless(final_text(trajectory))
        if empty is not None:
            return Scored(0.0, f"no content: {empty}")
        material = {"candidates": candidate_pieces(trajectory, label="result", shows="answer")}
        prompt = build(template, material=material, words={"criteria": questions}, form=form, server=server)
        reply = (await answered(transport, prompt, limits=UNLIMITED, reasks=reasks)).reply
        return _matched(fields, reply.values, truth) if isinstance(reply, Read) else Failed(f"no verdict: {reply}")

    return FunctionReward(guess, _arguments.text("name", name))


def _matched(fields: Mapping[str, Field], predicted: Mapping[str, Any], truth: Mapping[str, Any]) -> Verdict:
    total = sum(field.weight for field in fields.values())
    shown: list[str] = []
    value = 0.0
    for name, field in fields.items():
        match = field.match(predicted[name], truth[name])
        value += field.weight * match / total
        told = _arguments.excerpt(predicted[name], 60)
        shown.append(f"{name} {match:.3g} (weight {field.weight:g}, guessed {told})")
    return Scored(value, "; ".join(shown))
