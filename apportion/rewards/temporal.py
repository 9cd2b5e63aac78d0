"""Predicates over what came before an action: did that happen, is this open, was this call made already.

They are the state machine of the rule engine. Each remembers only what it needs (turn numbers by key), is asked before
an action is taken in and told afterwards, so judging a rollout costs time linear in its actions and messages. What it
remembers is shown in the evidence: "no confirmation since turn 3 (book)".
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.messages import Message
from apportion.rewards.predicates import About, Before, Predicate
from apportion.rewards.structured import canonical
from apportion.rollouts import Action

__all__ = ["Event", "Temporal", "open_between", "repeated"]

Counting: TypeAlias = Literal["answered", "issued"]
Event: TypeAlias = Action | Message


class Temporal(Predicate):
    """A predicate with a memory, which the engine keeps in `Before.memory` under `id(self)`."""

    @property
    def listens(self) -> bool:
        """Whether messages are worth remembering too; told of actions alone otherwise."""
        return any(child.about == "message" for child in self.children)

    @abstractmethod
    def fresh(self) -> Any:
        """The memory before the first action."""

    @abstractmethod
    def notice(self, event: Event, before: Before) -> Any:
        """What is worth remembering about an action, or a message where it `listens`; the memory shows the past."""

    @abstractmethod
    def remember(self, memory: Any, noticed: Any, turn: int) -> None:
        """Takes it in, once every predicate has been asked."""


def is_one(question: Predicate, event: Event, before: Before) -> bool | None:
    """Whether an event is one of these: a question about actions is never one about messages."""
    if isinstance(event, Action):
        return False if question.about == "message" else question.holds(event, before)
    return question.hears(event, before) if question.about == "message" else False


def when(turn: int, *, message: bool = False) -> str:
    """A place in a rollout in words; what opens it comes before turn 0."""
    return "in the prompt" if turn < 0 else f"{'after' if message else 'in'} turn {turn}"


def label(event: Event) -> str:
    return _arguments.brief(str(event.name), 60) if isinstance(event, Action) else event.role


@dataclass(slots=True)
class Marks:
    """The turns in which something happened, by key; what nobody could tell; and what last wiped the slate."""

    turns: dict[object, list[int]] = field(default_factory=dict)
    unclear: bool = False
    reset: str = ""
    reset_unclear: bool = False

    def count(self, key: object, first: int, last: int) -> int:
        """How often it happened in the turns from `first` up to but not including `last`."""
        turns = self.turns.get(key, [])
        return bisect_left(turns, last) - bisect_left(turns, first)


def window_of(before: Before, within: int | None, counting: Counting) -> tuple[int, int]:
    last = before.turn if counting == "answered" else before.turn + 1
    return (-1 if within is None else before.turn - within), last


def check_bounds(within: int | None, counting: Counting) -> None:
    if within is not None:
        _arguments.whole("within", within, at_least=0)
    _arguments.choice("counting", counting, get_args(Counting))


@dataclass(slots=True)
class Opening:
    """Whether the stretch is open, since which turn, what opened or closed it, and whether nobody could tell."""

    opened: int | None = None
    told: str = "never opened so far"
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
    def about(self) -> About:
        """The past alone."""
        return "state"

    @property
    def words(self) -> str:
        """The stretch."""
        return f"after {self.start.words} and before {self.stop.words}"

    def fresh(self) -> Opening:
        """Closed."""
        return Opening()

    def notice(self, event: Event, before: Before) -> tuple[bool | None, bool | None, str, bool]:
        """Whether the event opens, whether it closes, and what it was."""
        opens, closes = is_one(self.start, event, before), is_one(self.stop, event, before)
        return opens, closes, label(event), isinstance(event, Message)

    def remember(self, memory: Opening, noticed: tuple[bool | None, bool | None, str, bool], turn: int) -> None:
        """An event that does both leaves the stretch open: it closes the old one first."""
        opens, closes, name, message = noticed
        memory.unclear = (memory.unclear and not (opens or closes)) or opens is None or closes is None
        if closes:
            if memory.opened is not None:
                memory.told = f"closed {when(turn, message=message)} ({name})"
            memory.opened = None
        if opens:
            memory.opened = turn
            memory.told = f"opened {when(turn, message=message)} ({name})"

    def hears(self, message: Message, before: Before) -> bool | None:
        """The past is the same for a message as for an action."""
        return self._inside(before)

    def holds(self, action: Action, before: Before) -> bool | None:
        """True inside, with the opening answered."""
        return self._inside(before)

    def because(self, action: Action, before: Before) -> str:
        """What opened or closed it last."""
        memory: Opening = before.recall(self)
        waiting = memory.opened is not None and memory.opened >= before.turn
        unsure = "; it may have changed since" if memory.unclear else ", not answered yet" if waiting else ""
        return f"{memory.told}{unsure}"

    def _inside(self, before: Before) -> bool | None:
        memory: Opening = before.recall(self)
        if memory.unclear:
            return None
        return memory.opened is not None and memory.opened < before.turn


def open_between(start: Predicate, stop: Predicate) -> Predicate:
    """The action lies after an answered `start` and before the next `stop`.

    Args:
        start: opens the stretch, e.g. the call that begins a transaction, or what the user says.
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

    def notice(self, event: Event, before: Before) -> tuple[str | None, str]:
        """The call in one canonical form."""
        assert isinstance(event, Action)
        return self._key(event)

    def remember(self, memory: Marks, noticed: tuple[str | None, str], turn: int) -> None:
        """Adds the turn."""
        memory.turns.setdefault(noticed, []).append(turn)

    def holds(self, action: Action, before: Before) -> bool | None:
        """True when this very call stands earlier, in this turn or another."""
        memory: Marks = before.recall(self)
        return memory.count(self._key(action), *window_of(before, self.within, "issued")) > 0

    def because(self, action: Action, before: Before) -> str:
        """When it was made last."""
        memory: Marks = before.recall(self)
        turns = memory.turns.get(self._key(action), [])
        return f"made {when(turns[-1])}" if turns else "never made so far"

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
    check_bounds(within, "issued")
    return Repeated(within)
