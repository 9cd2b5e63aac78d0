"""From one turn to the next, and from turns to the trajectory: differences and the reductions that are safe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Reward, Role, check_reward, role_of
from apportion.rewards.recorded import interrupted
from apportion.rewards.running import Combined, Plan
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["difference", "reduce_turns"]

How: TypeAlias = Literal["last", "min", "mean", "sum"]


@dataclass(frozen=True)
class Difference(Combined):
    """See `difference`."""

    _role: ClassVar[Role] = "shaping"
    inner: Reward
    initial: float
    name: str
    level: Level = field(default=Level.TURN, init=False)

    def __post_init__(self) -> None:
        _turn_level("difference", self.inner)
        _arguments.number("initial", self.initial)
        _arguments.text("name", self.name)

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks the one part."""
        (rows,) = yield [(self.inner, trajectories)]
        return [self._differences(cells) for cells in rows]

    def _differences(self, cells: Sequence[Verdict]) -> list[Verdict]:
        before: Scored | Failed = Scored(self.initial, "the declared initial value")
        result: list[Verdict] = []
        for cell in cells:
            if isinstance(cell, Abstained):
                result.append(cell)
                continue
            if isinstance(cell, Failed):
                result.append(cell)
            elif isinstance(before, Failed):
                result.append(Failed(f"the value before this turn is unknown: {_arguments.brief(before.error)}"))
            else:
                why = f" ({_arguments.brief(cell.evidence)})" if cell.evidence else ""
                result.append(Scored(cell.value - before.value, f"{before.value:g} -> {cell.value:g}{why}"))
            before = cell
        return result


def difference(reward: Reward, *, initial: float, name: str | None = None) -> Difference:
    """What each turn added.

        r_k = f_k - f_{k-1},  f_0 = initial;   Σ_k r_k = f_K - initial

    Args:
        reward: of turn level; f_k is its value after turn k.
        initial: the value before the first turn, declared because it is part of every sum.
        name: default: `difference(reward)`.

    Returns:
        A TURN reward. Where f_k abstains nothing was measured: r_k abstains and the next turn is compared with the last
        measured value, so the sum still telescopes. Where f_k is `Failed`, r_k and r_{k+1} are.

    Raises:
        InvalidArgument: a reward of another level, `initial` not finite.

    Example:
        >>> from apportion.rewards import reward
        >>> from apportion.rollouts import Turn
        >>> passed = reward(name="passed", level=Level.TURN)(lambda t: [0.5, 0.25, 1.0])
        >>> steps = difference(passed, initial=0.0).observe([Trajectory(id="r0", group="q", turns=(Turn(),) * 3)])
        >>> [step.value for step in steps[0]]
        [0.5, -0.25, 0.75]
    """
    return Difference(reward, initial, f"difference({check_reward('reward', reward).name})" if name is None else name)


@dataclass(frozen=True)
class ReduceTurns(Combined):
    """See `reduce_turns`."""

    inner: Reward
    how: How
    name: str
    level: Level = field(default=Level.TRAJECTORY, init=False)

    @property
    def role(self) -> Role:
        """That of what it is made of."""
        return role_of(self.inner)

    def __post_init__(self) -> None:
        _turn_level("reduce_turns", self.inner)
        _arguments.choice("how", self.how, get_args(How))
        _arguments.text("name", self.name)
        if self.how == "sum" and not isinstance(self.inner, Difference):
            raise InvalidArgument(
                "how",
                self.how,
                "'last', 'min' or 'mean': a sum of scores of one sign pays for (or against) every further turn, "
                "whatever it does; only difference(...) may be summed, because it telescopes",
            )

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks the one part."""
        (rows,) = yield [(self.inner, trajectories)]
        return [
            [interrupted(trajectory) or self._reduced(cells)]
            for trajectory, cells in zip(trajectories, rows, strict=True)
        ]

    def _reduced(self, cells: Sequence[Verdict]) -> Verdict:
        known = [cell for cell in cells if not isinstance(cell, Abstained)]
        if not known:
            return Abstained(f"no turn of {self.inner.name} is scored ({len(cells)} turns)")
        if self.how == "last":
            final = known[-1]
            if isinstance(final, Failed):
                return final
            why = f" ({_arguments.brief(final.evidence)})" if final.evidence else ""
            return Scored(final.value, f"last of {len(known)} scored turns{why}")
        failed = [cell for cell in known if isinstance(cell, Failed)]
        if failed:
            return Failed(f"{len(failed)} of {len(known)} turns failed: {_arguments.brief(failed[0].error)}")
        values = [cell.value for cell in known if isinstance(cell, Scored)]
        reduced = {"min": min(values), "sum": math.fsum(values), "mean": math.fsum(values) / len(values)}[self.how]
        return Scored(reduced, f"{self.how} of {len(values)} scored turns, from {min(values):g} to {max(values):g}")


def reduce_turns(reward: Reward, *, how: How, name: str | None = None) -> ReduceTurns:
    """One value per trajectory from a process score per turn, in the forms that do not pay for length.

        last: p_K    min: min_k p_k    mean: Σ_k p_k / K    sum: only over difference(...), where it is p_K - p_0

    Args:
        reward: of turn level: a process reward model, checks passed, or a difference of either.
        how: "last", "min", "mean", or "sum" of a `difference`.
        name: default: `how(reward)`.

    Returns:
        A TRAJECTORY reward over the turns that are scored; it abstains when none is. `Failed` if the last such turn
        ("last") or any turn (the others) failed, and where the infrastructure cut the rollout short.

    Raises:
        InvalidArgument: a reward of another level; a raw sum, which would reward the number of turns.

    Example:
        >>> from apportion.rewards import reward
        >>> from apportion.rollouts import Turn
        >>> process = reward(name="prm", level=Level.TURN)(lambda t: [0.2, 0.6, 0.5])
        >>> reduce_turns(process, how="min").observe([Trajectory(id="r0", group="q", turns=(Turn(),) * 3)])[0].value
        0.2
    """
    return ReduceTurns(reward, how, f"{how}({check_reward('reward', reward).name})" if name is None else name)


def _turn_level(argument: str, reward: Reward) -> None:
    if check_reward(argument, reward).level is not Level.TURN:
        raise InvalidArgument(argument, reward.name, f"a reward of TURN level ({reward.name} is {reward.level.name})")
