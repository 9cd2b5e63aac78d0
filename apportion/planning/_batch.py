"""What VIGOR and XRPO share: the rewards of one batch of prompts, which grow while its rollouts come in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apportion.errors import InvalidArgument
from apportion.planning._state import checked, dumped, generator, restored
from apportion.planning.planner import Rewards, known_rewards
from apportion.verdicts import LARGEST

_TOL = 1e-9


class BatchPlanner(ABC):
    """Rewards of the prompts of one batch, and a generator for ties."""

    def __init__(self, *, seed: int) -> None:
        self._rng = generator(seed)
        self._rewards: dict[str, list[float]] = {}

    @abstractmethod
    def score(self, prompt: str) -> float:
        """How much the next rollouts of the prompt are worth."""

    def start(self, prompts: Sequence[str]) -> None:
        """Begin a batch: the rewards of the last one are forgotten, since the policy has moved.

        Raises:
            InvalidArgument: no prompts, or one twice.
        """
        if not prompts or len(set(prompts)) < len(prompts):
            raise InvalidArgument("prompts", list(prompts)[:10], "at least one prompt, each once")
        self._rewards = {prompt: [] for prompt in prompts}

    def update(self, rewards: Rewards) -> None:
        """Add rewards of prompts of this batch.

        Args:
            rewards: prompt -> rewards of any range up to `LARGEST`, None for what is missing.

        Raises:
            InvalidArgument: a reward beyond that, or a prompt that is not in the batch; nothing is added then.
        """
        found = known_rewards(rewards, low=-LARGEST, high=LARGEST)
        if strangers := sorted(set(found) - set(self._rewards)):
            raise InvalidArgument("rewards", strangers[:10], "prompts that start() was given")
        for prompt, row in found.items():
            self._rewards[prompt].extend(row)

    def state_dict(self) -> dict[str, Any]:
        """The batch's rewards and the generator."""
        rewards = {prompt: list(row) for prompt, row in self._rewards.items()}
        return {"kind": type(self).__name__, "rewards": rewards, "rng": dumped(self._rng)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state.

        Raises:
            InvalidArgument: the state of another planner.
        """
        self._restore(checked(state, type(self).__name__, ["rewards", "rng"]))

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._rng = restored(state["rng"])
        self._rewards = {prompt: list(row) for prompt, row in state["rewards"].items()}

    def _std(self, prompt: str, *, ddof: int) -> float:
        """The standard deviation of the prompt's rewards; 0 where fewer than two are known, or all are equal."""
        row = self._rewards.get(prompt, [])
        return 0.0 if equal(row) else float(np.std(row, ddof=ddof))


def equal(row: Sequence[float]) -> bool:
    """True when the rewards are equal up to rounding; one or none is."""
    return len(row) < 2 or max(row) - min(row) <= _TOL * max(1.0, *map(abs, row))
