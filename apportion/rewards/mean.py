"""`weighted_mean`, the only combination that renormalises over what is known, and pass marks that can be reached."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Reward, Role, check_reward, role_of, same_level, unique_names
from apportion.rewards.linear import Linear
from apportion.rewards.running import Combined, Plan
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["passes", "reachable", "weighted_mean"]

OnFailure: TypeAlias = Literal["renormalise", "unknown"]


@dataclass(frozen=True)
class WeightedMean(Combined):
    """See `weighted_mean`."""

    parts: tuple[tuple[Reward, float], ...]
    failed: OnFailure
    name: str
    level: Level = field(init=False)

    @property
    def role(self) -> Role:
        """That of what it is made of; a part of weight 0 carries nothing."""
        return role_of(*(part for part, weight in self.parts if weight))

    def __post_init__(self) -> None:
        rewards = [part for part, _ in self.parts]
        if not rewards:
            raise InvalidArgument("parts", self.parts, "at least one (reward, weight) pair")
        object.__setattr__(self, "level", same_level("parts", rewards))
        unique_names("parts", rewards)
        weights = [_arguments.number(f"weight of {part.name}", weight, at_least=0) for part, weight in self.parts]
        if not any(weights):
            raise InvalidArgument("weights", weights, "a total above 0; a mean of nothing has no value")
        _arguments.choice("failed", self.failed, get_args(OnFailure))
        _arguments.text("name", self.name)

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks every part about every trajectory."""
        columns = yield [(part, trajectories) for part, _ in self.parts]
        return [[self._mean(cells) for cells in zip(*rows, strict=True)] for rows in zip(*columns, strict=True)]

    def _mean(self, cells: Sequence[Verdict]) -> Verdict:
        known: list[tuple[float, float]] = []
        told: list[str] = []
        missing: list[str] = []
        failures: list[str] = []
        for (part, weight), cell in zip(self.parts, cells, strict=True):
            if isinstance(cell, Scored):
                known.append((weight, cell.value))
                told.append(f"{part.name} {cell.value:g} x{weight:g}")
            elif isinstance(cell, Failed):
                missing.append(f"{part.name} failed ({_arguments.brief(cell.error)})")
                if weight:
                    failures.append(missing[-1])
            else:
                missing.append(f"{part.name} abstained ({_arguments.brief(cell.reason)})")
        total = math.fsum(weight for weight, _ in known)
        if failures and (self.failed == "unknown" or not total):
            return Failed("; ".join(failures))
        if not total:
            return Abstained("; ".join([*told, *missing]))
        # Dividing first keeps weights near the largest float from overflowing.
        value = math.fsum((weight / total) * value for weight, value in known)
        left_out = f"renormalised without {', '.join(missing)}" if missing else ""
        return Scored(value, "; ".join(filter(None, [*told, left_out])))


def weighted_mean(
    parts: Iterable[tuple[Reward, float]], *, failed: OnFailure = "renormalise", name: str | None = None
) -> WeightedMean:
    """The weighted mean over the parts that are scored.

        value = Σ_j w_j * value_j / Σ_j w_j   over the scored parts

    Args:
        parts: (reward, weight) pairs of one level; weights >= 0 with a total above 0.
        failed: "renormalise": the mean of the other parts stands in for a failed one, and the evidence says so;
            "unknown": a failed part of non-zero weight makes the mean `Failed`.
        name: default: `mean(a, b, ...)`.

    Returns:
        A reward of the parts' level. When no part of non-zero weight is scored: `Failed` if one failed, else
        `Abstained`.

    Raises:
        InvalidArgument: no parts, different levels, one name twice, a negative or non-finite weight, a total of 0: at
            construction, before any judge call is paid for.

    Example:
        >>> from apportion.rewards import reward
        >>> task, style = reward(name="task")(lambda t: 1.0), reward(name="style")(lambda t: None)
        >>> weighted_mean([(task, 0.7), (style, 0.3)]).observe([Trajectory(id="r0", group="q")])[0].value
        1.0
    """
    pairs = tuple((check_reward("parts", part), weight) for part, weight in parts)
    default = f"mean({', '.join(part.name for part, _ in pairs)})"
    return WeightedMean(pairs, failed, default if name is None else name)


def reachable(
    weights: Mapping[str, float],
    *,
    main: str,
    threshold: float,
    best: float = 1.0,
    combine: Literal["mean", "sum"] = "mean",
) -> float:
    """The most that the main part alone can score, checked against a pass mark.

        alone = w_main * best / Σ_j w_j   (mean),   w_main * best   (sum)

    Args:
        weights: weight by part name.
        main: the part that should be able to pass by itself, e.g. the answer.
        threshold: the pass mark.
        best: the largest value of the main part.
        combine: how the parts are combined.

    Returns:
        `alone`.

    Raises:
        InvalidArgument: `main` is no part, a zero total, or a pass mark that the main part alone cannot reach: a fully
            correct answer would then fail because of its side scores.

    Example:
        >>> round(reachable({"answer": 0.9, "trace": 0.1}, main="answer", threshold=0.85), 3)
        0.9
        >>> reachable({"answer": 0.7, "trace": 0.3}, main="answer", threshold=0.85)
        Traceback (most recent call last):
            ...
        apportion.errors.InvalidArgument: threshold=0.85: expected at most 0.7, ...
    """
    if main not in weights:
        raise InvalidArgument("main", main, f"one of {', '.join(map(repr, weights))}")
    _arguments.choice("combine", combine, ("mean", "sum"))
    total = math.fsum(_arguments.number(f"weight of {name}", weight) for name, weight in weights.items())
    if combine == "mean" and total <= 0:
        raise InvalidArgument("weights", dict(weights), "a total above 0")
    scale = total if combine == "mean" else 1.0
    alone = weights[main] * _arguments.number("best", best) / scale
    # 0.7 / 1.0 and 0.7 * 1.0 must reach a pass mark of 0.7 whatever the rounding of the total.
    if _arguments.number("threshold", threshold) > alone and not math.isclose(threshold, alone, rel_tol=1e-12):
        raise InvalidArgument(
            "threshold",
            threshold,
            f"at most {alone:g}, which is all that {main!r} alone can reach: a perfect {main!r} would never pass",
        )
    return alone


@dataclass(frozen=True)
class Passes(Combined):
    """See `passes`."""

    inner: Reward
    at: float
    name: str
    level: Level = field(init=False)

    @property
    def role(self) -> Role:
        """That of what it is made of."""
        return role_of(self.inner)

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", same_level("passes", [self.inner]))
        _arguments.text("name", self.name)

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks the one part."""
        (rows,) = yield [(self.inner, trajectories)]
        return [[self._passed(cell) for cell in cells] for cells in rows]

    def _passed(self, verdict: Verdict) -> Verdict:
        if not isinstance(verdict, Scored):
            return verdict
        passed = verdict.value >= self.at
        why = f" ({_arguments.brief(verdict.evidence)})" if verdict.evidence else ""
        return Scored(float(passed), f"{verdict.value:g} {'reaches' if passed else 'is below'} {self.at:g}{why}")


def passes(reward: Reward, *, at: float, main: str | None = None, best: float = 1.0, name: str | None = None) -> Passes:
    """1 where a reward reaches a pass mark, else 0.

    Args:
        reward: of either level.
        at: the pass mark.
        main: for a sum or a weighted mean, the part that must be able to pass by itself (`reachable` checks it).
        best: the largest value of that part, or of a reward without parts.
        name: default: `passes(reward)`.

    Returns:
        A reward of the same level; missing verdicts pass through.

    Raises:
        InvalidArgument: a pass mark out of reach; `main` missing for a sum or mean, or given for anything else.

    Example:
        >>> from apportion.rewards import reward
        >>> answer, trace = reward(name="answer")(lambda t: 1.0), reward(name="trace")(lambda t: 0.0)
        >>> mark = passes(weighted_mean([(answer, 0.9), (trace, 0.1)]), at=0.85, main="answer")
        >>> mark.observe([Trajectory(id="r0", group="q")])[0].value
        1.0
    """
    check_reward("reward", reward)
    if isinstance(reward, (WeightedMean, Linear)):
        if main is None:
            raise InvalidArgument("main", None, "the name of the part that must be able to pass by itself")
        if isinstance(reward, WeightedMean):
            reachable({part.name: weight for part, weight in reward.parts}, main=main, threshold=at, best=best)
        else:
            weights = {part.name: weight for weight, part in reward.terms}
            reachable(weights, main=main, threshold=at, best=best, combine="sum")
    else:
        if main is not None:
            raise InvalidArgument("main", main, "None, since this reward declares no parts")
        reachable({reward.name: 1.0}, main=reward.name, threshold=at, best=best)
    return Passes(reward, at, f"passes({reward.name})" if name is None else name)
