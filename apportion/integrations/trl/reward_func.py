"""apportion's rewards inside a plain TRL trainer: one scalar per completion, missing as None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apportion.errors import InvalidArgument
from apportion.integrations.trl.rollouts import turns_of
from apportion.rewards import Reward, observe
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Scored

__all__ = ["as_reward_func"]


class RewardFunc:
    """Called by TRL by keyword; picklable when its reward is."""

    def __init__(self, reward: Reward, *, timeout: float | None, concurrency: int) -> None:
        self.reward, self.timeout, self.concurrency = reward, timeout, concurrency
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
        columns.pop("environments", None)
        rollouts = [
            Trajectory(
                id=str(i),
                group=str(i),
                turns=tuple(turns_of(completion)),
                messages=() if isinstance(completion, str) else tuple(completion),
                reference=columns["reference"][i] if "reference" in columns else None,
                columns={name: values[i] for name, values in columns.items()},
            )
            for i, completion in enumerate(completions)
        ]
        verdicts: Any = observe(
            [self.reward], rollouts, timeout=self.timeout, concurrency=self.concurrency, failure_limit=1.0
        )[self.reward.name]
        if log is not None:
            log(f"{self.reward.name}/evidence", [str(getattr(v, "evidence", v)) for v in verdicts])
        return [v.value if isinstance(v, Scored) else None for v in verdicts]


def as_reward_func(reward: Reward, *, timeout: float | None = None, concurrency: int = 64) -> RewardFunc:
    """A trajectory-level reward as an entry of `reward_funcs` for any TRL trainer.

    Missing verdicts become None, which TRL leaves out of the group only when *every* reward function gave None; where
    you use several, combine them with apportion's `+` or `weighted_mean` first and pass the one reward.

    Args:
        reward: of TRAJECTORY level; per-turn rewards need `CreditGRPOTrainer`.
        timeout: seconds per observation; late is Failed, hence None.
        concurrency: async observations under way at once.

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
    return RewardFunc(reward, timeout=timeout, concurrency=concurrency)
