"""`anchor`: which turns of a group started from the same state.

    rollout 1    (start) turn -> "kitchen" turn -> "hall" turn -> ...
    rollout 2    (start) turn -> "hall"    turn -> ...              "hall" is an anchor: two turns can be compared there

The state before a turn is the observation that the turn before it ended in. Its verdict is a code: a number that equal
states share and that is worth nothing as a reward; `group_stat` takes codes as keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, get_args

from apportion.rewards import _arguments
from apportion.rewards.base import Composable, Observation, Role
from apportion.rewards.codes import code_of
from apportion.rewards.recorded import content_text, require_turns
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Scored, Verdict

__all__ = ["anchor", "similarity"]

Match: TypeAlias = Literal["exact", "similar"]
State: TypeAlias = Callable[[Trajectory, int], str | None]

# Texts are compared letter by letter, and what they say is written by others: longer ones must be equal, and a state is
# held against so many anchors of its group, the latest first.
_LONGEST = 2000
_MOST = 32


@dataclass(frozen=True)
class Anchor(Composable):
    """See `anchor`."""

    _role: ClassVar[Role] = "label"
    match: Match
    at_least: float
    state: State
    name: str
    level: Level = field(default=Level.TURN, init=False)

    def __post_init__(self) -> None:
        _arguments.choice("match", self.match, get_args(Match))
        _arguments.number("at_least", self.at_least, at_least=0.0, at_most=1.0)
        _arguments.text("name", self.name)

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation:
        """One code per turn."""
        if self.state is observation_before:
            require_turns(f"observer {self.name!r}", trajectories)
        groups: dict[str, _Anchors] = {}
        return [list(self._row(t, groups.setdefault(t.group, _Anchors(self.at_least)))) for t in trajectories]

    def _row(self, trajectory: Trajectory, anchors: _Anchors) -> Iterator[Verdict]:
        for k in range(trajectory.n_turns):
            text = self.state(trajectory, k)
            if text is None:
                yield Abstained("no state is recorded before this turn")
                continue
            found = text if self.match == "exact" else anchors.of(text)
            yield Scored(code_of(found), _arguments.excerpt(found))


class _Anchors:
    """The states of one group so far; the first of its kind speaks for all that resemble it."""

    def __init__(self, at_least: float) -> None:
        self.at_least = at_least
        self.kinds: dict[str, str] = {}
        self.firsts: list[str] = []

    def of(self, text: str) -> str:
        if text not in self.kinds:
            near = (first for first in self.firsts[-_MOST:] if similarity(text, first, floor=self.at_least) is not None)
            self.kinds[text] = next(near, text) if len(text) <= _LONGEST else text
            if self.kinds[text] == text and len(text) <= _LONGEST:
                self.firsts.append(text)
        return self.kinds[text]


def anchor(
    *, match: Match = "exact", at_least: float = 0.95, state: State | str | None = None, name: str = "anchor"
) -> Anchor:
    """The state that every turn started from, as a code that equal states of a group share.

    Args:
        match: "exact" compares the whole text; "similar" lets the first state of a group stand for all later ones that
            resemble it (greedy, in the order of the rollouts). Beyond 2000 letters "similar" is exact too, and only the
            latest 32 anchors of a group are looked at.
        at_least: the `similarity` from which two states count as one.
        state: the text of the state before turn k: a function of (trajectory, k), None = unknown; or the turn column
            that holds it (a page's address, a hash). Default: the observation that answers the turn before; the first
            turn starts from the last message before it, or from one start that all rollouts of a prompt share.
        name: what the verdicts are called.

    Returns:
        A TURN observer: `Scored(code, evidence)`, where the evidence is the state in words; `Abstained` where no state
        is known. Codes are whole numbers below 2^52, the same in every process; "similar" needs the whole group in one
        call, since what a state resembles depends on which states came before.

    Raises:
        InvalidArgument: an unknown match, a share outside [0, 1].
        MissingInput: when observing without `state`, rollouts that have turns but no table of them.

    Example:
        >>> from apportion.rollouts import Turn
        >>> a = Trajectory(id="a", group="q", turns=[Turn(observation="hall"), Turn(observation="end")])
        >>> b = Trajectory(id="b", group="q", turns=[Turn(observation="hall"), Turn()])
        >>> first, second = anchor().observe([a, b])
        >>> first[0] == second[0], first[1] == second[1], first[0] == first[1]
        (True, True, False)

    Source: arXiv 2505.10978 (GiGPO). Its code compares with difflib, whose ratio is never above `similarity`.
    """
    if isinstance(state, str):
        return Anchor(match, at_least, _Column(_arguments.text("state", state)), name)
    return Anchor(match, at_least, observation_before if state is None else state, name)


@dataclass(frozen=True)
class _Column:
    column: str

    def __call__(self, trajectory: Trajectory, k: int) -> str | None:
        found = trajectory.turns[k].columns.get(self.column) if trajectory.turns else None
        return None if found is None else str(found)


def observation_before(trajectory: Trajectory, k: int) -> str | None:
    """What the policy saw last before turn k."""
    if k:
        return trajectory.turns[k - 1].observation
    seen = ""
    for message in trajectory.messages:
        if message.get("role") == "assistant":
            break
        seen = content_text(message)
    return seen


def similarity(one: str, other: str, *, floor: float = 0.0) -> float | None:
    """The share of two texts that can be matched in order.

        2 * longest common subsequence / (length + length)        1 for two empty texts

    Args:
        one: a text.
        other: another one.
        floor: below it the answer is None, often without a comparison.

    Example:
        >>> similarity("abcd", "abxd"), similarity("abcd", "wxyz", floor=0.5)
        (0.75, None)
    """
    total = len(one) + len(other)
    if not total or one == other:
        return 1.0
    if 2 * min(len(one), len(other)) / total < floor or 2 * (Counter(one) & Counter(other)).total() / total < floor:
        return None
    share = 2 * _common(one, other, floor) / total
    return share if share >= floor else None


def _common(one: str, other: str, floor: float) -> int:
    """Length of the longest common subsequence; not counted to the end where its share will stay below the floor.

    One row of the table at a time, as the bits of one integer: its zeros are the letters matched so far.
    """
    where: dict[str, int] = {}
    for i, letter in enumerate(one):
        where[letter] = where.get(letter, 0) | 1 << i
    full = (1 << len(one)) - 1
    row = full
    for read, letter in enumerate(other):
        if read % 32 == 0 and 2 * (len(one) - row.bit_count() + len(other) - read) / (len(one) + len(other)) < floor:
            break
        shared = row & where.get(letter, 0)
        row = ((row + shared) | (row - shared)) & full
    return len(one) - row.bit_count()
