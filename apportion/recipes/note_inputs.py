"""The annotator or reward of a recipe: an object, a file that defines one, or a recorded column."""

from __future__ import annotations

from typing import TypeAlias

from apportion.recipes.files import defined_in
from apportion.rewards.annotators import Annotator, recorded_notes
from apportion.rewards.base import Reward, check_reward
from apportion.rollouts import Level

__all__ = ["GivenReward", "Noted", "annotator_of", "notes_needed", "reward_of", "shown"]

Noted: TypeAlias = Annotator | str | None
GivenReward: TypeAlias = Reward | str | None


def annotator_of(annotator: Noted, *, needed_by: str, column: str, per: Level = Level.TURN) -> Annotator:
    """What was given, or what reads the column.

    Args:
        annotator: a function of one trajectory, plain or async; a Python file that defines `annotator`; or None.
        needed_by: who asks, for the message where the column is absent.
        column: key of the recorded notes.
        per: where the column is: TURN or TRAJECTORY.

    Raises:
        InvalidArgument: a file that does not exist or does not define `annotator`.
    """
    if annotator is None:
        return recorded_notes(column, per=per, needed_by=needed_by)
    if isinstance(annotator, str):
        found: Annotator = defined_in(annotator, "annotator", argument="annotator")
        return found
    return annotator


def reward_of(given: Reward | str, *, argument: str) -> Reward:
    """A reward, or the one that a Python file defines under the argument's name.

    Raises:
        InvalidArgument: something that is no reward, or a file that does not exist or does not define it.
    """
    found = defined_in(given, argument, argument=argument) if isinstance(given, str) else given
    return check_reward(argument, found)


def notes_needed(annotator: Noted, *, column: str, per: Level = Level.TURN) -> tuple[str, ...]:
    """What rollouts must carry for it, in words."""
    return () if annotator is not None else (f"{per.name.lower()} column {column!r}, or annotator=",)


def shown(annotator: Noted) -> str | None:
    """How an annotator stands in the record of a run's settings."""
    if annotator is None or isinstance(annotator, str):
        return annotator
    return getattr(annotator, "__name__", type(annotator).__name__)
