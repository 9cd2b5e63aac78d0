"""`repetition`: a penalty for repeating oneself, by the share of n-grams that are not new."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, get_args

from apportion.rewards import _arguments
from apportion.rewards.base import Role
from apportion.rewards.recorded import require_text, require_tokens, texts, tokens_by_turn
from apportion.rewards.running import PerTrajectory
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Scored, Verdict

__all__ = ["repetition"]

Unit: TypeAlias = Literal["tokens", "words"]


@dataclass(frozen=True)
class Repetition(PerTrajectory):
    """See `repetition`."""

    _role: ClassVar[Role] = "shaping"
    ngram: int
    penalty: float
    unit: Unit
    name: str
    level: Level = field(default=Level.TRAJECTORY, init=False)

    def __post_init__(self) -> None:
        _arguments.whole("ngram", self.ngram, at_least=1)
        _arguments.number("penalty", self.penalty, at_least=0)
        _arguments.choice("unit", self.unit, get_args(Unit))
        _arguments.text("name", self.name)

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when a trajectory lacks the tokens or the text that are counted."""
        (require_tokens if self.unit == "tokens" else require_text)(self.name, trajectories)

    def score(self, trajectory: Trajectory) -> Verdict:
        """The penalty of one trajectory."""
        turns: Sequence[Sequence[Hashable]] = (
            tokens_by_turn(trajectory) if self.unit == "tokens" else [text.split() for text in texts(trajectory)]
        )
        grams = [gram for turn in turns for gram in zip(*(turn[i:] for i in range(self.ngram)), strict=False)]
        if not grams:
            return Scored(0.0, f"fewer than {self.ngram} {self.unit}")
        unique = len(set(grams))
        # No negative zero in logs.
        value = -self.penalty * (1 - unique / len(grams)) if unique < len(grams) else 0.0
        return Scored(value, f"{unique} of {len(grams)} {self.ngram}-grams are new ({self.unit})")


def repetition(*, ngram: int = 3, penalty: float = 1.0, unit: Unit = "tokens", name: str = "repetition") -> Repetition:
    """A penalty that grows with the share of repeated n-grams.

        value = -penalty * (1 - unique / total)

    Args:
        ngram: length of the n-grams.
        penalty: the limit for text that only repeats itself, >= 0.
        unit: "tokens" (the policy's token ids) or "words" (its text, split at blanks).
        name: what the verdicts are called.

    Returns:
        A TRAJECTORY reward in (-penalty, 0]. Only what the policy wrote counts, and no n-gram reaches from one turn
        into the next; with fewer than `ngram` units it is 0.

    Raises:
        InvalidArgument: n-grams shorter than 1, a negative penalty, an unknown unit.
        MissingInput: when observing, trajectories without the tokens or text that are counted.

    Example:
        >>> rollout = Trajectory(id="r0", group="q", response_ids=[5, 5, 5, 5, 5])
        >>> repetition(ngram=2).observe([rollout])
        [Scored(value=-0.75, evidence='1 of 4 2-grams are new (tokens)')]

    Source: arXiv 2502.03373, appendix C.2.
    """
    return Repetition(ngram, penalty, unit, name)
