r"""What a rule asks about one action, and about the state before it: predicates that compose with `&`, `|` and `~`.

    called("edit_file") & argument("path", matches=r"_test\.py$") & ~happened(called("read_file"), same="path")

A predicate answers True, False or None (it cannot tell); the operators follow Kleene's logic. It sees the action and
what came before it, never what comes after and never a judge's opinion: one rollout always gets the same answer.
`predicate(function, words=...)` makes one out of any function; a subclass of `Predicate` works too. The ready-made ones
are in structured.py (one call), mutating.py (calls that change something), said.py (messages), and in happened.py and
temporal.py (what came before).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.messages import Message
from apportion.rollouts import Action, Trajectory

__all__ = ["About", "Before", "Predicate", "predicate"]

# What decides the answer: the action, a message, or nothing but what came before either.
About: TypeAlias = Literal["action", "message", "state"]


@dataclass(slots=True)
class Before:
    """The state before an action: everything that happened up to it.

    Attributes:
        trajectory: the whole rollout; a predicate must not look past `turn` in it.
        turn: index of the turn that the action belongs to.
        actions: (turn, action) of every earlier action that parsed and reached the environment.
        memory: what temporal predicates remember; each uses its own entry.
    """

    trajectory: Trajectory
    turn: int = 0
    actions: list[tuple[int, Action]] = field(default_factory=list)
    memory: dict[int, Any] = field(default_factory=dict)

    def recall(self, asking: Predicate) -> Any:
        """The memory of a temporal predicate."""
        if id(asking) not in self.memory:
            raise InvalidArgument(
                "predicate", asking.words, "a predicate inside a rule of path(...), reachable through `children`"
            )
        return self.memory[id(asking)]

    @property
    def observation(self) -> str:
        """What the environment answered last; "" before the first answer."""
        return self.trajectory.turns[self.turn - 1].observation if self.turn > 0 else ""


class Predicate(ABC):
    """A question about an action and the state before it; see the module for the ready-made ones."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The question as a person would put it, for the evidence."""

    @property
    def commits(self) -> bool:
        """True when it can only hold because of what the policy did, never because of what it left out."""
        return True

    @property
    def about(self) -> About:
        """What decides the answer."""
        return "action"

    @property
    def children(self) -> Sequence[Predicate]:
        """The predicates that this one is made of."""
        return ()

    @abstractmethod
    def holds(self, action: Action, before: Before) -> bool | None:
        """True, False, or None when it cannot tell."""

    def hears(self, message: Message, before: Before) -> bool | None:
        """The same about a message, for what is remembered of it; no question about an action holds for a message."""
        return False

    def because(self, action: Action, before: Before) -> str:
        """What in the action decided, or why it cannot tell; "" where the question says it all."""
        told = [child.because(action, before) for child in self.children]
        return "; ".join(dict.fromkeys(part for part in told if part))

    def __and__(self, other: Predicate) -> Predicate:
        return AllOf((self, other)) if isinstance(other, Predicate) else NotImplemented

    def __or__(self, other: Predicate) -> Predicate:
        return AnyOf((self, other)) if isinstance(other, Predicate) else NotImplemented

    def __invert__(self) -> Predicate:
        return Not(self)

    def worded(self, words: str) -> Predicate:
        r"""The same question under a name of its own, for the evidence.

        Example:
            >>> from apportion.rewards import happened, said
            >>> happened(said("user", matches=r"(?i)\byes\b").worded("confirmation")).words
            'an earlier confirmation'
        """
        return Worded(self, _arguments.text("words", words))

    def walk(self) -> Iterator[Predicate]:
        """This predicate and everything in it, inner ones first."""
        for child in self.children:
            yield from child.walk()
        yield self


@dataclass(frozen=True)
class AllOf(Predicate):
    """Both hold."""

    parts: tuple[Predicate, ...]

    @property
    def about(self) -> About:
        """The action where any part asks about it, else a message where any does."""
        return _about(self.parts)

    @property
    def children(self) -> Sequence[Predicate]:
        """The parts."""
        return self.parts

    @property
    def words(self) -> str:
        """Joined by "and"."""
        return " and ".join(child.words for child in self.children)

    @property
    def commits(self) -> bool:
        """One deed is enough."""
        return any(child.commits for child in self.children)

    def holds(self, action: Action, before: Before) -> bool | None:
        """False if any is False, else None if any is None."""
        return _all([child.holds(action, before) for child in self.parts])

    def hears(self, message: Message, before: Before) -> bool | None:
        """False if any is False, else None if any is None."""
        return _all([child.hears(message, before) for child in self.parts])


@dataclass(frozen=True)
class AnyOf(Predicate):
    """At least one holds."""

    parts: tuple[Predicate, ...]

    @property
    def about(self) -> About:
        """The action where any part asks about it, else a message where any does."""
        return _about(self.parts)

    @property
    def children(self) -> Sequence[Predicate]:
        """The parts."""
        return self.parts

    @property
    def words(self) -> str:
        """Joined by "or"."""
        return f"({' or '.join(child.words for child in self.children)})"

    @property
    def commits(self) -> bool:
        """Each alternative must be a deed."""
        return all(child.commits for child in self.children)

    def holds(self, action: Action, before: Before) -> bool | None:
        """True if any is True, else None if any is None."""
        return _any([child.holds(action, before) for child in self.parts])

    def hears(self, message: Message, before: Before) -> bool | None:
        """True if any is True, else None if any is None."""
        return _any([child.hears(message, before) for child in self.parts])


@dataclass(frozen=True)
class Not(Predicate):
    """The opposite."""

    inner: Predicate

    @property
    def about(self) -> About:
        """What the negated one is about."""
        return self.inner.about

    @property
    def children(self) -> Sequence[Predicate]:
        """The one that is negated."""
        return (self.inner,)

    @property
    def words(self) -> str:
        """Negated."""
        return f"not ({self.inner.words})"

    @property
    def commits(self) -> bool:
        """Something that was not done is no deed."""
        return False

    def holds(self, action: Action, before: Before) -> bool | None:
        """None stays None."""
        answer = self.inner.holds(action, before)
        return None if answer is None else not answer

    def hears(self, message: Message, before: Before) -> bool | None:
        """None stays None; only asked where `about` is not the action."""
        answer = self.inner.hears(message, before)
        return None if answer is None else not answer

    def __invert__(self) -> Predicate:
        return self.inner


def _all(answers: Sequence[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


def _any(answers: Sequence[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False


def _about(parts: Sequence[Predicate]) -> About:
    found = {part.about for part in parts}
    return "action" if "action" in found else "message" if "message" in found else "state"


@dataclass(frozen=True)
class Worded(Predicate):
    """See `Predicate.worded`."""

    inner: Predicate
    said: str

    @property
    def words(self) -> str:
        """As declared."""
        return self.said

    @property
    def commits(self) -> bool:
        """As the question itself."""
        return self.inner.commits

    @property
    def about(self) -> About:
        """As the question itself."""
        return self.inner.about

    @property
    def children(self) -> Sequence[Predicate]:
        """The question itself."""
        return (self.inner,)

    def holds(self, action: Action, before: Before) -> bool | None:
        """As the question itself."""
        return self.inner.holds(action, before)

    def hears(self, message: Message, before: Before) -> bool | None:
        """As the question itself."""
        return self.inner.hears(message, before)


@dataclass(frozen=True)
class Custom(Predicate):
    """See `predicate`."""

    function: Callable[[Action, Before], bool | None]
    said: str
    asks: Literal["action", "state"]

    @property
    def words(self) -> str:
        """As declared."""
        return self.said

    @property
    def commits(self) -> bool:
        """As declared."""
        return self.asks == "action"

    @property
    def about(self) -> About:
        """As declared."""
        return self.asks

    def hears(self, message: Message, before: Before) -> bool | None:
        """A question about the state alone has the same answer whatever happens in it."""
        return self.holds(Action(name=None), before) if self.asks == "state" else False

    def holds(self, action: Action, before: Before) -> bool | None:
        """What the function says."""
        answer = self.function(action, before)
        if answer is None or isinstance(answer, bool):
            return answer
        raise InvalidArgument(f"predicate {self.said!r}", answer, "True, False or None")


def predicate(
    function: Callable[[Action, Before], bool | None], *, words: str, about: Literal["action", "state"] = "action"
) -> Predicate:
    """Any function of (action, state before it) as a predicate.

    Args:
        function: returns True, False, or None when it cannot tell; deterministic.
        words: what it asks, for the evidence: "command deletes files".
        about: "action" when it can only hold because of what the action does, "state" when it looks at the state alone.

    Returns:
        A predicate.

    Raises:
        InvalidArgument: no words, an unknown `about`; when asked, an answer that is neither a bool nor None.

    Example:
        >>> long = predicate(lambda action, before: len(action.raw) > 9, words="call is long")
        >>> long.holds(Action(name="ls", raw="ls"), Before(Trajectory(id="r", group="q")))
        False
    """
    if not callable(function):
        raise InvalidArgument("function", function, "a function of (action, before)")
    _arguments.choice("about", about, ("action", "state"))
    return Custom(function, _arguments.text("words", words), about)
