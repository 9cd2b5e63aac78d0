"""What a verifier is: a check for `outcome` that says what it needs and why it decided as it did."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from apportion.errors import MissingInput
from apportion.rewards import _arguments
from apportion.rewards.answers import Extract
from apportion.rewards.recorded import final_text, require_text, require_turns
from apportion.rollouts import Trajectory
from apportion.verdicts import Failed, Scored, Verdict

__all__ = ["Need", "TextVerifier", "Verifier"]

Need: TypeAlias = Literal["text", "turns", "reference"]

_NEEDED_BY = "outcome"


class Verifier(ABC):
    """A check of a trajectory against what is known to be right; use it as `outcome(verifier)`.

    Attributes:
        needs: what a trajectory must have: "text" (what the policy wrote), "turns" (with their parsed actions),
            "reference" (`Trajectory.reference`).
    """

    needs: ClassVar[tuple[Need, ...]] = ("text", "reference")

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when the rollouts lack what this verifier needs."""
        if "text" in self.needs:
            require_text(_NEEDED_BY, trajectories)
        if "turns" in self.needs:
            require_turns(_NEEDED_BY, trajectories)
        if "reference" in self.needs and all(trajectory.reference is None for trajectory in trajectories):
            how = "set Trajectory.reference, or name a column with outcome('reward')"
            raise MissingInput(_NEEDED_BY, "a reference answer", how, [trajectory.id for trajectory in trajectories])

    @abstractmethod
    def __call__(self, trajectory: Trajectory) -> Verdict:
        """The verdict on one trajectory."""


@dataclass(frozen=True)
class TextVerifier(Verifier):
    """A verifier that takes an answer out of a text and compares it with a gold answer.

    Attributes:
        extract: takes the answer out of the text.
    """

    extract: Extract

    def __call__(self, trajectory: Trajectory) -> Verdict:
        """The verdict on what the policy wrote last."""
        if trajectory.reference is None:
            return Failed("no reference answer")
        return self.verify(gold=trajectory.reference, answer=final_text(trajectory))

    def verify(self, *, gold: object, answer: str) -> Verdict:
        """The verdict on a text.

        Args:
            gold: what is right.
            answer: the whole reply; the extraction of this verifier takes the answer out of it.

        Returns:
            `Scored` with `right_answer`, `wrong_answer` or `no_answer_found`; `Failed` with `gold_unparsable` when
            the gold answer cannot be used, whatever the reply is.
        """
        fault = self.gold_fault(gold)
        if fault is not None:
            return Failed(f"gold_unparsable: {fault}")
        found = self.extract(answer)
        if found is None:
            return no_answer(self.extract)
        return self.compare(gold, found)

    def gold_fault(self, gold: object) -> str | None:
        """Why this gold answer can never be compared with anything; `None` when it can, as far as is known yet."""
        return None

    @abstractmethod
    def compare(self, gold: object, found: str) -> Verdict:
        """The verdict on an answer that was found."""


def no_answer(extract: Extract) -> Scored:
    """0, counted apart from wrong answers."""
    name = getattr(extract, "__name__", None) or repr(extract)
    return Scored(0.0, f"no_answer_found ({name})")


def told(right: bool, found: object, gold: object, note: str = "") -> Scored:
    """1 or 0 with both sides in the evidence."""
    given = _arguments.excerpt(found, 80)
    after = f" ({_arguments.brief(note, 160)})" if note else ""
    if right:
        return Scored(1.0, f"right_answer: {given}{after}")
    return Scored(0.0, f"wrong_answer: {given}, not {_arguments.excerpt(gold, 80)}{after}")
