"""The predicate behind every shell rule: it asks each effect of an action, and says which one answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from apportion.rewards import _arguments
from apportion.rewards.predicates import Before, Predicate
from apportion.rewards.shell.effects import Effect
from apportion.rewards.shell.session import Session, Step
from apportion.rollouts import Action

__all__ = ["Answer", "Asking", "Doing", "Unknown"]

Unknown: TypeAlias = Literal["abstain", "violation"]
# Whether an effect is what the rule names; None where nobody can tell.
Answer: TypeAlias = bool | None
# One answer per effect of the step.
Asking: TypeAlias = Callable[[Step], list[tuple[Effect, Answer]]]

_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Doing(Predicate):
    """Holds when one effect of the action is what is asked for.

    Attributes:
        said: the question in words.
        asking: answers it for every effect of a step.
        session: the shell of the rollout.
        unknown: what "cannot tell" counts as.
    """

    said: str
    asking: Asking
    session: Session
    unknown: Unknown = "abstain"

    def __post_init__(self) -> None:
        _arguments.choice("unknown", self.unknown, ("abstain", "violation"))

    @property
    def words(self) -> str:
        """As declared."""
        return self.said

    def holds(self, action: Action, before: Before) -> bool | None:
        """True for one sure effect, None when there only may be one (or True with `unknown="violation"`)."""
        answers = [answer for _, answer in self._answers(action, before)]
        if True in answers:
            return True
        if None in answers:
            return None if self.unknown == "abstain" else True
        return False

    def because(self, action: Action, before: Before) -> str:
        """The effects that decided, with the parse node and the words of each."""
        answers = self._answers(action, before)
        sure = [str(effect) for effect, answer in answers if answer is True]
        unsure = [f"cannot tell: {effect}" for effect, answer in answers if answer is None]
        told = sure or unsure
        more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
        return "; ".join(told[:_SHOWN]) + more

    def _answers(self, action: Action, before: Before) -> list[tuple[Effect, Answer]]:
        step = self.session.step(action, before)
        unknown: list[tuple[Effect, Answer]] = [(effect, None) for effect in step.effects if effect.kind == "unknown"]
        return self.asking(step) + unknown
