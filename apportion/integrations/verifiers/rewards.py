"""apportion's rewards as scoring functions of verifiers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from apportion._extras import require
from apportion.errors import InvalidArgument
from apportion.integrations.verifiers.traces import rollout_of
from apportion.rewards import Reward, observe_async
from apportion.rollouts import Level
from apportion.verdicts import Scored

__all__ = ["as_reward"]


def as_reward(
    reward: Reward, *, weight: float = 1.0, timeout: float | None = None
) -> Callable[[Any], Awaitable[dict[str, float]]]:
    """A reward of trajectories as a function of the trace that a task's configuration names.

    Args:
        reward: of whole trajectories.
        weight: in the sum that verifiers takes.
        timeout: seconds; late is an error.

    Returns:
        An async function named as the reward, whose answer is the score under its name, and nothing where it
        abstained. Where the verdict is `Failed` it raises, and verifiers marks the trace as failed: a missing number
        is never a zero.

    Raises:
        InvalidArgument: a reward of turns, whose verdicts one number cannot hold: give it to a recipe.
        MissingExtra: verifiers is not installed.

    Example:
        In a task's module: `correct = as_reward(outcome(numeric()))`, and in its configuration
        `rewards = {correct = {fn = "my_task:correct"}}`. A `@vf.reward` method may also `return await correct(trace)`.
    """
    if reward.level is not Level.TRAJECTORY:
        raise InvalidArgument(
            "reward", reward.name, "a reward of whole trajectories; those of turns belong to a recipe"
        )
    mark: Any = require("verifiers.v1", extra="verifiers").reward

    async def score(trace: Any) -> dict[str, float]:
        found = await observe_async([reward], [rollout_of(trace)], failure_limit=0.0, timeout=timeout)
        verdict = found[reward.name][0]
        return {reward.name: verdict.value} if isinstance(verdict, Scored) else {}

    score.__name__ = score.__qualname__ = reward.name.replace(" ", "_")
    made: Callable[[Any], Awaitable[dict[str, float]]] = mark(score, weight=weight)
    return made
