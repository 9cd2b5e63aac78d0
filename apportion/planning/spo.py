"""SPO: a belief that fades with how far the policy has moved, as baseline of single rollouts and to choose prompts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from apportion.errors import InvalidArgument
from apportion.planning._state import checked
from apportion.planning.beta import BetaPosterior
from apportion.planning.planner import Rewards, known_rewards

__all__ = ["SPO"]

_MOST = 0.96


class SPO(BetaPosterior):
    """Single-stream policy optimisation's value tracker.

        discount = clip(2^(-drift / half_drift), least, 0.96)        score = sqrt(p (1 - p))

    `mean(prompt)` *before* the update is the baseline of its rollouts, so a group of one rollout teaches too:
    `whiten(remax(x, baseline=...))`. The belief starts with 1 / (1 - least) pseudo-counts, half of them successes.

    Args:
        half_drift: the drift at which half of the evidence is forgotten, in nats per token.
        least: xi_min, in [0, 0.96].

    Raises:
        InvalidArgument: a half_drift that is not positive, or a `least` outside [0, 0.96].

    Example:
        >>> planner = SPO(least=0.5)
        >>> planner.counts("q"), planner.discount(0.0), planner.discount(0.06), planner.discount(9.0)
        ((1.0, 1.0), 0.96, 0.5, 0.5)
        >>> planner.moved({"q": 0.06})
        >>> planner.update({"q": [1.0]})
        >>> planner.counts("q"), round(planner.mean("q"), 4)
        ((2.0, 1.0), 0.6667)

    Source: SPO and its code for the discount, its upper bound and the starting count; the defaults of half_drift and
    least and the score are recalled, and the fading towards the prior is that of the common core: a reconstruction.
    """

    def __init__(self, *, half_drift: float = 0.06, least: float = 0.875) -> None:
        if not 0 < half_drift < math.inf:
            raise InvalidArgument("half_drift", half_drift, "a finite number > 0")
        if not 0 <= least <= _MOST:
            raise InvalidArgument("least", least, f"a number in [0, {_MOST}]")
        start = 0.5 / (1.0 - least)
        super().__init__(prior=(start, start))
        self._half_drift = half_drift
        self._least = least
        self._drift: dict[str, float] = {}

    def discount(self, drift: float) -> float:
        """What is kept of the evidence after the policy moved by `drift`."""
        return min(max(math.exp2(-drift / self._half_drift), self._least), _MOST)

    def score(self, prompt: str) -> float:
        """The standard deviation of one outcome."""
        p = self.mean(prompt)
        return math.sqrt(p * (1.0 - p))

    def moved(self, drift: Mapping[str, float]) -> None:
        """Say how far the policy has moved on some prompts, before their rewards are counted.

        Args:
            drift: prompt -> mean |change of log pi| of its tokens since its last visit, nats per token. A prompt that
                is not named is taken not to have moved.

        Raises:
            InvalidArgument: a drift that is negative or not a number; nothing is noted then.
        """
        if wrong := {prompt: d for prompt, d in drift.items() if not d >= 0}:
            raise InvalidArgument("drift", dict(list(wrong.items())[:10]), "numbers >= 0")
        self._drift |= {prompt: float(d) for prompt, d in drift.items()}

    def update(self, rewards: Rewards) -> None:
        """Count the rewards of the visited prompts, after forgetting by how far the policy moved."""
        for prompt, row in known_rewards(rewards).items():
            self._count(prompt, row, self.discount(self._drift.pop(prompt, 0.0)))

    def state_dict(self) -> dict[str, Any]:
        """The counts of every visited prompt, and the drift that was noted but not used yet."""
        return {**super().state_dict(), "drift": dict(self._drift)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        found = checked(state, type(self).__name__, ["counts", "drift"])
        self._restore(found["counts"])
        self._drift = dict(found["drift"])
