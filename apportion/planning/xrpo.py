"""XRPO: the next rollout goes where it narrows the confidence interval of the mean reward most."""

from __future__ import annotations

import heapq
import math

import numpy as np
from scipy.special import stdtrit

from apportion.errors import InvalidArgument
from apportion.planning._batch import BatchPlanner
from apportion.planning._state import at_least

__all__ = ["XRPO"]


class XRPO(BatchPlanner):
    """Rollouts of one batch of prompts by t-intervals.

        h(n) = t_{1 - alpha/2, n - 1} * std / sqrt(n)      score = h(n) - h(n + 1) + bonus * sqrt(ln(1 + T) / n)

    n and std (sample) are those of the prompt's known rewards, T counts the known rewards of all prompts. A prompt of
    which fewer than two are known comes first (an infinite score); one whose rewards are equal keeps only the bonus.

    Args:
        alpha: one minus the confidence, in (0, 1).
        bonus: lambda, how much a prompt gains by having been sampled little; units of the reward.
        uniform_share: share of the rollouts that are spread evenly whatever the scores, in [0, 1].
        seed: of ties and of who gets the odd rollouts.

    Raises:
        InvalidArgument: an alpha outside (0, 1), a negative bonus, or a share outside [0, 1].

    Example:
        >>> planner = XRPO(bonus=0.0, uniform_share=0.0)
        >>> planner.start(["mixed", "solved"])
        >>> planner.update({"mixed": [1.0, 0.0, 1.0, 0.0], "solved": [1.0] * 4})
        >>> round(planner.score("mixed"), 4), planner.score("solved")
        (0.2018, 0.0)
        >>> planner.allocate(3)
        {'mixed': 3, 'solved': 0}

    Source: arXiv 2510.06672, of which a summary was read. The form of the bonus and its weight are a reconstruction:
    the paper has a bonus, which one is not known. Its second half, retrying unsolved prompts with solved examples in
    the context, is not here.
    """

    def __init__(self, *, alpha: float = 0.05, bonus: float = 0.1, uniform_share: float = 0.1, seed: int = 0) -> None:
        if not 0 < alpha < 1:
            raise InvalidArgument("alpha", alpha, "a number in (0, 1)")
        if not 0 <= bonus < math.inf:
            raise InvalidArgument("bonus", bonus, "a finite number >= 0")
        if not 0 <= uniform_share <= 1:
            raise InvalidArgument("uniform_share", uniform_share, "a share in [0, 1]")
        self._alpha, self._bonus, self._uniform_share = alpha, bonus, uniform_share
        super().__init__(seed=seed)

    def score(self, prompt: str) -> float:
        """What the next rollout is worth; infinite while fewer than two rewards are known."""
        row = self._rewards.get(prompt, [])
        return self._priority(len(row), self._std(prompt, ddof=1), self._total())

    def allocate(self, rollouts: int) -> dict[str, int]:
        """Prompt -> how many of the next rollouts it gets, 0 included.

        Each rollout goes to the best score, as if those given before it had come back without moving a std.

        Raises:
            InvalidArgument: a negative number of rollouts, or no batch begun.
        """
        if not isinstance(rollouts, (int, np.integer)) or rollouts < 0:
            raise InvalidArgument("rollouts", rollouts, "a whole number >= 0")
        names = sorted(self._rewards)
        if not names:
            raise InvalidArgument("prompts", names, "a batch of prompts: call start(prompts) first")
        even = at_least(self._uniform_share, rollouts)
        given = dict.fromkeys(names, even // len(names))
        for i in self._rng.permutation(len(names))[: even % len(names)]:
            given[names[i]] += 1
        total, spread = self._total(), {name: self._std(name, ddof=1) for name in names}
        known = {name: len(row) for name, row in self._rewards.items()}

        def entry(name: str, tie: float) -> tuple[float, int, float, str]:
            n = known[name] + given[name]
            # Among prompts that must come first, the one with the fewest rollouts does.
            return -self._priority(n, spread[name], total), n, tie, name

        heap = [entry(name, tie) for name, tie in zip(names, self._rng.random(len(names)).tolist(), strict=True)]
        heapq.heapify(heap)
        for _ in range(rollouts - even):
            _, _, tie, name = heap[0]
            given[name] += 1
            heapq.heapreplace(heap, entry(name, tie))
        return {prompt: given[prompt] for prompt in self._rewards}

    def _total(self) -> int:
        return sum(map(len, self._rewards.values()))

    def _priority(self, n: int, std: float, total: int) -> float:
        if n < 2:
            return math.inf
        narrower = self._half_width(n) - self._half_width(n + 1)
        return std * narrower + self._bonus * math.sqrt(math.log1p(total) / n)

    def _half_width(self, n: int) -> float:
        return float(stdtrit(n - 1, 1.0 - self._alpha / 2.0)) / math.sqrt(n)
