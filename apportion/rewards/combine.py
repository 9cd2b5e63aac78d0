"""Rewards that depend on rewards: a gate, the first that applies, a bound."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Reward, Role, check_reward, role_of, same_level
from apportion.rewards.running import Combined, Plan, Question
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["clip", "first_of", "gate"]

OnFailure: TypeAlias = Literal["stop", "skip"]


@dataclass(frozen=True)
class Gate(Combined):
    """See `gate`."""

    condition: Reward
    then: Reward
    otherwise: Reward | float | None
    at: float
    name: str
    level: Level = field(init=False)

    @property
    def role(self) -> Role:
        """That of what it is made of."""
        return role_of(self.then)

    def __post_init__(self) -> None:
        parts = [self.condition, self.then]
        if isinstance(self.otherwise, Reward):
            parts.append(self.otherwise)
        elif self.otherwise is not None:
            _arguments.number("otherwise", self.otherwise)
        object.__setattr__(self, "level", same_level("gate", parts))
        _arguments.number("at", self.at)
        _arguments.text("name", self.name)

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks the condition first, and then each branch only about the trajectories that reach it."""
        (conditions,) = yield [(self.condition, trajectories)]
        reached = [row for row, cells in enumerate(conditions) if any(self._open(cell) for cell in cells)]
        questions: list[Question] = [(self.then, [trajectories[row] for row in reached])]
        left: list[int] = []
        if isinstance(self.otherwise, Reward):
            left = [row for row, cells in enumerate(conditions) if any(self._open(cell) is False for cell in cells)]
            questions.append((self.otherwise, [trajectories[row] for row in left]))
        answers = yield questions
        inside = dict(zip(reached, answers[0], strict=True))
        outside = dict(zip(left, answers[1], strict=True)) if left else {}
        return [
            [self._verdict(cell, (row, at), inside, outside) for at, cell in enumerate(cells)]
            for row, cells in enumerate(conditions)
        ]

    def _open(self, condition: Verdict) -> bool | None:
        return condition.value >= self.at if isinstance(condition, Scored) else None

    def _verdict(
        self,
        condition: Verdict,
        where: tuple[int, int],
        inside: Mapping[int, Sequence[Verdict]],
        outside: Mapping[int, Sequence[Verdict]],
    ) -> Verdict:
        row, at = where
        name = self.condition.name
        if isinstance(condition, Failed):
            return Failed(f"gate {name} is unknown: {_arguments.brief(condition.error)}")
        if isinstance(condition, Abstained):
            return Abstained(f"gate {name} does not apply: {_arguments.brief(condition.reason)}")
        why = f" ({_arguments.brief(condition.evidence)})" if condition.evidence else ""
        if condition.value >= self.at:
            return _told(inside[row][at], f"gate {name} open")
        shut = f"gate {name} shut at {condition.value:g}{why}"
        if isinstance(self.otherwise, (int, float)):
            return Scored(self.otherwise, shut)
        return _told(outside[row][at], shut) if row in outside else Abstained(shut)


def _told(verdict: Verdict, prefix: str) -> Verdict:
    if isinstance(verdict, Scored):
        return Scored(verdict.value, f"{prefix}; {verdict.evidence}" if verdict.evidence else prefix)
    return verdict


def gate(
    condition: Reward, *, then: Reward, otherwise: Reward | float | None = 0.0, at: float = 1.0, name: str | None = None
) -> Gate:
    """One reward only where another is high enough: accuracy counts only if the format is right.

        value = then       where condition >= at
                otherwise  where condition <  at

    Args:
        condition: decides; of the same level as the branches.
        then: asked only about the trajectories whose condition holds (a judge costs nothing elsewhere).
        otherwise: a number, a reward, or `None` to abstain.
        at: the value from which the condition holds.
        name: default: `gate(condition, then)`.

    Returns:
        A reward of the parts' level. Where the condition is `Failed` so is the gate; where it abstains the gate
        abstains.

    Raises:
        InvalidArgument: parts of different levels, `otherwise` or `at` not finite.

    Example:
        >>> from apportion.rewards import reward
        >>> tidy, right = reward(name="tidy")(lambda t: 0.0), reward(name="right")(lambda t: 1.0)
        >>> gate(tidy, then=right).observe([Trajectory(id="r0", group="q")])
        [Scored(value=0.0, evidence='gate tidy shut at 0')]
    """
    default = f"gate({check_reward('condition', condition).name}, {check_reward('then', then).name})"
    return Gate(condition, then, otherwise, at, default if name is None else name)


@dataclass(frozen=True)
class FirstOf(Combined):
    """See `first_of`."""

    parts: tuple[Reward, ...]
    failed: OnFailure
    name: str
    level: Level = field(init=False)

    @property
    def role(self) -> Role:
        """That of what it is made of."""
        return role_of(*self.parts)

    def __post_init__(self) -> None:
        if not self.parts:
            raise InvalidArgument("rewards", self.parts, "at least one reward")
        object.__setattr__(self, "level", same_level("first_of", self.parts))
        _arguments.choice("failed", self.failed, get_args(OnFailure))
        _arguments.text("name", self.name)

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks each reward only about the trajectories on which nothing has been said yet."""
        (rows,) = yield [(self.parts[0], trajectories)]
        rows = [[self._tagged(self.parts[0], cell) for cell in cells] for cells in rows]
        for part in self.parts[1:]:
            open_rows = [row for row, cells in enumerate(rows) if any(self._passed_on(cell) for cell in cells)]
            (answers,) = yield [(part, [trajectories[row] for row in open_rows])]
            for row, cells in zip(open_rows, answers, strict=True):
                rows[row] = [
                    self._next(old, self._tagged(part, new)) if self._passed_on(old) else old
                    for old, new in zip(rows[row], cells, strict=True)
                ]
        return rows

    def _passed_on(self, verdict: Verdict) -> bool:
        return isinstance(verdict, Abstained) or (isinstance(verdict, Failed) and self.failed == "skip")

    def _next(self, old: Verdict, new: Verdict) -> Verdict:
        if isinstance(new, Scored):
            return new
        # What is left over: a failure weighs more than an abstention, because then somebody should have known.
        if isinstance(old, Failed) and isinstance(new, Failed):
            return Failed(f"{old.error}; {new.error}")
        if isinstance(old, Abstained) and isinstance(new, Abstained):
            return Abstained(f"{old.reason}; {new.reason}")
        return old if isinstance(old, Failed) else new

    def _tagged(self, part: Reward, verdict: Verdict) -> Verdict:
        if isinstance(verdict, Scored):
            return Scored(verdict.value, f"{part.name}: {verdict.evidence}" if verdict.evidence else part.name)
        if isinstance(verdict, Abstained):
            return Abstained(f"{part.name}: {_arguments.brief(verdict.reason)}")
        return Failed(f"{part.name}: {_arguments.brief(verdict.error)}")


def first_of(rewards: Iterable[Reward], *, failed: OnFailure = "stop", name: str | None = None) -> FirstOf:
    """The first reward that does not abstain, trajectory by trajectory (turn by turn at turn level).

    Args:
        rewards: in order of preference, of one level; each is asked only where all before it abstained.
        failed: "stop": a `Failed` reward ends the search as `Failed`, so that an outage never swaps the yardstick
            inside a group; "skip": the next reward is asked, and only if none scores is the result `Failed`.
        name: default: `first_of(a, b, ...)`.

    Returns:
        A reward of the parts' level; it abstains where all of them do.

    Raises:
        InvalidArgument: no rewards, different levels, an unknown `failed`.

    Example:
        >>> from apportion.rewards import reward
        >>> exact, judged = reward(name="exact")(lambda t: None), reward(name="judged")(lambda t: 0.7)
        >>> first_of([exact, judged]).observe([Trajectory(id="r0", group="q")])
        [Scored(value=0.7, evidence='judged')]
    """
    parts = tuple(check_reward("rewards", part) for part in rewards)
    default = f"first_of({', '.join(part.name for part in parts)})"
    return FirstOf(parts, failed, default if name is None else name)


@dataclass(frozen=True)
class Clip(Combined):
    """See `clip`."""

    inner: Reward
    low: float | None
    high: float | None
    name: str
    level: Level = field(init=False)

    @property
    def role(self) -> Role:
        """That of what it is made of."""
        return role_of(self.inner)

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", same_level("clip", [self.inner]))
        for argument in ("low", "high"):
            if getattr(self, argument) is not None:
                _arguments.number(argument, getattr(self, argument))
        if self.low is None and self.high is None:
            raise InvalidArgument("low", None, "a bound: low, high or both")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise InvalidArgument("low", self.low, f"at most high={self.high:g}")
        _arguments.text("name", self.name)

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks the one part."""
        (rows,) = yield [(self.inner, trajectories)]
        return [[self._clipped(cell) for cell in cells] for cells in rows]

    def _clipped(self, verdict: Verdict) -> Verdict:
        if not isinstance(verdict, Scored):
            return verdict
        value = verdict.value
        value = value if self.low is None else max(value, self.low)
        value = value if self.high is None else min(value, self.high)
        if value == verdict.value:
            return verdict
        note = f"clipped from {verdict.value:g}"
        return dataclasses.replace(
            verdict, value=value, evidence=f"{verdict.evidence}; {note}" if verdict.evidence else note
        )


def clip(reward: Reward, *, low: float | None = None, high: float | None = None, name: str | None = None) -> Clip:
    """A reward kept inside bounds.

        value = min(max(value, low), high)

    Args:
        reward: of either level.
        low: lower bound; `None` for none.
        high: upper bound; `None` for none.
        name: default: `clip(reward)`.

    Returns:
        A reward of the same level; missing verdicts pass through, and the evidence says what was cut off.

    Raises:
        InvalidArgument: no bound, a bound that is not finite, low > high.

    Example:
        >>> from apportion.rewards import reward
        >>> clip(reward(name="r")(lambda t: 3.0), high=1.0).observe([Trajectory(id="r0", group="q")])
        [Scored(value=1.0, evidence='clipped from 3')]
    """
    return Clip(reward, low, high, f"clip({check_reward('reward', reward).name})" if name is None else name)
