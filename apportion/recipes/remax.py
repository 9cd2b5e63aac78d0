"""ReMax: the reward of a greedy rollout of the same prompt is the baseline."""

from __future__ import annotations

from collections.abc import Mapping

from apportion import advantages as adv
from apportion.batch import Batch
from apportion.recipe import Recipe, State
from apportion.rewards import Truncated, outcome
from apportion.signal import Signal

__all__ = ["remax"]


def remax(*, reward: str = "reward", greedy_reward: str = "greedy_reward", truncated: Truncated = "keep") -> Recipe:
    """ReMax: reward minus that of one greedy rollout per prompt. arXiv 2310.10505.

    Args:
        reward: trajectory column with the outcome.
        greedy_reward: trajectory column with what the greedy rollout of this prompt earned.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".
    """

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        return adv.remax(signals["outcome"], baseline=signals["greedy"])

    return Recipe(
        name="remax",
        observers=[outcome(reward, truncated=truncated), outcome(greedy_reward, name="greedy")],
        assign_signals=assign,
        aggregation="token-mean",
        paper="2310.10505",
        needs=(f"trajectory columns {reward!r} and {greedy_reward!r}",),
        parameters={"reward": reward, "greedy_reward": greedy_reward, "truncated": truncated},
    )
