"""Centre and scale inside groups: the primitive behind GRPO, RLOO, Dr.GRPO, OPO, MaxRL, MC-GRPO, whitening and more.

    advantage = (x - centre(group)) / (scale(group) + eps)

Everything that distinguishes those methods is an argument here: what forms a group (`key`), which centre and scale, the
divisor (`ddof`), what counts once (`unit`), and what a group too small or without variance gets. All in float64.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from apportion.advantages.leave_out import squares_without
from apportion.advantages.order import lower_median
from apportion.advantages.place import wrote
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import LARGEST

__all__ = ["Center", "GroupStatistics", "Key", "Scale", "Singleton", "Unit", "group_stat", "group_statistics"]

Key: TypeAlias = Literal["group", "batch"] | Tensor | Sequence[Hashable]
Center: TypeAlias = Literal["none", "mean", "loo", "median"]
Scale: TypeAlias = Literal["none", "std", "loo_std", "mad", "mean"]
Unit: TypeAlias = Literal["element", "trajectory", "token"] | Tensor | Sequence[Hashable]
Singleton: TypeAlias = Literal["zero", "raw", "raise"]

# A factor from which the rounding of terms becomes visible beside advantages of about 1.
_BLOWN_UP = 1e3


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupStatistics:
    """What `group_stat` subtracts and divides by, one entry per group.

    Attributes:
        key: int64[n] the group of every element.
        weight: float64[n] how often an element counts; 0 where it is missing.
        count: int64[g] known elements ("effective n"), without virtual ones.
        mass: float64[g] sum of weights, those of virtual elements included, as in all that follows.
        mean: float64[g] weighted mean; 0 for an empty group.
        squares: float64[g] weighted sum of squared deviations from the mean.
        low, high: float64[g] extremes of the known elements; 0 for an empty group.
        constant: bool[g] high - low <= tolerance * max(1, largest magnitude); True for groups of fewer than two.
        tolerance: float64[g] the absolute distance below which values of the group count as equal.
    """

    key: Tensor
    weight: Tensor
    count: Tensor
    mass: Tensor
    mean: Tensor
    squares: Tensor
    low: Tensor
    high: Tensor
    constant: Tensor
    tolerance: Tensor

    def std(self, ddof: int) -> Tensor:
        """float64[g]: sqrt(squares / (mass - ddof)); 0 where that divisor is not positive."""
        divisor = self.mass - ddof
        # The square root has no derivative at 0, so constant groups must not reach it.
        safe = (divisor > 0) & (self.squares > 0)
        root = torch.sqrt(torch.where(safe, self.squares / torch.where(safe, divisor, 1.0), 1.0))
        return torch.where(safe, root, 0.0)


def group_statistics(
    x: Signal,
    *,
    key: Key = "group",
    unit: Unit = "element",
    virtual: Tensor | None = None,
    constant_tol: float | None = None,
) -> GroupStatistics:
    """Count, mean, spread and constancy of the known elements of every group.

    Args:
        x: values at any level. Where token counts are known, a turn in which the policy wrote nothing is in no
            statistic: nobody chose it. It is still compared, since what it brought may belong to an earlier turn.
        key: "group" (one prompt), "batch" (everything), or one label per element: numbers in a tensor, or a list, such
            as the states of all turns. Equal labels are one group.
        unit: what counts once: an "element" of x's level, a "trajectory" (its elements share a weight of 1), a "token"
            (an element weighs the policy tokens below it), or one label per element: equal labels share a weight of 1,
            as the training rows that one rollout was split into do.
        virtual: [g] elements of value 0 and weight 1 that each group counts beside its own; they make no group larger
            ("effective n") and get no value themselves.
        constant_tol: relative distance below which values are equal; default `x.resolution`.

    Raises:
        InvalidArgument: a value beyond `LARGEST`, an unknown name, a key of the wrong shape, virtual elements that are
            not one number >= 0 per group, or a negative tolerance.

    Example:
        >>> from apportion.batch import Batch
        >>> x = Signal.of(Batch.of(groups=["a", "b", "a"]), Level.TRAJECTORY, [1.0, 5.0, 0.0], name="r")
        >>> s = group_statistics(x)
        >>> s.count.tolist(), s.mean.tolist(), s.constant.tolist()
        ([2, 1], [0.5, 5.0], [False, True])
    """
    if not isinstance(x, Signal):
        raise InvalidArgument("x", type(x).__name__, "a Signal; wrap numbers: rewards_signal(rewards, groups=[...])")
    tol = x.resolution if constant_tol is None else constant_tol
    if not tol >= 0:
        raise InvalidArgument("constant_tol", constant_tol, "a number >= 0")
    number, n = _key(x, key)
    known = x.known & wrote(x.batch) if x.level == Level.TURN else x.known
    weight = torch.where(known, _weights(x, known, unit), 0.0)

    def total(values: Tensor) -> Tensor:
        return values.new_zeros(n).index_add(0, number, values)

    beyond = torch.nonzero(known & (x.values.abs() > LARGEST)).flatten()[:10]
    if beyond.numel():
        expected = f"values of at most {LARGEST:g}; elements {beyond.tolist()} are beyond, and their squares overflow"
        raise InvalidArgument("x", x.values[beyond].tolist(), expected)
    count = torch.bincount(number[known], minlength=n)
    extra = x.values.new_zeros(n) if virtual is None else _virtual(virtual, n, x)
    mass = total(weight) + extra
    mean = total(weight * x.values) / torch.where(mass > 0, mass, 1.0)
    # A second pass over the deviations: the textbook form E[x^2] - E[x]^2 loses every digit when x is far from 0.
    squares = total(weight * (x.values - mean[number]) ** 2) + extra * mean**2

    def extreme(how: Literal["amin", "amax"], missing: float) -> Tensor:
        values = torch.where(known, x.values.detach(), missing)
        found = torch.full_like(mean, missing).scatter_reduce(0, number, values, how)
        return torch.where(count > 0, found, 0.0)

    low, high = extreme("amin", torch.inf), extreme("amax", -torch.inf)
    low, high = torch.where(extra > 0, low.clamp_max(0.0), low), torch.where(extra > 0, high.clamp_min(0.0), high)
    tolerance = tol * torch.maximum(low.abs(), high.abs()).clamp_min(1.0)
    constant = (count < 2) | (high - low <= tolerance)
    return GroupStatistics(
        key=number,
        weight=weight,
        count=count,
        mass=mass,
        mean=mean,
        squares=squares,
        low=low,
        high=high,
        constant=constant,
        tolerance=tolerance,
    )


def group_stat(
    x: Signal,
    *,
    key: Key = "group",
    center: Center = "mean",
    scale: Scale = "std",
    ddof: int = 1,
    eps: float = 0.0,
    unit: Unit = "element",
    scale_key: Key | None = None,
    virtual: Tensor | None = None,
    singleton: Singleton = "zero",
    minimum: int = 2,
    constant_tol: float | None = None,
) -> Signal:
    """Centre and scale inside groups; missing elements leave before the statistics are taken.

        A_i = (x_i - c) / (s + eps)
        c:  mean   sum w x / sum w                       loo   the same without element i
            median the lower median, an element itself   none  0
        s:  std    sqrt(sum w (x - mean)^2 / (sum w - ddof))       loo_std  the same without element i
            mad    lower median of |x - median|          mean  the mean        none  1

    Args:
        x: values at any level.
        key: what forms a group, see `group_statistics`.
        center: c above.
        scale: s above. "loo_std" does not divide where the others are constant.
        ddof: 1 = sample, 0 = population standard deviation.
        eps: added to the scale; same units as x.
        unit: what counts once in the statistics, see `group_statistics`; not for median and mad.
        scale_key: groups of the scale when they differ from `key` (a batch-wide std).
        virtual: elements of value 0 that the statistics of a group count too, see `group_statistics`; not for median,
            mad, loo_std or another scale_key.
        singleton: a group with fewer than `minimum` known elements gets exact zeros, its raw values, or an error.
        minimum: known elements that a group needs.
        constant_tol: see `group_statistics`.

    Returns:
        A signal at x's level: exactly 0 in constant groups (and where the mean is not positive, for scale="mean"),
        ABSENT and exactly 0 where x was missing. Differentiable in x; the choice of a median is not.

    Raises:
        InvalidArgument: an unknown name, a negative eps, a ddof other than 0 or 1, or a small group under "raise".

    Example:
        >>> from apportion.batch import Batch
        >>> x = Signal.of(Batch.of(groups=["q"] * 4), Level.TRAJECTORY, [1.0, 0.0, 0.0, 0.0], name="outcome")
        >>> group_stat(x).values.tolist()
        [1.5, -0.5, -0.5, -0.5]
        >>> group_stat(x, center="loo", scale="none").values.tolist()
        [1.0, -0.3333333333333333, -0.3333333333333333, -0.3333333333333333]
    """
    for name, value, choices in (
        ("center", center, get_args(Center)),
        ("scale", scale, get_args(Scale)),
        ("singleton", singleton, get_args(Singleton)),
        ("ddof", ddof, (0, 1)),
    ):
        if value not in choices:
            raise InvalidArgument(name, value, f"one of {', '.join(map(str, choices))}")
    if not eps >= 0:
        raise InvalidArgument("eps", eps, "a number >= 0")
    if (not isinstance(unit, str) or unit != "element") and (center == "median" or scale == "mad"):
        raise InvalidArgument("unit", unit, "'element' for a median or mad")
    if virtual is not None and (center == "median" or scale in ("mad", "loo_std") or scale_key is not None):
        raise InvalidArgument("virtual", tuple(virtual.shape), "None for a median, mad, loo_std or another scale_key")
    stats = group_statistics(x, key=key, unit=unit, virtual=virtual, constant_tol=constant_tol)
    spread = stats if scale_key is None else group_statistics(x, key=scale_key, unit=unit, constant_tol=constant_tol)
    # A group of trajectories without tokens has no mass under unit="token", hence no mean to subtract.
    small = (stats.count < minimum) | (stats.mass <= 0)
    if singleton == "raise" and bool((small & (stats.count > 0)).any()):
        raise InvalidArgument("singleton", "raise", f"at least {minimum} known elements in every group")
    pivot = _median(x.values, stats)[stats.key] if center == "median" else None
    factor = _factor(x, stats, spread, center, scale, ddof, eps)
    flat = (stats.constant | small)[stats.key] if center != "none" or scale != "none" else small[stats.key]
    raw = small[stats.key] if singleton == "raw" else torch.zeros_like(flat)

    def move(values: Tensor) -> Tensor:
        if pivot is not None:
            centred = values - values[pivot]
        elif center == "none":
            centred = values
        else:
            weighted = values.new_zeros(stats.mass.shape).index_add(0, stats.key, stats.weight * values)
            centred = values - (weighted / torch.where(stats.mass > 0, stats.mass, 1.0))[stats.key]
        return torch.where(raw, values, torch.where(flat, 0.0, centred * factor))

    made = x.linear(move).neutral()
    return made.settled() if bool((factor.abs() > _BLOWN_UP).any()) else made


def _factor(
    x: Signal, stats: GroupStatistics, spread: GroupStatistics, center: Center, scale: Scale, ddof: int, eps: float
) -> Tensor:
    """float64[n]: what a centred element is multiplied by."""
    others = stats.mass[stats.key] - stats.weight
    leave_out = torch.where(others > 0, stats.mass[stats.key] / torch.where(others > 0, others, 1.0), 0.0)
    factor = leave_out if center == "loo" else torch.ones_like(leave_out)
    if scale == "none":
        return factor
    if scale == "mad":
        deviation = (x.values - x.values[_median(x.values, spread)[spread.key]]).abs()
        size = deviation[_median(deviation, spread)[spread.key]]
    elif scale == "loo_std":
        rest = spread.mass[spread.key] - spread.weight
        squares = squares_without(x.values, spread.weight, spread.key, spread.mass.numel())
        steady = squares <= rest * spread.tolerance[spread.key] ** 2
        divisor = torch.where(steady | (rest <= ddof), 1.0, rest - ddof)
        root = torch.sqrt(torch.where(steady | (rest <= ddof), 1.0, squares / divisor))
        return factor / torch.where(steady | (rest <= ddof), 1.0, root + eps)
    else:
        size = (spread.std(ddof) if scale == "std" else spread.mean)[spread.key]
    return factor * torch.where(size > 0, 1.0 / torch.where(size > 0, size + eps, 1.0), 0.0)


def _median(values: Tensor, stats: GroupStatistics) -> Tensor:
    return lower_median(values, stats.key, stats.weight > 0, stats.count)


def _key(x: Signal, key: Key) -> tuple[Tensor, int]:
    if not isinstance(key, str):
        return _numbered("key", x, key)
    if key == "batch":
        return torch.zeros_like(x.values, dtype=torch.int64), 1
    if key == "group":
        return x.batch.owner(x.level, Level.GROUP), x.batch.size(Level.GROUP)
    raise InvalidArgument("key", key, "'group', 'batch', or one label per element")


def _numbered(name: str, x: Signal, given: Tensor | Sequence[Hashable]) -> tuple[Tensor, int]:
    """The number of every element's label, and how many labels there are."""
    if not isinstance(given, Tensor):
        labels = {label: i for i, label in enumerate(dict.fromkeys(given))}
        given = torch.tensor([labels[label] for label in given], dtype=torch.int64, device=x.values.device)
    if given.shape != x.values.shape or given.is_floating_point():
        raise InvalidArgument(
            name,
            tuple(given.shape),
            f"one label per element: a list of {x.values.numel()}, or a tensor of whole numbers",
        )
    distinct, number = torch.unique(given, return_inverse=True)
    return number, distinct.numel()


def _virtual(given: Tensor, n: int, x: Signal) -> Tensor:
    counts = given.to(x.values)
    if counts.shape != (n,) or not bool(((counts >= 0) & torch.isfinite(counts)).all()):
        raise InvalidArgument("virtual", given.tolist(), f"{n} numbers >= 0, one per group")
    return counts


def _weights(x: Signal, known: Tensor, unit: Unit) -> Tensor:
    ones = torch.ones_like(x.values)
    if not isinstance(unit, str):
        number, n = _numbered("unit", x, unit)
        return 1.0 / torch.bincount(number[known], minlength=n).to(torch.float64).clamp_min(1.0)[number]
    if unit == "element":
        return ones
    if unit == "trajectory":
        per = x.batch.pool(known.to(torch.float64), x.level, Level.TRAJECTORY, "sum")
        return 1.0 / x.batch.spread(per, Level.TRAJECTORY, x.level).clamp_min(1.0)
    if unit == "token":
        return ones if x.level == Level.TOKEN else x.batch.lengths(Level.TOKEN, x.level).to(torch.float64)
    raise InvalidArgument("unit", unit, "element, trajectory, token, or one label per element")
