"""Is token i of one model compared with token i of the other? The same model twice must differ by 0 everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from apportion.errors import InvalidArgument
from apportion.judges.scoring.request import Answer, FloatArray, LogProbs, Request
from apportion.judges.scoring.rescorer import Rescorer, same_vocabulary
from apportion.verdicts import Abstained, Failed

__all__ = ["Alignment", "check_alignment", "difference"]

Difference: TypeAlias = FloatArray | Abstained | Failed


def difference(teacher: Answer, student: Answer) -> Difference:
    """Teacher minus student at every target token.

        d_j = log p_teacher(y_j) - log p_student(y_j)

    Args:
        teacher: one answer.
        student: the answer of the other model to the same boundary.

    Returns:
        float64[a], or the first of the two that is missing.

    Raises:
        InvalidArgument: different numbers of tokens. Both are named; nothing is cut to fit, since a cut pairs a token
            with another one's log-probability (or with padding).

    Example:
        >>> difference(LogProbs(np.array([-1.5, -2.5])), LogProbs(np.array([-1.0, -2.0]))).tolist()
        [-0.5, -0.5]
    """
    if not isinstance(teacher, LogProbs):
        return teacher
    if not isinstance(student, LogProbs):
        return student
    if teacher.values.shape != student.values.shape:
        sizes = f"teacher {teacher.values.size}, student {student.values.size}"
        raise InvalidArgument("student", student.values.size, f"one log-prob for each token of the teacher ({sizes})")
    return teacher.values - student.values


@dataclass(frozen=True, slots=True)
class Alignment:
    """What `check_alignment` compared.

    Attributes:
        tokens: number of target tokens that both scored.
        missing: number of boundaries that either did not score.
        largest: the largest absolute difference, in nats.
    """

    tokens: int
    missing: int
    largest: float


def check_alignment(
    teacher: Rescorer,
    student: Rescorer,
    requests: Sequence[Request],
    *,
    tolerance: float,
    temperature: float = 1.0,
) -> Alignment:
    """A self-check before a run: two scorers that hold the same weights agree at every position.

        |log p_teacher(y_j) - log p_student(y_j)| <= tolerance for every j

    Use it with one model behind both, e.g. the trainer's own forward pass and the server that will be the teacher: any
    difference beyond rounding proves a shift, another temperature, other weights or another tokenizer.

    Args:
        teacher: of the one side.
        student: of the other.
        requests: a few real ones; at least one token must be scored by both.
        tolerance: in nats; 0 for the same code, about 1e-4 for float32 kernels that differ, 0.1 for bfloat16.
        temperature: of both.

    Returns:
        How much was compared and the largest difference.

    Raises:
        InvalidArgument: other vocabularies (both are named); a difference beyond `tolerance`, with the first position
            and whether a shift by one token would explain it; nothing that both scored.

    Example:
        >>> import torch, transformers
        >>> from apportion.judges.scoring import TransformersRescorer, own_tokens
        >>> config = transformers.Qwen3Config(vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        ...     num_attention_heads=2, num_key_value_heads=1, head_dim=8)
        >>> model = TransformersRescorer(transformers.Qwen3ForCausalLM(config), name="random")
        >>> check_alignment(model, model, [own_tokens([1, 2, 3])], tolerance=0)
        Alignment(tokens=2, missing=0, largest=0.0)
    """
    same_vocabulary(student.vocabulary, teacher.vocabulary)
    sides = [side.score(requests, temperature=temperature) for side in (teacher, student)]
    pairs = [pair for rows in zip(*sides, strict=True) for pair in zip(*rows, strict=True)]
    gaps = [difference(*pair) for pair in pairs]
    known = [(gap, pair) for gap, pair in zip(gaps, pairs, strict=True) if isinstance(gap, np.ndarray)]
    missing = len(gaps) - len(known)
    if not sum(gap.size for gap, _ in known):
        why = next((str(gap) for gap in gaps if not isinstance(gap, np.ndarray)), "no requests")
        raise InvalidArgument("requests", len(requests), f"at least one token that both score: {why}")
    largest = max(float(np.abs(gap).max()) for gap, _ in known)
    if not largest <= tolerance:
        gap, pair = next((gap, pair) for gap, pair in known if not float(np.abs(gap).max()) <= tolerance)
        at = int(np.flatnonzero(~(np.abs(gap) <= tolerance))[0])
        one, other = (side.values for side in pair if isinstance(side, LogProbs))
        raise InvalidArgument(
            "student",
            student.name,
            f"the log-probs of {teacher.name!r} within {tolerance:g}: token {at} has {other[at]:.4f} against "
            f"{one[at]:.4f}, the largest difference is {largest:.4f}{_shifted(one, other, tolerance)}",
        )
    return Alignment(sum(gap.size for gap, _ in known), missing, largest)


def _shifted(teacher: FloatArray, student: FloatArray, tolerance: float) -> str:
    if teacher.size > 2:
        for shift, word in ((1, "late"), (-1, "early")):
            moved = np.roll(teacher, shift)[1:-1] - student[1:-1]
            if float(np.abs(moved).max()) <= tolerance:
                return f"; the student's are one token {word}"
    return ""
