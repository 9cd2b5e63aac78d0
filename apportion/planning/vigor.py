"""VIGOR: rollouts in rounds; after each round only the prompts whose rewards vary most go on, with more rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apportion.errors import InvalidArgument
from apportion.planning._batch import BatchPlanner
from apportion.planning._state import at_least, checked

__all__ = ["Vigor"]


class Vigor(BatchPlanner):
    """Rollouts of one batch of prompts, round by round.

        round r: the ceil(keep^r B) prompts of the largest Var(rewards so far) get first * growth^r rollouts each

    With the defaults a prompt ends with 2, 6, 14 or 30 rollouts, 8 on average, and every round costs the same. All
    prompts get the first round: that is its uniform share. Ties, frequent after two rollouts, are broken at random.

    The groups that come out are uneven. Estimators of this package do not mind; in a loss that is a mean over tokens
    the large groups dominate, so aggregate per rollout where they should not.

    Args:
        rounds: T.
        first: m0, rollouts per prompt in the first round.
        keep: alpha, the share of prompts that go on, in (0, 1].
        growth: gamma, how the rollouts per prompt grow, a whole number >= 1.
        seed: of the ties.

    Raises:
        InvalidArgument: fewer than one round or rollout, a share outside (0, 1], or a growth below 1.

    Example:
        >>> planner = Vigor(seed=0)
        >>> planner.start([f"q{i}" for i in range(8)])
        >>> planner.next_round() == {f"q{i}": 2 for i in range(8)}
        True
        >>> planner.update({"q1": [1.0, 0.0], "q3": [0.0, 1.0], "q4": [1.0, 0.0], "q6": [1.0, 0.0], "q7": [1.0, 1.0]})
        >>> planner.next_round()
        {'q1': 4, 'q3': 4, 'q4': 4, 'q6': 4}

    Source: arXiv 2607.22002, of which a detailed summary was read; rounding up is a reconstruction.
    """

    def __init__(self, *, rounds: int = 4, first: int = 2, keep: float = 0.5, growth: int = 2, seed: int = 0) -> None:
        for name, number in (("rounds", rounds), ("first", first), ("growth", growth)):
            if not isinstance(number, int) or number < 1:
                raise InvalidArgument(name, number, "a whole number >= 1")
        if not 0 < keep <= 1:
            raise InvalidArgument("keep", keep, "a share in (0, 1]")
        self._rounds, self._first, self._keep, self._growth = rounds, first, keep, growth
        super().__init__(seed=seed)
        self._round = 0
        self._prompts: list[str] = []

    def start(self, prompts: Sequence[str]) -> None:
        """Begin a batch of prompts at its first round."""
        super().start(prompts)
        self._round, self._prompts = 0, list(prompts)

    def score(self, prompt: str) -> float:
        """The variance of the rewards so far; 0 where fewer than two are known."""
        return self._std(prompt, ddof=0) ** 2

    def next_round(self) -> dict[str, int]:
        """Prompt -> rollouts to sample now; empty when the rounds are over."""
        if self._round == self._rounds or not self._prompts:
            return {}
        if self._round:
            size = at_least(self._keep, len(self._prompts))
            names = sorted(self._prompts)
            worth = np.array([self.score(prompt) for prompt in names])
            order = np.lexsort((self._rng.random(len(names)), -worth))
            best = {names[i] for i in order[:size]}
            self._prompts = [prompt for prompt in self._prompts if prompt in best]
        each = self._first * self._growth**self._round
        self._round += 1
        return dict.fromkeys(self._prompts, each)

    def state_dict(self) -> dict[str, Any]:
        """The batch's rewards, the round, the prompts still in it, and the generator."""
        return {**super().state_dict(), "round": self._round, "prompts": list(self._prompts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        found = checked(state, type(self).__name__, ["rewards", "rng", "round", "prompts"])
        self._restore(found)
        self._round, self._prompts = int(found["round"]), list(found["prompts"])
