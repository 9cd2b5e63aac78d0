"""Text to token ids, each piece once and by itself: a piece never reaches across the boundary to the next one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from apportion.errors import InvalidArgument
from apportion.judges.scoring.request import IntArray
from apportion.rollouts import Trajectory

__all__ = ["Target", "TargetOf", "encode", "encode_target", "reference_target"]

Specials: TypeAlias = Literal["parse", "spell"]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Tokens to score and what stands between a state and them.

    Attributes:
        ids: int64[a] the tokens to score.
        lead: int64[m] tokens read before them, not scored.
        text: what `ids` spell, for evidence; "" when unknown.
    """

    ids: IntArray
    lead: IntArray
    text: str = ""


# What to score for a trajectory; None where there is nothing.
TargetOf: TypeAlias = Callable[[Trajectory], Target | None]


def encode(tokenizer: Any, text: str, *, specials: Specials) -> IntArray:
    """The ids of one piece of text, without the special tokens that a tokenizer adds around a whole input.

    Args:
        tokenizer: of transformers.
        text: one piece.
        specials: "parse" turns the names of special tokens into them (a template of yours); "spell" keeps them as plain
            text, so that text from a rollout or a data set cannot open or close a message.

    Returns:
        int64[n].

    Raises:
        InvalidArgument: `text` is no text, or an unknown `specials`.

    Example:
        >>> class Letters:
        ...     def __call__(self, text, *, add_special_tokens, split_special_tokens):
        ...         return {"input_ids": [ord(letter) - 96 for letter in text]}
        >>> encode(Letters(), "abc", specials="spell").tolist()
        [1, 2, 3]
    """
    if not isinstance(text, str):
        raise InvalidArgument("text", text, "text")
    if specials not in get_args(Specials):
        raise InvalidArgument("specials", specials, f"one of {', '.join(map(repr, get_args(Specials)))}")
    split = specials == "spell"
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=split)["input_ids"]
    return np.asarray(ids, np.int64).reshape(-1)


def encode_target(tokenizer: Any, answer: str, *, before: str) -> Target:
    """An answer as tokens to score, behind a declared lead.

    Args:
        tokenizer: of transformers.
        answer: scored; special tokens in it are plain text.
        before: read before every answer and not scored, e.g. the opening of an assistant's message and "The answer is".
            Whether a space belongs to the lead or to the answer changes the tokens: write it as your model learnt it.

    Returns:
        The target; one without ids when the answer is empty.

    Raises:
        InvalidArgument: as `encode`.

    Example:
        >>> class Letters:
        ...     def __call__(self, text, *, add_special_tokens, split_special_tokens):
        ...         return {"input_ids": [ord(letter) - 96 for letter in text]}
        >>> target = encode_target(Letters(), "b", before="ac")
        >>> target.lead.tolist(), target.ids.tolist()
        ([1, 3], [2])
    """
    lead = encode(tokenizer, before, specials="parse")
    return Target(encode(tokenizer, answer, specials="spell"), lead, answer)


def reference_target(tokenizer: Any, *, before: str) -> TargetOf:
    """What potentials score: the `reference` of a trajectory, behind a lead; None where it has no text.

    Args:
        tokenizer: of transformers.
        before: as in `encode_target`.

    Returns:
        A function from a trajectory to its target; the same text is encoded once.

    Raises:
        InvalidArgument: as `encode_target`, when it is called.

    Example:
        >>> class Letters:
        ...     def __call__(self, text, *, add_special_tokens, split_special_tokens):
        ...         return {"input_ids": [ord(letter) - 96 for letter in text]}
        >>> of = reference_target(Letters(), before="")
        >>> of(Trajectory(id="r", group="q", reference="ab")).ids.tolist(), of(Trajectory(id="r", group="q"))
        ([1, 2], None)
    """
    known: dict[str, Target] = {}

    def target(trajectory: Trajectory) -> Target | None:
        text = trajectory.reference
        if not isinstance(text, str) or not text:
            return None
        if text not in known:
            known[text] = encode_target(tokenizer, text, before=before)
        return known[text]

    return target
