"""apportion's rewards inside a plain TRL trainer: one scalar per completion, missing as None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apportion.errors import InvalidArgument
from apportion.integrations.trl.rollouts import joined, turns_of
from apportion.integrations.trl.steps import recorded_by
from apportion.rewards import Reward, observe
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Scored

__all__ = ["as_reward_func"]


class RewardFunc:
    """Called by TRL by keyword; picklable when its reward is."""

    def __init__(self, reward: Reward, *, timeout: float | None, concurrency: int, failure_limit: float) -> None:
        self.reward, self.timeout, self.concurrency = reward, timeout, concurrency
        self.failure_limit = failure_limit
        self.__name__ = reward.name

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], completion_ids: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """One number per completion; None where the reward abstained or failed.

        TRL hands over no masks, so the trajectories are text only: turns are the assistant messages.
        """
        log = columns.pop("log_extra", None)
        columns.pop("log_metric", None)
        columns.pop("trainer_state", None)
        environments = columns.pop("environments", None) or [None] * len(completions)
        rollouts = [
            _trajectory(
                i, prompts[i], completion, environments[i], {name: values[i] for name, values in columns.items()}
            )
            for i, completion in enumerate(completions)
        ]
        verdicts: Any = observe(
            [self.reward],
            rollouts,
            timeout=self.timeout,
            concurrency=self.concurrency,
            failure_limit=self.failure_limit,
        )[self.reward.name]
        if log is not None:
            log(f"{self.reward.name}/evidence", [str(getattr(v, "evidence", v)) for v in verdicts])
        return [v.value if isinstance(v, Scored) else None for v in verdicts]


def as_reward_func(
    reward: Reward, *, timeout: float | None = None, concurrency: int = 64, failure_limit: float = 0.5
) -> RewardFunc:
    """A trajectory-level reward as an entry of `reward_funcs` for any TRL trainer.

    Missing verdicts become None, which TRL leaves out of the group only when *every* reward function gave None; where
    you use several, combine them with apportion's `+` or `weighted_mean` first and pass the one reward.

    Args:
        reward: of TRAJECTORY level; per-turn rewards need `CreditGRPOTrainer`.
        timeout: seconds per observation; late is Failed, hence None.
        concurrency: async observations under way at once.
        failure_limit: share of failed verdicts of one call (a rank's completions) above which training stops.

    Raises:
        InvalidArgument: a reward of another level.

    Example:
        >>> from apportion.rewards import outcome, exact
        >>> right = as_reward_func(outcome(exact()))
        >>> right(prompts=["2+2"] * 2, completions=["4", "5"], completion_ids=[[1], [2]], reference=["4", "4"])
        [1.0, 0.0]
    """
    if reward.level is not Level.TRAJECTORY:
        raise InvalidArgument(
            "reward", f"{reward.name} at level {reward.level.name}", "a TRAJECTORY reward; or use CreditGRPOTrainer"
        )
    observe([], [], timeout=timeout, concurrency=concurrency, failure_limit=failure_limit)
    return RewardFunc(reward, timeout=timeout, concurrency=concurrency, failure_limit=failure_limit)


def _trajectory(i: int, prompt: Any, completion: Any, environment: object, columns: dict[str, Any]) -> Trajectory:
    turns, messages = turns_of(completion), () if isinstance(completion, str) else tuple(completion)
    recorded = recorded_by(environment)
    if recorded is not None:
        turns, _ = joined(turns, messages, recorded, max_tool_rounds=None)
    return Trajectory(
        id=str(i),
        group=str(i),
        turns=tuple(turns),
        messages=messages,
        reference=columns.get("reference"),
        columns={**columns, "prompt": prompt},
    )
