"""Predicates over structured tool calls: the tool's name, its arguments by path, the state recorded before it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.messages import Message
from apportion.rewards.patterns import Pattern
from apportion.rewards.predicates import About, Before, Predicate
from apportion.rollouts import Action

__all__ = ["any_action", "argument", "called", "state"]


class _Unset(Enum):
    UNSET = "unset"


Unset: TypeAlias = Literal[_Unset.UNSET]
UNSET: Unset = _Unset.UNSET
Path: TypeAlias = tuple[str | int, ...]
ABSENT = object()


@dataclass(frozen=True)
class Called(Predicate):
    """See `called`."""

    names: tuple[str, ...]

    @property
    def words(self) -> str:
        """The tool names."""
        return f"call of {' or '.join(self.names)}"

    def holds(self, action: Action, before: Before) -> bool | None:
        """True for one of the names."""
        return action.name in self.names


def called(*names: str) -> Predicate:
    """The action calls one of these tools.

    Example:
        >>> from apportion.rollouts import Trajectory
        >>> called("rm", "rmdir").holds(Action(name="rm"), Before(Trajectory(id="r", group="q")))
        True
    """
    if not names:
        raise InvalidArgument("names", names, "at least one tool name")
    return Called(tuple(_arguments.text("names", name) for name in names))


@dataclass(frozen=True)
class AnyAction(Predicate):
    """See `any_action`."""

    @property
    def words(self) -> str:
        """Anything."""
        return "any action"

    @property
    def commits(self) -> bool:
        """Acting at all is not a deed in itself: "any action without ..." punishes an omission."""
        return False

    def holds(self, action: Action, before: Before) -> bool | None:
        """Always."""
        return True


def any_action() -> Predicate:
    """Every action that parsed.

    Example:
        >>> from apportion.rollouts import Trajectory
        >>> any_action().holds(Action(name="ls"), Before(Trajectory(id="r", group="q")))
        True
    """
    return AnyAction()


@dataclass(frozen=True)
class Value:
    """One test of one value; exactly one of the options of `argument` and `state`."""

    kind: str
    operand: Any

    @property
    def words(self) -> str:
        """The test in words."""
        if self.kind in ("above", "below"):
            return f"{self.kind} {self.operand:g}"
        shown = self.operand.source if isinstance(self.operand, Pattern) else self.operand
        return "present" if self.kind == "present" else f"{self.kind.replace('_', ' ')} {_arguments.excerpt(shown, 60)}"

    def holds(self, value: object) -> bool:
        """Whether a value that is there passes."""
        if self.kind == "present":
            return True
        if self.kind == "equals":
            return same_value(value, self.operand)
        if self.kind == "one_of":
            return any(same_value(value, option) for option in self.operand)
        if self.kind in ("above", "below"):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                return False
            return bool(value > self.operand if self.kind == "above" else value < self.operand)
        if not isinstance(value, str):
            return False
        return bool(self.operand in value if self.kind == "contains" else self.operand.found_in(value))


def _value(
    equals: object, one_of: Collection[object] | None, contains: str | None, matches: str | None,
    above: float | None, below: float | None,
) -> Value:  # fmt: skip
    given: list[Value] = []
    if equals is not UNSET:
        given.append(Value("equals", equals))
    if one_of is not None:
        if isinstance(one_of, str) or not isinstance(one_of, Collection):
            raise InvalidArgument("one_of", one_of, "a list of values")
        given.append(Value("one_of", tuple(one_of)))
    if contains is not None:
        given.append(Value("contains", _arguments.text("contains", contains)))
    if matches is not None:
        given.append(Value("matches", Pattern(matches)))
    if above is not None:
        given.append(Value("above", _arguments.number("above", above)))
    if below is not None:
        given.append(Value("below", _arguments.number("below", below)))
    if len(given) > 1:
        raise InvalidArgument("tests", [test.kind for test in given], "one test; join several predicates with &")
    return given[0] if given else Value("present", None)


@dataclass(frozen=True)
class Argument(Predicate):
    """See `argument`."""

    path: Path
    test: Value

    @property
    def words(self) -> str:
        """The argument and its test."""
        return f"argument {path_words(self.path)} {self.test.words}"

    def holds(self, action: Action, before: Before) -> bool | None:
        """False where the argument is absent."""
        value = at_path(action.arguments, self.path)
        return value is not ABSENT and self.test.holds(value)


def argument(
    path: str | Sequence[str | int],
    *,
    equals: object = UNSET,
    one_of: Collection[object] | None = None,
    contains: str | None = None,
    matches: str | None = None,
    above: float | None = None,
    below: float | None = None,
) -> Predicate:
    r"""An argument of the action passes one test; without a test, it is present.

    Args:
        path: where the argument is: "path", "options.force", "edits[0].file"; or the keys as a tuple.
        equals: it is this JSON value (`True` is not 1).
        one_of: it is one of these.
        contains: it is a text that contains this one.
        matches: it is a text in which this regular expression is found (see `Pattern` for what is refused).
        above: it is a number larger than this.
        below: it is a number smaller than this.

    Returns:
        A predicate that is False where the argument is absent.

    Raises:
        InvalidArgument: an unreadable path, several tests, a pattern that could run for ever.

    Example:
        >>> from apportion.rollouts import Trajectory
        >>> edit = Action(name="edit", arguments={"path": "tests/a_test.py", "options": {"force": True}})
        >>> start = Before(Trajectory(id="r", group="q"))
        >>> argument("path", matches=r"_test\.py$").holds(edit, start)
        True
        >>> argument("options.force", equals=1).holds(edit, start)
        False
    """
    return Argument(parse_path(path), _value(equals, one_of, contains, matches, above, below))


@dataclass(frozen=True)
class State(Predicate):
    """See `state`."""

    path: Path
    test: Value

    @property
    def words(self) -> str:
        """The column and its test."""
        return f"state {path_words(self.path)} {self.test.words}"

    @property
    def commits(self) -> bool:
        """A state is not a deed."""
        return False

    @property
    def about(self) -> About:
        """The state alone."""
        return "state"

    def hears(self, message: Message, before: Before) -> bool | None:
        """The state before a message is the one before the turn that it belongs to."""
        return self._now(before)

    def holds(self, action: Action, before: Before) -> bool | None:
        """None where the state was not recorded."""
        return self._now(before)

    def _now(self, before: Before) -> bool | None:
        if before.turn < 1:
            return None
        value = at_path(before.trajectory.turns[before.turn - 1].columns, self.path)
        return None if value is ABSENT else self.test.holds(value)


def state(
    path: str | Sequence[str | int],
    *,
    equals: object = UNSET,
    one_of: Collection[object] | None = None,
    contains: str | None = None,
    matches: str | None = None,
    above: float | None = None,
    below: float | None = None,
) -> Predicate:
    """The state before the action, as the environment recorded it in the columns of the turn before, passes one test.

    Args:
        path: where in the turn's columns, e.g. "tests.failing".
        equals: as in `argument`.
        one_of: as in `argument`.
        contains: as in `argument`.
        matches: as in `argument`.
        above: as in `argument`.
        below: as in `argument`.

    Returns:
        A predicate that is None (cannot tell) in the first turn and where nothing was recorded.

    Raises:
        InvalidArgument: as `argument`.

    Example:
        >>> from apportion.rollouts import Trajectory, Turn
        >>> rollout = Trajectory(id="r", group="q", turns=(Turn(columns={"failing": 2}), Turn()))
        >>> state("failing", above=0).holds(Action(name="push"), Before(rollout, turn=1))
        True
    """
    return State(parse_path(path), _value(equals, one_of, contains, matches, above, below))


def parse_path(path: str | Sequence[str | int]) -> Path:
    """The keys of "a.b[0].c"."""
    expected = "a path such as 'path', 'options.force' or 'edits[0].file', or its keys as a tuple"
    if not isinstance(path, str):
        keys = tuple(path) if isinstance(path, Sequence) else ()
        if not keys or not all(isinstance(key, (str, int)) for key in keys):
            raise InvalidArgument("path", path, expected)
        return keys
    if not re.fullmatch(r"[^.\[\]]+(?:\[\d+\])*(?:\.[^.\[\]]+(?:\[\d+\])*)*", path):
        raise InvalidArgument("path", path, expected)
    return tuple(
        int(index) if index else key for key, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path) if key or index
    )


def path_words(path: Path) -> str:
    """The path as it is written."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")


def at_path(value: object, path: Path) -> object:
    """The value at a path, or a mark that none is there."""
    for key in path:
        if isinstance(key, int):
            if not isinstance(value, Sequence) or isinstance(value, str) or key >= len(value):
                return ABSENT
            value = value[key]
        elif isinstance(value, Mapping) and key in value:
            value = value[key]
        else:
            return ABSENT
    return value


def canonical(value: object) -> str:
    """One text per JSON value: key order aside, types kept apart (1, True and "1" differ)."""
    try:
        return json.dumps(value, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(type(value))


def same_value(one: object, other: object) -> bool:
    """Equality of JSON values: 1 equals 1.0, but neither equals True."""
    if isinstance(one, bool) or isinstance(other, bool) or not isinstance(one, (int, float)):
        return canonical(one) == canonical(other)
    return isinstance(other, (int, float)) and one == other
