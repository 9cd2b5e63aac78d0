"""What every planner is: something that learns from rewards which prompts are worth sampling, and can be saved.

chosen = sampler.select(64, candidates)      before sampling: asks the planner for score(prompt)
...                                          rollouts, rewards, credit, a training step
sampler.update(rewards_by_prompt(credit.rewards["outcome"]))
checkpoint["prompts"] = sampler.state_dict()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["Planner", "Rewards", "known_rewards", "rewards_by_prompt"]

Rewards: TypeAlias = Mapping[str, Sequence[float | None]]


@runtime_checkable
class Planner(Protocol):
    """Scores prompts from what was observed of them.

    `score` says how much a prompt is worth sampling next; only its order means anything. `update` takes the rewards of
    the rollouts of each visited prompt; what is missing changes nothing. `state_dict` is plain data for JSON, and a
    planner that loads it scores as the one that gave it would have, random draws included.
    """

    def score(self, prompt: str) -> float:
        """How much the prompt is worth sampling next."""

    def update(self, rewards: Rewards) -> None:
        """Learn from the rewards of some prompts."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that was learnt, as plain data."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""


def rewards_by_prompt(
    x: Signal, *, prompts: Sequence[str] | None = None, success: float | None = None
) -> dict[str, list[float]]:
    """The known rewards of every prompt, to update a planner with.

    Args:
        x: one reward per trajectory, such as `credit.rewards["outcome"]`.
        prompts: the prompt of every group, for trainers whose group ids change from step to step; default: the group
            ids. Groups of one prompt are put together.
        success: reward from which on a rollout counts as 1, all others as 0: for rewards that are no pass rates, since
            beliefs about pass rates take [0, 1] only. Default: the rewards as they are.

    Returns:
        Prompt -> known rewards; an empty list where all are missing.

    Raises:
        InvalidArgument: rewards that are not per trajectory, or another number of prompts than of groups.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> rewards_by_prompt(rewards_signal([1, None, 0, None], groups=list("aaab")))
        {'a': [1.0, 0.0], 'b': []}
        >>> rewards_by_prompt(rewards_signal([1.2, -0.5]), success=1.0)
        {'0': [1.0, 0.0]}
    """
    if x.level != Level.TRAJECTORY:
        raise InvalidArgument("x", x.level.name, "one reward per trajectory (level TRAJECTORY)")
    names = x.batch.group_ids if prompts is None else tuple(prompts)
    if len(names) != len(x.batch.group_ids):
        raise InvalidArgument("prompts", len(names), f"{len(x.batch.group_ids)} names, one per group")
    found: dict[str, list[float]] = {name: [] for name in names}
    for group, value, known in zip(x.batch.group.tolist(), x.values.tolist(), x.known.tolist(), strict=True):
        if known:
            found[names[group]].append(value if success is None else float(value >= success))
    return found


def known_rewards(rewards: Rewards, *, low: float = 0.0, high: float = 1.0) -> dict[str, list[float]]:
    """The prompts of which something is known, without what is missing (None).

    Raises:
        InvalidArgument: rewards outside [low, high], or not a number; the prompts are listed.

    Example:
        >>> known_rewards({"a": [1.0, None], "b": [None], "c": []})
        {'a': [1.0]}
    """
    try:
        found = {prompt: [float(r) for r in row if r is not None] for prompt, row in rewards.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidArgument("rewards", rewards, "prompt -> list of numbers, None for what is missing") from error
    wrong = [prompt for prompt, row in found.items() if not all(low <= r <= high for r in row)]
    if wrong:
        shown = {prompt: found[prompt] for prompt in wrong[:10]}
        raise InvalidArgument("rewards", shown, f"numbers in [{low:g}, {high:g}], None for what is missing")
    return {prompt: row for prompt, row in found.items() if row}
