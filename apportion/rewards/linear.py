"""Weighted sums of rewards: what `a + b`, `a - b`, `-a` and `0.5 * a` build."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Reward, Role, check_reward, role_of, same_level, unique_names
from apportion.rewards.running import Combined, Plan
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict, as_verdict

__all__ = ["Linear", "linear"]


@dataclass(frozen=True)
class Linear(Combined):
    """A weighted sum of rewards of one level; made by the operators, or by `linear`.

    Attributes:
        terms: (weight, reward) pairs, in the order they were written.
        name: given, or written from the terms.
    """

    terms: tuple[tuple[float, Reward], ...]
    name: str = ""
    level: Level = field(init=False)

    @property
    def role(self) -> Role:
        """That of what it is made of; a part of weight 0 carries nothing."""
        return role_of(*(part for weight, part in self.terms if weight))

    def __post_init__(self) -> None:
        rewards = [part for _, part in self.terms]
        if not rewards:
            raise InvalidArgument("terms", self.terms, "at least one (weight, reward) pair")
        object.__setattr__(self, "level", same_level("terms", rewards))
        unique_names("terms", rewards)
        for weight, part in self.terms:
            _arguments.number(f"weight of {part.name}", weight)
        if not self.name:
            object.__setattr__(self, "name", " + ".join(_term_name(weight, part) for weight, part in self.terms))

    @property
    def is_named(self) -> bool:
        """True when the name was given; a named sum stays one part of the sums it enters."""
        return self.name != Linear(self.terms).name

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks every part about every trajectory."""
        columns = yield [(part, trajectories) for _, part in self.terms]
        return [[self._total(cells) for cells in zip(*rows, strict=True)] for rows in zip(*columns, strict=True)]

    def _total(self, cells: Sequence[Verdict]) -> Verdict:
        products: list[float] = []
        told: list[str] = []
        absent: list[str] = []
        failed: list[str] = []
        for (weight, part), cell in zip(self.terms, cells, strict=True):
            if isinstance(cell, Scored):
                products.append(weight * cell.value)
                told.append(f"{_term_name(weight, part)} {cell.value:g}" + _why(cell.evidence))
            elif isinstance(cell, Failed) and weight != 0:
                failed.append(f"{part.name}: {_arguments.brief(cell.error)}")
            else:
                reason = cell.reason if isinstance(cell, Abstained) else cell.error
                absent.append(part.name + _why(reason))
        if failed:
            return Failed("; ".join(failed))
        missing = f"absent: {', '.join(absent)}" if absent else ""
        if not products:
            return Abstained(missing)
        try:
            # Exactly rounded, so that no order of the parts can matter.
            value = math.fsum(products)
        except (OverflowError, ValueError):
            return Failed(f"{self.name} is too large for a float")
        verdict = as_verdict(value, source=self.name)
        return (
            Scored(verdict.value, "; ".join(filter(None, [*told, missing]))) if isinstance(verdict, Scored) else verdict
        )


def linear(*terms: tuple[float, Reward]) -> Linear:
    """The sum of weighted rewards, flattened: `(a + b) + c` and `a + (b + c)` are the same three terms.

        value = Σ_j weight_j * value_j   over the parts that are scored

    Args:
        terms: (weight, reward) pairs; a reward that appears twice (the same object) adds its weights up.

    Returns:
        A reward of the parts' level. `Abstained` parts add nothing and are named in the evidence; a `Failed` part of
        non-zero weight makes the sum `Failed`; when no part is scored the sum abstains. A part of weight 0 is still
        observed, and can never make the sum unknown.

    Raises:
        InvalidArgument: no terms, parts of different levels, different rewards of one name, a weight that is not
            finite.

    Example:
        >>> from apportion.rewards import reward
        >>> from apportion.rollouts import Trajectory
        >>> right, tidy = reward(name="right")(lambda t: 1.0), reward(name="tidy")(lambda t: None)
        >>> total = right + 0.5 * tidy
        >>> total.name
        'right + 0.5*tidy'
        >>> total.observe([Trajectory(id="r0", group="q")])
        [Scored(value=1.0, evidence='right 1; absent: tidy (tidy returned None)')]
    """
    merged: list[tuple[float, Reward]] = []
    for weight, part in _flattened(terms):
        for at, (present, other) in enumerate(merged):
            if other is part:
                merged[at] = (present + weight, part)
                break
        else:
            merged.append((weight, part))
    return Linear(tuple(merged))


def _flattened(terms: Sequence[tuple[float, Reward]]) -> list[tuple[float, Reward]]:
    flattened: list[tuple[float, Reward]] = []
    for weight, part in terms:
        check_reward("terms", part)
        _arguments.number(f"weight of {part.name}", weight)
        if isinstance(part, Linear) and not part.is_named:
            flattened.extend((weight * inner, inner_part) for inner, inner_part in part.terms)
        else:
            flattened.append((float(weight), part))
    return flattened


def _term_name(weight: float, part: Reward) -> str:
    if weight == 1:
        return part.name
    return f"-{part.name}" if weight == -1 else f"{weight:g}*{part.name}"


def _why(text: str) -> str:
    return f" ({_arguments.brief(text)})" if text else ""
