"""Dense credit beside the outcome: as it is, or centred inside the group."""

from __future__ import annotations

from apportion.advantages.group_stat import Singleton, Unit, group_stat
from apportion.signal import Signal

__all__ = ["channel", "group_center"]


def channel(x: Signal) -> Signal:
    """Every token of a turn (or trajectory) gets the turn's value, uncentred.

        A_t = x_{turn(t)}

    Args:
        x: values per turn or trajectory.

    Returns:
        A signal at the finest level of the batch; missing values are ABSENT and so add nothing to a sum.

    Uncentred means that a group in which every attempt breaks a rule is still pushed away from it, and also that a
    channel of rewards alone pushes everything up. `group_center` is the variant that compares inside the group.

    Example:
        >>> from apportion.batch import Batch
        >>> from apportion.rollouts import Level
        >>> b = Batch.of(groups=["q"], turns=[2], tokens=[1, 2])
        >>> channel(Signal.of(b, Level.TURN, [0.0, -0.25], name="path")).values.tolist()
        [0.0, -0.25, -0.25]

    Source: arXiv 2607.07435 (RLVP), whose path channel is not centred.
    """
    return x.neutral().spread(min(x.level, x.batch.finest))


def group_center(
    x: Signal, *, unit: Unit = "element", singleton: Singleton = "zero", constant_tol: float | None = None
) -> Signal:
    """Values minus the mean of their group, at their own level.

        A_k = x_k - mean_g        the mean over all turns of the group for a turn signal

    Args:
        x: values at any level.
        unit: what counts once in the mean: an "element", a "trajectory" or a "token", see `group_stat`.
        singleton: what a group with one known element gets.
        constant_tol: see `group_stat`.

    Returns:
        A signal at x's level; constant groups exactly 0, missing ABSENT.

    Example:
        >>> from apportion.batch import Batch
        >>> from apportion.rollouts import Level
        >>> b = Batch.of(groups=["q", "q"], turns=[2, 1], tokens=[1, 1, 1])
        >>> group_center(Signal.of(b, Level.TURN, [1.0, 0.0, 0.5], name="progress")).values.tolist()
        [0.5, -0.5, 0.0]
    """
    return group_stat(x, scale="none", unit=unit, singleton=singleton, constant_tol=constant_tol)
