"""Length shaping by the tokens that the policy wrote: tool output is never charged to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Reward, Role, check_reward, role_of
from apportion.rewards.recorded import interrupted, policy_tokens, require_tokens
from apportion.rewards.running import Combined, PerTrajectory, Plan
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Scored, Verdict

__all__ = ["cosine_length", "overlong", "stop_properly"]

Beyond: TypeAlias = Literal["floor", "linear"]


@dataclass(frozen=True)
class Overlong(PerTrajectory):
    """See `overlong`."""

    _role: ClassVar[Role] = "shaping"
    max_tokens: int
    cache: int
    factor: float
    beyond: Beyond
    name: str
    level: Level = field(default=Level.TRAJECTORY, init=False)

    def __post_init__(self) -> None:
        _arguments.whole("max_tokens", self.max_tokens, at_least=1)
        _arguments.whole("cache", self.cache, at_least=0)
        if self.cache > self.max_tokens:
            raise InvalidArgument("cache", self.cache, f"at most max_tokens={self.max_tokens}")
        if self.beyond == "linear" and self.cache == 0:
            raise InvalidArgument("cache", 0, "at least 1 with beyond='linear': the slope is factor / cache")
        _arguments.number("factor", self.factor, at_least=0)
        _arguments.choice("beyond", self.beyond, get_args(Beyond))
        _arguments.text("name", self.name)

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when a trajectory has no token ids."""
        require_tokens(self.name, trajectories)

    def score(self, trajectory: Trajectory) -> Verdict:
        """The penalty of one trajectory; its length is known even when the infrastructure cut it short."""
        length = policy_tokens(trajectory)
        free = self.max_tokens - self.cache
        share = 0.0 if length <= free else (length - free) / self.cache if self.cache else 1.0
        if self.beyond == "floor":
            share = min(share, 1.0)
        # No negative zero in logs.
        value = -self.factor * share if share else 0.0
        return Scored(value, f"{length} policy tokens; free up to {free}, limit {self.max_tokens}")


def overlong(
    *, max_tokens: int, cache: int, factor: float = 1.0, beyond: Beyond = "floor", name: str = "overlong"
) -> Overlong:
    """A soft penalty before the length limit (DAPO).

        value = 0                                       n <= max_tokens - cache
                -factor * (n - (max_tokens - cache)) / cache   up to max_tokens
                -factor                                 beyond (or on with the line)

    Args:
        max_tokens: the limit, in policy tokens.
        cache: the stretch before it over which the penalty grows, in tokens; 0 for a step at the limit.
        factor: the penalty at the limit.
        beyond: "floor" stays at -factor (DAPO, TRL, OpenRLHF); "linear" goes on falling (veRL).
        name: what the verdicts are called.

    Returns:
        A TRAJECTORY reward in [-factor, 0], or below with "linear". n counts the tokens the policy wrote; popular code
        counts the whole response, tool output included.

    Raises:
        InvalidArgument: a limit below 1, a cache above it, a negative factor, "linear" without a cache.
        MissingInput: when observing, trajectories without token ids.

    Example:
        >>> rollout = Trajectory(id="r0", group="q", response_ids=[1] * 90)
        >>> overlong(max_tokens=100, cache=20).observe([rollout])[0].value
        -0.5

    Source: arXiv 2503.14476, eq. 13.
    """
    return Overlong(max_tokens, cache, factor, beyond, name)


@dataclass(frozen=True)
class StopProperly(Combined):
    """See `stop_properly`."""

    inner: Reward
    coefficient: float
    name: str
    level: Level = field(default=Level.TRAJECTORY, init=False)

    @property
    def role(self) -> Role:
        """That of what it is made of."""
        return role_of(self.inner)

    def __post_init__(self) -> None:
        _trajectory_level(self.inner)
        _arguments.number("coefficient", self.coefficient, at_most=1)
        _arguments.text("name", self.name)

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks the one part."""
        (rows,) = yield [(self.inner, trajectories)]
        return [[self._shaped(trajectory, cells[0])] for trajectory, cells in zip(trajectories, rows, strict=True)]

    def _shaped(self, trajectory: Trajectory, verdict: Verdict) -> Verdict:
        if trajectory.status != "truncated" or isinstance(verdict, Abstained):
            return verdict
        if self.coefficient < 0:
            return Scored(self.coefficient, f"truncated: replaced by {self.coefficient:g}")
        if not isinstance(verdict, Scored):
            return verdict
        note = f"truncated: {verdict.value:g} times {self.coefficient:g}"
        return Scored(verdict.value * self.coefficient, f"{note}; {verdict.evidence}" if verdict.evidence else note)


def stop_properly(reward: Reward, coefficient: float, *, name: str | None = None) -> StopProperly:
    """The reward of a rollout that ran into its limit, cut or replaced (ProRL).

        truncated: value * coefficient   (0 <= coefficient <= 1)
                   coefficient           (coefficient < 0)

    Args:
        reward: of TRAJECTORY level.
        coefficient: at most 1.
        name: default: `stop_properly(reward)`.

    Returns:
        A TRAJECTORY reward; rollouts that ended by themselves, or were aborted, keep theirs. An abstention stays one; a
        negative coefficient also replaces a failed verdict, since what it stands for does not depend on it.

    Raises:
        InvalidArgument: a coefficient above 1 or not finite, a reward of another level.

    Example:
        >>> from apportion.rewards import outcome
        >>> cut = Trajectory(id="r0", group="q", status="truncated", columns={"reward": 1.0})
        >>> stop_properly(outcome(), 0.5).observe([cut])[0].value
        0.5
    """
    return StopProperly(
        reward, coefficient, f"stop_properly({check_reward('reward', reward).name})" if name is None else name
    )


@dataclass(frozen=True)
class CosineLength(Combined):
    """See `cosine_length`."""

    inner: Reward
    max_tokens: int
    correct: tuple[float, float]
    wrong: tuple[float, float]
    correct_at: float
    name: str
    level: Level = field(default=Level.TRAJECTORY, init=False)

    @property
    def role(self) -> Role:
        """That of what it is made of."""
        return role_of(self.inner)

    def __post_init__(self) -> None:
        _trajectory_level(self.inner)
        _arguments.whole("max_tokens", self.max_tokens, at_least=1)
        for argument in ("correct", "wrong"):
            ends = getattr(self, argument)
            if not isinstance(ends, tuple) or len(ends) != 2:
                raise InvalidArgument(argument, ends, "a pair: the value of the shortest reply and of the longest")
            for end in ends:
                _arguments.number(argument, end)
        _arguments.number("correct_at", self.correct_at)
        _arguments.text("name", self.name)

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks the correctness."""
        require_tokens(self.name, trajectories)
        (rows,) = yield [(self.inner, trajectories)]
        return [[self._scaled(trajectory, cells[0])] for trajectory, cells in zip(trajectories, rows, strict=True)]

    def _scaled(self, trajectory: Trajectory, verdict: Verdict) -> Verdict:
        broken = interrupted(trajectory)
        if broken is not None or not isinstance(verdict, Scored):
            return verdict if broken is None else broken
        right = verdict.value >= self.correct_at
        short, long = self.correct if right else self.wrong
        length = policy_tokens(trajectory)
        weight = 0.5 * (1 + math.cos(math.pi * min(length / self.max_tokens, 1.0)))
        return Scored(
            long + (short - long) * weight,
            f"{'right' if right else 'wrong'} in {length} of {self.max_tokens} policy tokens",
        )


def cosine_length(
    reward: Reward,
    *,
    max_tokens: int,
    correct: tuple[float, float] = (1.0, 0.5),
    wrong: tuple[float, float] = (-1.0, -0.5),
    correct_at: float = 1.0,
    name: str | None = None,
) -> CosineLength:
    """Correctness on a cosine schedule of length: right answers gain by being short, wrong ones by being long.

        value = long + (short - long) * (1 + cos(pi * min(n / max_tokens, 1))) / 2

    Args:
        reward: correctness, of TRAJECTORY level.
        max_tokens: the length at which the schedule ends, in policy tokens.
        correct: (short, long): the value of a right answer of length 0 and of `max_tokens`.
        wrong: the same for a wrong answer.
        correct_at: the value from which `reward` counts as right.
        name: default: `cosine_length(reward)`.

    Returns:
        A TRAJECTORY reward; missing verdicts pass through, an aborted rollout is `Failed`.

    Raises:
        InvalidArgument: a limit below 1, something else than pairs of numbers, a reward of another level.
        MissingInput: when observing, trajectories without token ids.

    Example:
        >>> from apportion.rewards import outcome
        >>> half = Trajectory(id="r0", group="q", response_ids=[1] * 50, columns={"reward": 1.0})
        >>> cosine_length(outcome(), max_tokens=100).observe([half])[0].value
        0.75

    Source: arXiv 2502.03373, appendix C.1.
    """
    made = f"cosine_length({check_reward('reward', reward).name})" if name is None else name
    return CosineLength(reward, max_tokens, correct, wrong, correct_at, made)


def _trajectory_level(reward: Reward) -> None:
    if check_reward("reward", reward).level is not Level.TRAJECTORY:
        raise InvalidArgument("reward", reward.name, "a reward of TRAJECTORY level")
