"""`happened`: an earlier action or message, so many times, recently, since another one, about the same thing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.messages import Message
from apportion.rewards.predicates import About, Before, Predicate
from apportion.rewards.structured import ABSENT, Path, at_path, canonical, parse_path, path_words
from apportion.rewards.temporal import Counting, Event, Marks, Temporal, check_bounds, is_one, label, when, window_of
from apportion.rollouts import Action

__all__ = ["happened"]

_LISTED = 5


@dataclass(frozen=True, eq=False)
class Happened(Temporal):
    """See `happened`."""

    of: Predicate
    times: int
    within: int | None
    since: Predicate | None
    same: Path | None
    counting: Counting

    @property
    def children(self) -> Sequence[Predicate]:
        """What may have happened, and what wipes the slate."""
        return (self.of,) if self.since is None else (self.of, self.since)

    @property
    def about(self) -> About:
        """The past alone, unless an argument has to be the same."""
        return "state" if self.same is None else "action"

    @property
    def words(self) -> str:
        """With its bounds."""
        often = "" if self.times == 1 else f" at least {self.times} times"
        recent = "" if self.within is None else f" in the last {self.within} turns"
        since = "" if self.since is None else f" since the last {self.since.words}"
        alike = "" if self.same is None else f" with the same {path_words(self.same)}"
        answered = self.counting == "answered" and self.of.about != "message"
        return f"{'an answered' if answered else 'an earlier'} {self.of.words}{alike}{often}{recent}{since}"

    def fresh(self) -> Marks:
        """Nothing happened."""
        return Marks()

    def notice(self, event: Event, before: Before) -> tuple[object, bool | None, bool | None, str]:
        """The key of the event, whether it is one, and whether it wipes the slate."""
        wiped = False if self.since is None else is_one(self.since, event, before)
        key = self._key(event) if isinstance(event, Action) else ""
        return key, is_one(self.of, event, before), wiped, label(event)

    def remember(self, memory: Marks, noticed: tuple[object, bool | None, bool | None, str], turn: int) -> None:
        """Adds the turn to the event's key; an event that does both counts, on a clean slate."""
        key, held, wiped, name = noticed
        if wiped:
            memory.turns.clear()
            memory.unclear = memory.reset_unclear = False
            memory.reset = f"{'the prompt' if turn < 0 else f'turn {turn}'} ({name})"
        elif wiped is None:
            memory.reset_unclear = True
        if held is None:
            memory.unclear = True
        elif held:
            memory.turns.setdefault(key, []).append(turn)

    def hears(self, message: Message, before: Before) -> bool | None:
        """The past is the same for a message as for an action; without an argument, none can be the same."""
        return self._so_far("", before) if self.same is None else False

    def holds(self, action: Action, before: Before) -> bool | None:
        """None when it did not happen for certain, but may have."""
        return self._so_far(self._key(action), before)

    def because(self, action: Action, before: Before) -> str:
        """When it happened, or since when it did not."""
        memory: Marks = before.recall(self)
        key = self._key(action)
        told = "" if self.same is None else f" with {path_words(self.same)} {_arguments.excerpt(_at(self, action), 60)}"
        first, last = window_of(before, self.within, self.counting)
        turns = memory.turns.get(key, [])
        turns = turns[bisect_left(turns, first) : bisect_left(turns, last)]
        if turns:
            heard = self.of.about == "message"
            listed = ", ".join(dict.fromkeys(when(turn, message=heard) for turn in turns[-_LISTED:]))
            often = "" if len(turns) == 1 else f" {len(turns)} times, last"
            sure = f", but {self.since.words} may have come after" if memory.reset_unclear and self.since else ""
            return f"{self.of.words}{told}{often} {listed}{sure}"
        past = f"since {memory.reset}" if memory.reset else "so far"
        return f"{'perhaps' if memory.unclear else 'no'} {self.of.words}{told} {past}"

    def _so_far(self, key: object, before: Before) -> bool | None:
        memory: Marks = before.recall(self)
        if self.same is not None and key is None:
            return False
        first, last = window_of(before, self.within, self.counting)
        if memory.count(key, first, last) >= self.times:
            return None if memory.reset_unclear else True
        return None if memory.unclear else False

    def _key(self, action: Action) -> object:
        if self.same is None:
            return ""
        value = _at(self, action)
        return None if value is ABSENT else canonical(value)


def _at(asking: Happened, action: Action) -> object:
    return ABSENT if asking.same is None else at_path(action.arguments, asking.same)


def happened(
    of: Predicate,
    *,
    times: int = 1,
    within: int | None = None,
    since: Predicate | None = None,
    same: str | Sequence[str | int] | None = None,
    counting: Counting = "answered",
) -> Predicate:
    """An earlier action of this kind was taken, or (for `said`) a message of this kind was received.

    Args:
        of: which actions or messages count; each is judged by the state before itself.
        times: at least so many.
        within: only in the last so many turns (0: this turn); `None` for the whole rollout.
        since: only after the last of these, e.g. a confirmation that each write uses up; before the first of them
            everything counts.
        same: an argument that must have the same value in both actions, e.g. "path".
        counting: "answered": only actions of earlier turns, whose results the policy has seen; "issued": also actions
            that stand earlier in the same turn.

    Returns:
        A predicate; used inside the rules of `path`.

    Raises:
        InvalidArgument: `times` < 1, `within` < 0, an unreadable path, an unknown `counting`, `same` for messages.

    Example:
        >>> from apportion.rewards.structured import called
        >>> happened(called("read_file"), same="path").words
        'an answered call of read_file with the same path'
    """
    check_bounds(within, counting)
    if not isinstance(of, Predicate):
        raise InvalidArgument("of", of, "a predicate such as called('read_file')")
    if since is not None and not isinstance(since, Predicate):
        raise InvalidArgument("since", since, "a predicate such as called('commit'), or None")
    if same is not None and of.about == "message":
        raise InvalidArgument("same", same, "None, since a message has no arguments")
    path = None if same is None else parse_path(same)
    return Happened(of, _arguments.whole("times", times, at_least=1), within, since, path, counting)
