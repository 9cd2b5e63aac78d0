"""Predicates over what came before an action: did that happen, is this open, was this call made already.

They are the state machine of the rule engine. Each remembers only what it needs (turn numbers by key), is asked before
an action is taken in and told afterwards, so judging a rollout costs time linear in its actions.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.predicates import Before, Predicate
from apportion.rewards.structured import ABSENT, Path, at_path, canonical, parse_path, path_words
from apportion.rollouts import Action

__all__ = ["Temporal", "happened", "open_between", "repeated"]

Counting: TypeAlias = Literal["answered", "issued"]


class Temporal(Predicate):
    """A predicate with a memory, which the engine keeps in `Before.memory` under `id(self)`."""

    @abstractmethod
    def fresh(self) -> Any:
        """The memory before the first action."""

    @abstractmethod
    def notice(self, action: Action, before: Before) -> Any:
        """What is worth remembering about an action; asked while the memory still shows the state before it."""

    @abstractmethod
    def remember(self, memory: Any, noticed: Any, turn: int) -> None:
        """Takes it in, once every predicate has been asked."""


@dataclass(slots=True)
class Marks:
    """The turns in which something happened, by key; and whether something may have happened that nobody could tell."""

    turns: dict[object, list[int]] = field(default_factory=dict)
    unclear: bool = False

    def count(self, key: object, first: int, last: int) -> int:
        """How often it happened in the turns from `first` up to but not including `last`."""
        turns = self.turns.get(key, [])
        return bisect_left(turns, last) - bisect_left(turns, first)


def _window(before: Before, within: int | None, counting: Counting) -> tuple[int, int]:
    last = before.turn if counting == "answered" else before.turn + 1
    return (0 if within is None else before.turn - within), last


def _check(within: int | None, counting: Counting) -> None:
    if within is not None:
        _arguments.whole("within", within, at_least=0)
    _arguments.choice("counting", counting, get_args(Counting))


@dataclass(frozen=True, eq=False)
class Happened(Temporal):
    """See `happened`."""

    of: Predicate
    times: int
    within: int | None
    same: Path | None
    counting: Counting

    @property
    def children(self) -> Sequence[Predicate]:
        """What may have happened."""
        return (self.of,)

    @property
    def words(self) -> str:
        """With its bounds."""
        often = "" if self.times == 1 else f" at least {self.times} times"
        recent = "" if self.within is None else f" in the last {self.within} turns"
        alike = "" if self.same is None else f" with the same {path_words(self.same)}"
        return f"{'an answered' if self.counting == 'answered' else 'an earlier'} {self.of.words}{alike}{often}{recent}"

    def fresh(self) -> Marks:
        """Nothing happened."""
        return Marks()

    def notice(self, action: Action, before: Before) -> tuple[object, bool | None]:
        """The key of the action and whether it is one."""
        return self._key(action), self.of.holds(action, before)

    def remember(self, memory: Marks, noticed: tuple[object, bool | None], turn: int) -> None:
        """Adds the turn to the action's key."""
        key, held = noticed
        if held is None:
            memory.unclear = True
        elif held:
            memory.turns.setdefault(key, []).append(turn)

    def holds(self, action: Action, before: Before) -> bool | None:
        """None when it did not happen for certain, but may have."""
        memory: Marks = before.recall(self)
        key = self._key(action)
        if self.same is not None and key is None:
            return False
        first, last = _window(before, self.within, self.counting)
        if memory.count(key, first, last) >= self.times:
            return True
        return None if memory.unclear else False

    def _key(self, action: Action) -> object:
        if self.same is None:
            return ""
        value = at_path(action.arguments, self.same)
        return None if value is ABSENT else canonical(value)


def happened(
    of: Predicate,
    *,
    times: int = 1,
    within: int | None = None,
    same: str | Sequence[str | int] | None = None,
    counting: Counting = "answered",
) -> Predicate:
    """An earlier action of this kind was taken.

    Args:
        of: which actions count; each is judged by the state before itself.
        times: at least so many.
        within: only in the last so many turns (0: this turn); `None` for the whole rollout.
        same: an argument that must have the same value in both actions, e.g. "path".
        counting: "answered": only actions of earlier turns, whose results the policy has seen; "issued": also actions
            that stand earlier in the same turn.

    Returns:
        A predicate; used inside the rules of `path`.

    Raises:
        InvalidArgument: `times` < 1, `within` < 0, an unreadable path, an unknown `counting`.

    Example:
        >>> from apportion.rewards.structured import called
        >>> happened(called("read_file"), same="path").words
        'an answered call of read_file with the same path'
    """
    _check(within, counting)
    if not isinstance(of, Predicate):
        raise InvalidArgument("of", of, "a predicate such as called('read_file')")
    return Happened(
        of, _arguments.whole("times", times, at_least=1), within, None if same is None else parse_path(same), counting
    )


@dataclass(slots=True)
class Opening:
    """Whether the stretch is open, since which turn, and whether nobody could tell."""

    opened: int | None = None
    unclear: bool = False


@dataclass(frozen=True, eq=False)
class OpenBetween(Temporal):
    """See `open_between`."""

    start: Predicate
    stop: Predicate

    @property
    def children(self) -> Sequence[Predicate]:
        """What opens and what closes."""
        return (self.start, self.stop)

    @property
    def words(self) -> str:
        """The stretch."""
        return f"after {self.start.words} and before {self.stop.words}"

    def fresh(self) -> Opening:
        """Closed."""
        return Opening()

    def notice(self, action: Action, before: Before) -> tuple[bool | None, bool | None]:
        """Whether the action opens, and whether it closes."""
        return self.start.holds(action, before), self.stop.holds(action, before)

    def remember(self, memory: Opening, noticed: tuple[bool | None, bool | None], turn: int) -> None:
        """An action that does both leaves the stretch open: it closes the old one first."""
        opens, closes = noticed
        memory.unclear = (memory.unclear and not (opens or closes)) or opens is None or closes is None
        if closes:
            memory.opened = None
        if opens:
            memory.opened = turn

    def holds(self, action: Action, before: Before) -> bool | None:
        """True inside, with the opening answered."""
        memory: Opening = before.recall(self)
        if memory.unclear:
            return None
        return memory.opened is not None and memory.opened < before.turn


def open_between(start: Predicate, stop: Predicate) -> Predicate:
    """The action lies after an answered `start` and before the next `stop`.

    Args:
        start: opens the stretch, e.g. the call that begins a transaction.
        stop: closes it.

    Returns:
        A predicate; used inside the rules of `path`.

    Raises:
        InvalidArgument: something that is no predicate.

    Example:
        >>> from apportion.rewards.structured import called
        >>> open_between(called("begin"), called("commit")).words
        'after call of begin and before call of commit'
    """
    for argument, value in (("start", start), ("stop", stop)):
        if not isinstance(value, Predicate):
            raise InvalidArgument(argument, value, "a predicate such as called('begin')")
    return OpenBetween(start, stop)


@dataclass(frozen=True, eq=False)
class Repeated(Temporal):
    """See `repeated`."""

    within: int | None

    @property
    def words(self) -> str:
        """With its bound."""
        return "the same call with the same arguments" + (
            "" if self.within is None else f" in the last {self.within} turns"
        )

    def fresh(self) -> Marks:
        """No calls."""
        return Marks()

    def notice(self, action: Action, before: Before) -> tuple[str | None, str]:
        """The call in one canonical form."""
        return self._key(action)

    def remember(self, memory: Marks, noticed: tuple[str | None, str], turn: int) -> None:
        """Adds the turn."""
        memory.turns.setdefault(noticed, []).append(turn)

    def holds(self, action: Action, before: Before) -> bool | None:
        """True when this very call stands earlier, in this turn or another."""
        memory: Marks = before.recall(self)
        return memory.count(self._key(action), *_window(before, self.within, "issued")) > 0

    def _key(self, action: Action) -> tuple[str | None, str]:
        return action.name, canonical(dict(action.arguments))


def repeated(*, within: int | None = None) -> Predicate:
    """The same tool was called with the same arguments before (key order aside).

    Args:
        within: only in the last so many turns; `None` for the whole rollout.

    Returns:
        A predicate; used inside the rules of `path`.

    Raises:
        InvalidArgument: `within` < 0.

    Example:
        >>> repeated(within=3).words
        'the same call with the same arguments in the last 3 turns'
    """
    _check(within, "issued")
    return Repeated(within)
