"""Labels and flags of turns, as codes: `labelled`, `flagged`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.annotators.base import Annotated, Annotator, asked_of, per_turn
from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict, as_verdict

__all__ = ["Label", "flagged", "labelled"]


@dataclass(frozen=True, slots=True)
class Label:
    """A label and why it was given.

    Attributes:
        name: one of the labels that were declared.
        why: the evidence.
    """

    name: str
    why: str = ""


def labelled(annotator: Annotator, labels: Sequence[str], *, name: str = "label") -> Annotated:
    """The label of every turn, as its index in the declared list.

        value_k = index of the label of turn k        evidence: the label, and why it was given

    Args:
        annotator: gives, per trajectory, one text or `Label` per turn; None where a turn has none.
        labels: at least one, all different.
        name: what the verdicts are called.

    Returns:
        A TURN observer of role "label". A label that was not declared, and a number of labels that is not that of the
        turns, are `Failed`.

    Raises:
        InvalidArgument: an annotator that cannot be called, no labels, or one given twice.

    Example:
        >>> from apportion.rollouts import Turn
        >>> roles = labelled(lambda t: ["search", Label("edit", "wrote a.py"), "dance"], ["search", "edit"])
        >>> found = roles.observe([Trajectory(id="r", group="q", turns=[Turn(), Turn(), Turn()])])[0]
        >>> found[1], found[2].error
        (Scored(value=1.0, evidence='edit: wrote a.py'), "unknown label 'dance'; the labels are search, edit")
    """
    declared = tuple(labels) if not isinstance(labels, str) else ()
    if not declared or len(set(declared)) < len(declared) or not all(isinstance(x, str) and x for x in declared):
        raise InvalidArgument("labels", labels, "at least one label, all different")
    codes = {label: float(i) for i, label in enumerate(declared)}
    return Annotated(
        asked_of(annotator), functools.partial(_labels, codes), _arguments.text("name", name), role="label"
    )


def flagged(annotator: Annotator, *, name: str = "flag") -> Annotated:
    """A flag of every turn: 1 where it is raised, 0 where it is not.

    Args:
        annotator: gives, per trajectory, one bool (or a verdict of 0 or 1) per turn; None where nobody looked.
        name: what the verdicts are called.

    Returns:
        A TURN observer of role "shaping"; anything else than 0 and 1 is `Failed`.

    Raises:
        InvalidArgument: an annotator that cannot be called.

    Example:
        >>> from apportion.rollouts import Turn
        >>> risky = flagged(lambda t: ["delete" in turn.text for turn in t.turns], name="risky")
        >>> [v.value for v in risky.observe([Trajectory(id="r", group="q", turns=[Turn(text="delete x"), Turn()])])[0]]
        [1.0, 0.0]
    """
    return Annotated(asked_of(annotator), _flags, _arguments.text("name", name))


def _labels(codes: Mapping[str, float], trajectory: Trajectory, notes: Any) -> object:
    rows = per_turn(notes, trajectory, "labels")
    return rows if isinstance(rows, Failed) else [_label(codes, note) for note in rows]


def _label(codes: Mapping[str, float], note: Any) -> Verdict:
    if note is None:
        return Abstained("no label")
    if isinstance(note, (Abstained, Failed)):
        return note
    name, why = (note.name, note.why) if isinstance(note, Label) else (note, "")
    if not isinstance(name, str) or name not in codes:
        return Failed(f"unknown label {_arguments.excerpt(name)}; the labels are {', '.join(codes)}")
    return Scored(codes[name], f"{name}: {why}" if why else name)


def _flags(trajectory: Trajectory, notes: Any) -> object:
    rows = per_turn(notes, trajectory, "flags")
    return rows if isinstance(rows, Failed) else [_flag(note) for note in rows]


def _flag(note: Any) -> Verdict:
    verdict = as_verdict(note, source="the annotator")
    if isinstance(verdict, Scored) and verdict.value not in (0.0, 1.0):
        return Failed(f"a flag is 0 or 1, not {verdict.value:g}")
    return verdict
