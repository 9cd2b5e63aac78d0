"""`said`: what the user, a tool or the policy itself said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.messages import Message
from apportion.rewards.patterns import Pattern
from apportion.rewards.predicates import About, Before
from apportion.rewards.temporal import Event, Temporal, when
from apportion.rollouts import Action

__all__ = ["said"]

Who: TypeAlias = Literal["user", "tool", "environment", "policy"]


@dataclass(slots=True)
class Last:
    """The last message of somebody: whether it passed, and where it was."""

    answer: bool | None = False
    told: str = ""


@dataclass(frozen=True, eq=False)
class Said(Temporal):
    """See `said`."""

    who: Who
    patterns: tuple[Pattern, ...]
    contains: str | None

    @property
    def about(self) -> About:
        """A message."""
        return "message"

    @property
    def listens(self) -> bool:
        """It remembers the last message."""
        return True

    @property
    def commits(self) -> bool:
        """What others say is no deed of the policy's."""
        return False

    @property
    def words(self) -> str:
        """Who, and what."""
        if self.contains is not None:
            return f"message of the {self.who} with {_arguments.excerpt(self.contains, 60)}"
        shown = " or ".join(_arguments.excerpt(pattern.source, 60) for pattern in self.patterns)
        return f"message of the {self.who}{' that matches ' if shown else ''}{shown}"

    def fresh(self) -> Last:
        """Nothing was said."""
        return Last()

    def notice(self, event: Event, before: Before) -> Last | None:
        """Whether a message passes; `None` for one of somebody else."""
        if isinstance(event, Action) or not self._may_be_theirs(event):
            return None
        where = f"{when(before.turn, message=True)}: {_arguments.excerpt(event.text, 100)}"
        return Last(self.hears(event, before), where)

    def remember(self, memory: Last, noticed: Last | None, turn: int) -> None:
        """The newest one counts."""
        if noticed is not None:
            memory.answer, memory.told = noticed.answer, noticed.told

    def hears(self, message: Message, before: Before) -> bool | None:
        """None for one that passes, if nobody recorded who wrote it."""
        if not self._may_be_theirs(message) or not self._passes(message.text):
            return False
        return None if message.role == "unrecorded" and self.who != "environment" else True

    def holds(self, action: Action, before: Before) -> bool | None:
        """About an action: whether the last such message before it passes."""
        last: Last = before.recall(self)
        return last.answer

    def because(self, action: Action, before: Before) -> str:
        """The last such message."""
        last: Last = before.recall(self)
        return f"the {self.who} said last, {last.told}" if last.told else f"the {self.who} said nothing so far"

    def _may_be_theirs(self, message: Message) -> bool:
        if self.who == "environment":
            return message.role != "policy"
        return message.role == self.who or (message.role == "unrecorded" and self.who != "policy")

    def _passes(self, text: str) -> bool:
        if self.contains is not None:
            return self.contains in text
        return not self.patterns or any(pattern.found_in(text) for pattern in self.patterns)


def said(
    who: Who, *, matches: str | tuple[str, ...] | list[str] | None = None, contains: str | None = None
) -> Temporal:
    r"""Somebody said this: an event for `happened`, `open_between` and the rules; beside an action, their last message.

    Args:
        who: "user" or "tool", where the roles were recorded (`Trajectory.messages`); "environment" for everything that
            is not the policy's; "policy" for its own text, which counts from the next turn on.
        matches: a regular expression found in the text, or several of which one is (see `Pattern` for what is refused).
        contains: a text that is part of it. Without either, any message.

    Returns:
        A predicate. `happened(said(...))`: they said it at some time before. `called(...) & said(...)`: the last thing
        that they said before the call. It cannot tell (None) where the text passes but nobody recorded whose it was.

    Raises:
        InvalidArgument: an unknown `who`, both tests, a pattern that could run for ever.

    Example:
        >>> from apportion.rewards import called, only_between
        >>> yes, no = said("user", matches=r"(?i)\byes\b"), said("user")
        >>> only_between(yes, called("book"), called("book") | no).fulfilment_words[:65]
        "call of book and after message of the user that matches '(?i)\\\\by"
    """
    _arguments.choice("who", who, get_args(Who))
    if matches is not None and contains is not None:
        raise InvalidArgument("tests", ["matches", "contains"], "one test; join several predicates with &")
    sources = () if matches is None else (matches,) if isinstance(matches, str) else tuple(matches)
    if matches is not None and not sources:
        raise InvalidArgument("matches", matches, "at least one regular expression")
    wanted = None if contains is None else _arguments.text("contains", contains)
    return Said(who, tuple(Pattern(source) for source in sources), wanted)
