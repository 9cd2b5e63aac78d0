"""What a re-scorer is, and the checks that every backend makes before it asks its model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from apportion.errors import InvalidArgument
from apportion.judges.scoring.request import Answer, Request
from apportion.verdicts import Abstained

__all__ = ["Answers", "Rescorer", "Vocabulary", "same_vocabulary"]

# Per request one answer per boundary.
Answers: TypeAlias = list[list[Answer]]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Which token every id stands for.

    Attributes:
        name: of the tokenizer or model, for messages.
        size: ids 0 .. size-1 are tokens. A model may have more outputs (padding): those are never scored.
        digest: of the token-to-id table; "" when only the size is known.
    """

    name: str
    size: int
    digest: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise InvalidArgument("size", self.size, "a whole number of tokens >= 1")

    @classmethod
    def of(cls, tokenizer: Any, *, name: str | None = None) -> Vocabulary:
        """The vocabulary of a tokenizer with `get_vocab()`, added tokens included.

        Args:
            tokenizer: e.g. one of transformers.
            name: for messages; default: its `name_or_path`, else its type.

        Returns:
            Its size (largest id + 1) and the digest of its table.

        Example:
            >>> class Words:
            ...     def get_vocab(self):
            ...         return {"Hello": 5, "World": 1}
            >>> Vocabulary.of(Words()).size
            6
        """
        table = sorted((int(index), token) for token, index in tokenizer.get_vocab().items())
        digest = hashlib.sha256(repr(table).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return cls(name or getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__, table[-1][0] + 1, digest)


@runtime_checkable
class Rescorer(Protocol):
    """Anything that gives log-probabilities of given tokens after given contexts.

    Attributes:
        name: which weights, for messages and recordings: two models never share one.
        vocabulary: which token every id stands for.
    """

    @property
    def name(self) -> str:
        """Which weights."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Which token every id stands for."""

    def score(self, requests: Sequence[Request], *, temperature: float = 1.0) -> Answers:
        """The log-probability of every target token under softmax(logits / temperature).

            answers[i][k].values[j] = log p(targets[k][j] | ids[:at[k]], lead, targets[k][:j]) of requests[i]

        Args:
            requests: token ids inside `vocabulary`.
            temperature: > 0, divides the logits. A backend whose engine ignores it for prompts refuses all but 1.

        Returns:
            Per request one answer per boundary: `LogProbs`; `Abstained` where there is nothing to score (empty target,
            no token before it) or it is over the limits; `Failed` where the model or its server did not answer.

        Raises:
            InvalidArgument: an id outside the vocabulary, a temperature that cannot be honoured.
        """


def same_vocabulary(first: Vocabulary, second: Vocabulary) -> None:
    """Refuses to compare two models whose ids stand for different tokens.

    Args:
        first: of one model, e.g. the student.
        second: of the other, e.g. the teacher.

    Raises:
        InvalidArgument: sizes differ (both are named), or both tables are known and differ.

    Example:
        >>> same_vocabulary(Vocabulary("student", 6, "ab"), Vocabulary("teacher", 6, "cd"))
        Traceback (most recent call last):
            ...
        apportion.errors.InvalidArgument: vocabulary='teacher': expected the tokens of 'student': both have 6 tokens,
        but an id stands for different ones (tables ab and cd)
    """
    if first.size != second.size:
        listed = f"{first.name!r} has {first.size} and {second.name!r} has {second.size}"
        raise InvalidArgument("vocabulary", second.name, f"as many tokens as {first.name!r}: {listed}")
    if first.digest and second.digest and first.digest != second.digest:
        tables = f"both have {first.size} tokens, but an id stands for different ones"
        raise InvalidArgument(
            "vocabulary",
            second.name,
            f"the tokens of {first.name!r}: {tables} (tables {first.digest} and {second.digest})",
        )


def checked(requests: Sequence[Request], vocabulary: Vocabulary, temperature: float) -> None:
    """Raises `InvalidArgument` for what is wrong with the set-up: types, temperature, ids of another vocabulary."""
    strangers = [type(request).__name__ for request in requests if not isinstance(request, Request)]
    if strangers:
        raise InvalidArgument("requests", strangers, "Request objects")
    number = isinstance(temperature, (int, float)) and not isinstance(temperature, bool)
    if not number or not 0 < temperature < float("inf"):
        raise InvalidArgument("temperature", temperature, "a finite number > 0")
    offenders = []
    for index, request in enumerate(requests):
        parts = (request.ids, request.lead, *{id(target): target for target in request.targets}.values())
        largest = max((int(part.max()) for part in parts if part.size), default=-1)
        if largest >= vocabulary.size:
            offenders.append(f"request {index} has {largest}")
    if offenders:
        listed = ", ".join(offenders[:5]) + (f" and {len(offenders) - 5} more" if len(offenders) > 5 else "")
        raise InvalidArgument(
            "requests",
            listed,
            f"ids below {vocabulary.size}, the tokens of {vocabulary.name!r}; was another tokenizer used?",
        )


def only_temperature_one(temperature: float, engine: str) -> None:
    """Raises `InvalidArgument` unless the temperature is 1: `engine` would ignore any other."""
    if temperature != 1:
        raise InvalidArgument("temperature", temperature, f"1, since {engine} does not apply it to prompt tokens")


def excuses(request: Request, *, longest: int | None) -> list[Abstained | None]:
    """Per boundary why there is nothing to score, or None.

    Args:
        request: what is asked.
        longest: the most tokens that the model reads at once, context and target together; None = no limit.
    """
    contexts = request.at + request.lead.size
    found: list[Abstained | None] = []
    for size, target in zip(contexts.tolist(), request.targets, strict=True):
        reason = None
        if not target.size:
            reason = "the target is empty"
        elif not size:
            reason = "no token precedes the target"
        elif longest is not None and size + target.size > longest:
            reason = f"{size} context and {target.size} target tokens exceed the limit of {longest}"
        found.append(None if reason is None else Abstained(reason))
    return found
