"""GRPO: rewards centred and scaled inside the group of one prompt."""

from __future__ import annotations

from typing import Literal

from apportion.advantages.dialect import Dialect
from apportion.advantages.dialect import dialect as named
from apportion.advantages.group_stat import Center, Scale, Singleton, Unit, group_stat
from apportion.signal import Signal

__all__ = ["grpo"]


def grpo(
    x: Signal,
    *,
    dialect: str | Dialect = "apportion",
    center: Center | None = None,
    scale: Scale | None = None,
    ddof: int | None = None,
    eps: float | None = None,
    singleton: Singleton | None = None,
    scale_key: Literal["group", "batch"] | None = None,
    unit: Unit = "element",
    constant_tol: float | None = None,
) -> Signal:
    """Group-relative advantages.

        A_i = (x_i - mean_g) / (std_g + eps)

    Args:
        x: rewards, usually one per trajectory.
        dialect: whose GRPO; the arguments below override single choices of it, None = as the dialect has it.
        center: see `group_stat`.
        scale: see `group_stat`; "none" is the centred form without division.
        ddof: 1 = sample, 0 = population standard deviation.
        eps: added to the scale; units of x.
        singleton: what a group with one known reward gets.
        scale_key: "batch" divides by one standard deviation for the whole batch.
        unit: what counts once, see `group_stat`.
        constant_tol: see `group_stat`.

    Returns:
        Advantages at x's level. A constant group is exactly 0 in every dialect, also where the framework leaves a
        float32 residue divided by epsilon; missing rewards leave the group first and come back ABSENT.

    Raises:
        InvalidArgument: an unknown dialect or choice.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> grpo(rewards_signal([1.0, 0.0, 0.0, 0.0])).values.tolist()
        [1.5, -0.5, -0.5, -0.5]
        >>> grpo(rewards_signal([1.0, 0.0, 0.0, 0.0]), dialect="prime-rl").values.tolist()
        [0.75, -0.25, -0.25, -0.25]

    Source: arXiv 2402.03300. The loss takes the mean over a trajectory's tokens, then over trajectories.
    """
    d = named(dialect)
    return group_stat(
        x,
        center=d.center if center is None else center,
        scale=d.scale if scale is None else scale,
        ddof=d.ddof if ddof is None else ddof,
        eps=d.eps if eps is None else eps,
        singleton=d.singleton if singleton is None else singleton,
        scale_key="batch" if (d.scale_key if scale_key is None else scale_key) == "batch" else None,
        unit=unit,
        constant_tol=constant_tol,
    )
