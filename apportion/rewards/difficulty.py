"""`unit_tests`: passed tests weighted by how hard they are for the group (VeRPO; a reconstruction)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Composable
from apportion.rewards.partial import Checks, ChecksPassed
from apportion.rewards.running import UNLIMITED, Limits
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["difficulty_weights", "unit_tests"]

# Rates are ratios of small counts: 0.4 - 0.3 must count as a distance of 0.1.
_ROUNDING = 1e-12


def difficulty_weights(
    pass_rates: Sequence[float], *, exponent: float = 1.0, bandwidth: float = 0.1
) -> tuple[float, ...]:
    """Weights of unit tests that sum to 1: hard tests weigh more, and many alike share what one would have.

        d_j = (1 - rho_j)^exponent;   c_j = #{l : |rho_l - rho_j| <= bandwidth};   w_j = (d_j / c_j) / Σ_l (d_l / c_l)

    Args:
        pass_rates: rho_j in [0, 1], the share of a group's rollouts that pass test j.
        exponent: how strongly difficulty counts, > 0.
        bandwidth: distance up to which tests count as alike, >= 0.

    Returns:
        One weight per test. When every test is passed by all, all weights are equal.

    Raises:
        InvalidArgument: a rate outside [0, 1], an exponent that is not positive, a negative bandwidth.

    Example:
        >>> [round(w, 4) for w in difficulty_weights([1, 0.5, 0.5, 0])]
        [0.0, 0.1667, 0.1667, 0.6667]

    Source: arXiv 2601.03525; the exact maps are not published, so this form is a reconstruction.
    """
    rates = [_arguments.number(f"pass_rates[{j}]", rate, at_least=0, at_most=1) for j, rate in enumerate(pass_rates)]
    if _arguments.number("exponent", exponent, at_least=0) == 0:
        raise InvalidArgument("exponent", exponent, "a number > 0")
    _arguments.number("bandwidth", bandwidth, at_least=0)
    raw = [
        (1 - rate) ** exponent / sum(abs(other - rate) <= bandwidth + _ROUNDING for other in rates) for rate in rates
    ]
    total = math.fsum(raw)
    if total == 0:
        return tuple(1 / len(rates) for _ in rates)
    return tuple(value / total for value in raw)


@dataclass(frozen=True)
class UnitTests(Composable):
    """See `unit_tests`."""

    checks: ChecksPassed
    exponent: float
    bandwidth: float
    pass_rates: Mapping[str, float] | None
    name: str
    level: Level = field(default=Level.TURN, init=False)

    def __post_init__(self) -> None:
        difficulty_weights(list((self.pass_rates or {}).values()), exponent=self.exponent, bandwidth=self.bandwidth)
        _arguments.text("name", self.name)

    def observe(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]]:
        """One verdict per turn, with the pass rates of each group among `trajectories`."""
        return self.observe_within(trajectories, UNLIMITED)

    def observe_within(self, trajectories: Sequence[Trajectory], limits: Limits) -> list[list[Verdict]]:
        """Like `observe`, with a limit on the time of each call of a function that re-runs the tests."""
        self.checks.require(trajectories)
        read = self.checks.read(trajectories, limits)
        groups: dict[str, list[Mapping[str, bool]]] = {}
        for trajectory, cells in zip(trajectories, read, strict=True):
            final = next((cell for cell in reversed(cells) if isinstance(cell, Checks)), None)
            groups.setdefault(trajectory.group, []).extend([final.by_name] if final and final.by_name else [])
        weights = {group: self._weights(results) for group, results in groups.items()}
        return [
            [_weighted(cell, weights[trajectory.group]) for cell in cells]
            for trajectory, cells in zip(trajectories, read, strict=True)
        ]

    def _weights(self, results: Sequence[Mapping[str, bool]]) -> dict[str, tuple[float, float]]:
        if self.pass_rates is not None:
            rates = dict(self.pass_rates)
        else:
            names = sorted({name for result in results for name in result})
            rates = {name: sum(result.get(name, False) for result in results) / len(results) for name in names}
        values = difficulty_weights(list(rates.values()), exponent=self.exponent, bandwidth=self.bandwidth)
        return {name: (weight, rates[name]) for name, weight in zip(rates, values, strict=True)}


def _weighted(cell: Checks | Abstained | Failed, weights: Mapping[str, tuple[float, float]]) -> Verdict:
    if not isinstance(cell, Checks):
        return cell
    if cell.by_name is None:
        return Failed("difficulty weights need the result of each test by name, not only how many passed")
    if not weights:
        return Abstained("there are no tests")
    passed = [name for name in weights if cell.by_name.get(name, False)]
    told = [f"{name} +{weights[name][0]:.3g} (passed by {weights[name][1]:.0%})" for name in passed[:5]]
    more = f" and {len(passed) - 5} more" if len(passed) > 5 else ""
    value = math.fsum(weights[name][0] for name in passed)
    listed = f": {', '.join(told)}{more}" if passed else ""
    return Scored(value, f"{len(passed)} of {len(weights)} tests pass{_arguments.brief(listed, 400)}")


def unit_tests(
    source: str | Callable[[Trajectory], Sequence[object]] = "checks",
    *,
    exponent: float = 1.0,
    bandwidth: float = 0.1,
    pass_rates: Mapping[str, float] | None = None,
    name: str = "unit_tests",
) -> UnitTests:
    """Passed unit tests after each turn, weighted by their difficulty for the group.

        r_k = Σ_j w_j * 1[test j passes after turn k],   w from `difficulty_weights`

    The whole score of the paper is this plus a 0/1 for passing all of them, combined as signals in a recipe.

    Args:
        source: as in `checks_passed`; the results must have names.
        exponent: how strongly difficulty counts.
        bandwidth: distance of pass rates up to which tests count as alike.
        pass_rates: fixed rates by test name, e.g. a running mean over steps; `None`: the rates of each group in this
            call, each rollout by its last results. Give whole groups at once then.
        name: what the verdicts are called.

    Returns:
        A TURN reward in [0, 1]; missing as in `checks_passed`. Tests without a rate are ignored.

    Raises:
        InvalidArgument: as `difficulty_weights`.
        MissingInput: when observing, no turns, or no turn with the column.

    Example:
        >>> from apportion.rollouts import Turn
        >>> def rollout(name, **passed):
        ...     return Trajectory(id=name, group="q", turns=(Turn(columns={"checks": passed}),))
        >>> both = [rollout("r0", easy=True, hard=True), rollout("r1", easy=True, hard=False)]
        >>> [row[0].value for row in unit_tests().observe(both)]
        [1.0, 0.0]

    Source: arXiv 2601.03525 (reconstruction).
    """
    return UnitTests(ChecksPassed(source, None, name), exponent, bandwidth, pass_rates, name)
