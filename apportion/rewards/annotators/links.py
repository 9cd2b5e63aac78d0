"""Which turn used what which other turn brought: `Links`, and the two features of a turn made of them.

turn 0: search --supports--> turn 2: answer        turn 1: call fails --failed use--> turn 2
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apportion.rewards import _arguments
from apportion.rewards.annotators.base import Annotated, Annotator, asked_of
from apportion.rollouts import Trajectory
from apportion.verdicts import Failed, Scored, Verdict

__all__ = ["Links", "link_features"]

_FIELDS = ("supports", "failed_uses", "errors", "from_user")


@dataclass(frozen=True, slots=True)
class Links:
    """The graph over the turns of one trajectory, numbered from 0.

    Attributes:
        supports: (i, j), i < j: turn j uses a concrete piece of information that turn i supplied or elicited.
        failed_uses: (i, j), i < j: turn j repeats, relies on or works around an observable error of turn i.
        errors: turns that bear an error (of the tool, the schema, the runtime, a rule, or an explicit rejection).
        from_user: turns that use something which the user said unasked, once for every such use.
        why: what a person should know about it.
    """

    supports: Sequence[tuple[int, int]] = ()
    failed_uses: Sequence[tuple[int, int]] = ()
    errors: Sequence[int] = ()
    from_user: Sequence[int] = ()
    why: str = ""


def link_features(annotator: Annotator, *, name: str = "links") -> tuple[Annotated, Annotated]:
    """What a turn meant for the others, as two numbers.

        support_k = ln(1 + d+ + d_in)                 d+ = turns that use turn k, d- = turns that suffer from it
        failure_k = ln(1 + e * (1 + d- + d_in))       d_in = what it uses of others and of the user, e = its own error

    Args:
        annotator: gives `Links` per trajectory, or a mapping with those fields.
        name: of both observers, before "support" and "failure".

    Returns:
        Two TURN observers of role "shaping", over one annotation: "<name> support" and "<name> failure". An edge named
        twice counts once. Links that name turns which do not exist, or that lead backwards, are `Failed` as a whole.

    Raises:
        InvalidArgument: an annotator that cannot be called.

    Example:
        >>> from apportion.rollouts import Turn
        >>> support, failure = link_features(lambda t: Links(supports=[(0, 1), (0, 2)]))
        >>> t = Trajectory(id="r", group="q", turns=[Turn(), Turn(), Turn()])
        >>> [(round(v.value, 4), v.evidence) for v in support.observe([t])[0]][:2]
        [(1.0986, '2 turns use it, it uses 0'), (0.6931, '0 turns use it, it uses 1')]

    Source: arXiv 2608.24588 (IAPO).
    """
    asked = asked_of(annotator)
    _arguments.text("name", name)
    return Annotated(asked, _support, f"{name} support"), Annotated(asked, _failure, f"{name} failure")


@dataclass(frozen=True, slots=True)
class _Degrees:
    used: Counter[int]
    suffered: Counter[int]
    uses: Counter[int]
    errors: frozenset[int]
    why: str


def _support(trajectory: Trajectory, notes: Any) -> object:
    found = _degrees(notes, trajectory.n_turns)
    if isinstance(found, Failed):
        return found
    return [
        Scored(
            math.log(1 + found.used[k] + found.uses[k]),
            f"{found.used[k]} turns use it, it uses {found.uses[k]}{found.why}",
        )
        for k in range(trajectory.n_turns)
    ]


def _failure(trajectory: Trajectory, notes: Any) -> object:
    found = _degrees(notes, trajectory.n_turns)
    return found if isinstance(found, Failed) else [_failed(found, k) for k in range(trajectory.n_turns)]


def _failed(found: _Degrees, k: int) -> Verdict:
    if k not in found.errors:
        return Scored(0.0, f"no error{found.why}")
    told = f"an error; {found.suffered[k]} turns suffer from it, it uses {found.uses[k]}{found.why}"
    return Scored(math.log(2 + found.suffered[k] + found.uses[k]), told)


def _degrees(notes: Any, turns: int) -> _Degrees | Failed:
    if isinstance(notes, Mapping):
        unknown = sorted(map(str, set(notes) - {*_FIELDS, "why"}))
        if unknown:
            return Failed(f"links have no {_arguments.excerpt(unknown)}; their fields are {', '.join(_FIELDS)}, why")
        notes = Links(**notes)
    if not isinstance(notes, Links):
        return Failed(f"{_arguments.excerpt(notes)} are no links")
    values = {name: getattr(notes, name) for name in _FIELDS}
    wrong = [f"{name} {_arguments.excerpt(one, 60)}" for name in _FIELDS for one in _wrong(name, values[name], turns)]
    if wrong:
        return Failed(f"links of {turns} turns, numbered from 0 and leading forward: not {'; '.join(wrong[:5])}")
    supports = {(i, j) for i, j in notes.supports}
    return _Degrees(
        used=Counter(i for i, _ in supports),
        suffered=Counter(i for i, _ in {(i, j) for i, j in notes.failed_uses}),
        uses=Counter(j for _, j in supports) + Counter(notes.from_user),
        errors=frozenset(notes.errors),
        why=f"; {_arguments.excerpt(notes.why)}" if notes.why else "",
    )


def _wrong(name: str, given: Any, turns: int) -> list[Any]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        return [given]
    if name in ("errors", "from_user"):
        return [one for one in given if not _is_turn(one, turns)]
    return [one for one in given if not _is_edge(one, turns)]


def _is_turn(one: Any, turns: int) -> bool:
    return isinstance(one, int) and not isinstance(one, bool) and 0 <= one < turns


def _is_edge(one: Any, turns: int) -> bool:
    pair = isinstance(one, Sequence) and not isinstance(one, str) and len(one) == 2
    return pair and all(_is_turn(k, turns) for k in one) and one[0] < one[1]
