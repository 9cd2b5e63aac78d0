"""`metric`: a reward that is watched and recorded, and that no training run stops for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from apportion.rewards import _arguments
from apportion.rewards.base import Reward, Role, check_reward, same_level
from apportion.rewards.running import Combined, Plan
from apportion.rollouts import Level, Trajectory

__all__ = ["metric"]


@dataclass(frozen=True)
class Metric(Combined):
    """See `metric`."""

    inner: Reward
    name: str
    level: Level = field(init=False)

    @property
    def role(self) -> Role:
        """Always "metric"."""
        return "metric"

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", same_level("metric", [self.inner]))
        _arguments.text("name", self.name)

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks the one part."""
        (rows,) = yield [(self.inner, trajectories)]
        return rows


def metric(reward: Reward, *, name: str | None = None) -> Metric:
    """A reward that is only recorded: however often it fails, observing goes on.

    Beside what a recipe trains on, to see it in the logs. A failing service behind a number that the loss does not use
    must not end the run; behind a number that it does use, it must (`failure_limit` of `observe`).

    Args:
        reward: of either level.
        name: default: the reward's own.

    Returns:
        A reward with the same verdicts and the role "metric": it is exempt from failure limits, and a recipe is not
        accepted for having it.

    Raises:
        InvalidArgument: something that is no reward.

    Example:
        >>> from apportion.rewards import observe, reward
        >>> from apportion.verdicts import Failed
        >>> style = reward(name="style")(lambda trajectory: Failed("no connection"))
        >>> observe([metric(style)], [Trajectory(id="r0", group="q")])
        {'style': [Failed(error='no connection')]}
    """
    return Metric(check_reward("reward", reward), reward.name if name is None else name)
