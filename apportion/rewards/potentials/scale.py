"""A probability as a potential on another scale, whose differences are ratios."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.potential import Potential, Values
from apportion.rewards.running import Later
from apportion.rollouts import Trajectory
from apportion.verdicts import Failed, Scored, Verdict

__all__ = ["OnScale", "Scale", "on_scale"]

Scale: TypeAlias = Literal["log", "logit"]


@dataclass(frozen=True)
class OnScale:
    """See `on_scale`."""

    inner: Potential
    scale: Scale
    floor: float
    name: str

    def values(self, trajectories: Sequence[Trajectory]) -> Values | Awaitable[Values]:
        """The other potential's values on this scale."""
        answer = self.inner.values(trajectories)
        if inspect.isawaitable(answer):
            return Later(functools.partial(self._wait, answer), answer)
        return self._all(answer)

    async def _wait(self, answer: Awaitable[Values]) -> Values:
        return self._all(await answer)

    def _all(self, rows: Values) -> Values:
        return [[self._one(verdict) for verdict in row] for row in rows]

    def _one(self, verdict: Verdict) -> Verdict:
        if not isinstance(verdict, Scored):
            return verdict
        p = verdict.value
        if p < 0 or (self.scale == "logit" and p > 1):
            return Failed(f"{p:g} is no {'probability' if self.scale == 'logit' else 'number >= 0'}")
        if self.scale == "log":
            value = math.log(max(p, self.floor))
        else:
            inside = min(max(p, self.floor), 1.0 - self.floor)
            value = math.log(inside) - math.log1p(-inside)
        why = f" ({_arguments.brief(verdict.evidence)})" if verdict.evidence else ""
        return Scored(value, f"{self.scale} of {p:g}{why}")


def on_scale(potential: Potential, scale: Scale, *, floor: float = 1e-6, name: str | None = None) -> OnScale:
    """A probability on the log or logit scale: where it is small (or near 1 too), a step is still seen.

        log    Phi = ln max(p, floor)        a difference is ln(p_k / p_{k-1})
        logit  Phi = ln(p / (1 - p))         with p kept inside [floor, 1 - floor]

    Args:
        potential: whose values are probabilities; for "log" any number >= 0.
        scale: "log" or "logit".
        floor: in (0, 0.5): nothing is smaller; it bounds what one step can earn.
        name: default "<scale> <name>".

    Returns:
        A potential; a value that is no probability is `Failed`.

    Raises:
        InvalidArgument: no potential, an unknown scale, or a floor outside (0, 0.5).

    Example:
        >>> from apportion.rewards.potentials import learned_potential
        >>> from apportion.rollouts import Turn
        >>> p = learned_potential(lambda t: [0.1, 0.2, 0.4], sees="trajectory", name="p")
        >>> row = on_scale(p, "log").values([Trajectory(id="r", group="q", turns=[Turn(), Turn()])])[0]
        >>> [round(b.value - a.value, 4) for a, b in zip(row, row[1:])]
        [0.6931, 0.6931]
    """
    if not isinstance(potential, Potential):
        raise InvalidArgument("potential", potential, "an object with a name and values(trajectories)")
    _arguments.choice("scale", scale, get_args(Scale))
    if not 0 < _arguments.number("floor", floor) < 0.5:
        raise InvalidArgument("floor", floor, "a number between 0 and 0.5")
    return OnScale(potential, scale, floor, f"{scale} {potential.name}" if name is None else name)
