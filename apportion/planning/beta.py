"""A Beta belief about the pass rate of every prompt: the core of MoPPS, SPO, ThinkPrior and InSight."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from apportion.errors import InvalidArgument
from apportion.planning._state import checked
from apportion.planning.planner import Rewards, known_rewards

__all__ = ["BetaPosterior"]


class BetaPosterior(ABC):
    """Counts of successes and failures per prompt, which fade towards the prior.

        a <- discount * a + (1 - discount) * a0 + successes        p = a / (a + b)
        b <- discount * b + (1 - discount) * b0 + failures

    A reward r in [0, 1] counts as r successes and 1 - r failures. Only visited prompts fade; one of which nothing is
    known stays as it is.

    Args:
        prior: (a0, b0), both > 0.
        discount: xi in [0, 1]; 1 forgets nothing. The policy changes, so old outcomes say less.

    Raises:
        InvalidArgument: a prior that is not positive, or a discount outside [0, 1].
    """

    def __init__(self, *, prior: tuple[float, float] = (1.0, 1.0), discount: float = 1.0) -> None:
        if len(prior) != 2 or not all(0 < count < math.inf for count in prior):
            raise InvalidArgument("prior", prior, "two finite numbers > 0")
        if not 0 <= discount <= 1:
            raise InvalidArgument("discount", discount, "a number in [0, 1]")
        self._prior = (float(prior[0]), float(prior[1]))
        self._discount = discount
        self._counts: dict[str, tuple[float, float]] = {}

    @abstractmethod
    def score(self, prompt: str) -> float:
        """How much the prompt is worth sampling next."""

    def prior(self, prompt: str) -> tuple[float, float]:
        """(a0, b0) of a prompt."""
        return self._prior

    def counts(self, prompt: str) -> tuple[float, float]:
        """(a, b) of a prompt; the prior for one that was never visited."""
        return self._counts.get(prompt) or self.prior(prompt)

    def mean(self, prompt: str) -> float:
        """The expected pass rate a / (a + b)."""
        a, b = self.counts(prompt)
        return a / (a + b)

    def update(self, rewards: Rewards) -> None:
        """Count the rewards of the visited prompts.

        Args:
            rewards: prompt -> rewards in [0, 1], None for what is missing.

        Raises:
            InvalidArgument: a reward outside [0, 1]; nothing is counted then.
        """
        for prompt, row in known_rewards(rewards).items():
            self._count(prompt, row, self._discount)

    def state_dict(self) -> dict[str, Any]:
        """The counts of every visited prompt."""
        return {"kind": type(self).__name__, "counts": {prompt: list(ab) for prompt, ab in self._counts.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state.

        Raises:
            InvalidArgument: the state of another planner, or counts that are not positive.
        """
        self._restore(checked(state, type(self).__name__, ["counts"])["counts"])

    def _restore(self, counts: Mapping[str, Any]) -> None:
        wrong = [p for p, ab in counts.items() if len(ab) != 2 or not all(0 < count < math.inf for count in ab)]
        if wrong:
            raise InvalidArgument("state", wrong[:10], "two finite counts > 0 for every prompt")
        self._counts = {prompt: (float(a), float(b)) for prompt, (a, b) in counts.items()}

    def _count(self, prompt: str, row: list[float], discount: float) -> None:
        (a, b), (a0, b0), won = self.counts(prompt), self.prior(prompt), sum(row)
        self._counts[prompt] = (
            discount * a + (1 - discount) * a0 + won,
            discount * b + (1 - discount) * b0 + len(row) - won,
        )
