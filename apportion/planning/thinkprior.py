"""ThinkPrior: the belief starts from what another model achieves, the score is the expected learnability."""

from __future__ import annotations

import math
from collections.abc import Mapping

from apportion.errors import InvalidArgument
from apportion.planning.beta import BetaPosterior
from apportion.planning.scores import learnability

__all__ = ["ThinkPrior"]


class ThinkPrior(BetaPosterior):
    """Prior counts from an external pass rate.

        a0 = strength * rate + 1,  b0 = strength * (1 - rate) + 1        score = a b / (n (n + 1))

    At equal pass rate the score prefers the prompt that is known *better*; `InSight` does the opposite.

    Args:
        anchors: prompt -> pass rate of the other model, in [0, 1]; a prompt without one starts at Beta(1, 1).
        strength: kappa, how many rollouts the anchor counts as.
        discount: see `BetaPosterior`.

    Raises:
        InvalidArgument: a rate outside [0, 1] (prompts are listed), or a negative strength.

    Example:
        >>> planner = ThinkPrior(anchors={"half": 0.5, "hard": 0.0})
        >>> planner.counts("half"), planner.counts("hard"), planner.counts("new")
        ((3.0, 3.0), (1.0, 5.0), (1.0, 1.0))
        >>> planner.score("half") > planner.score("hard")
        True

    Source: arXiv 2609.09075, of which a summary was read; the map from rate to counts and the strength are a
    reconstruction.
    """

    def __init__(self, *, anchors: Mapping[str, float], strength: float = 4.0, discount: float = 1.0) -> None:
        super().__init__(discount=discount)
        if wrong := {prompt: rate for prompt, rate in anchors.items() if not 0 <= rate <= 1}:
            raise InvalidArgument("anchors", dict(list(wrong.items())[:10]), "pass rates in [0, 1]")
        if not 0 <= strength < math.inf:
            raise InvalidArgument("strength", strength, "a finite number >= 0")
        self._anchors = dict(anchors)
        self._strength = strength

    def prior(self, prompt: str) -> tuple[float, float]:
        """(a0, b0) from the anchor."""
        if prompt not in self._anchors:
            return super().prior(prompt)
        rate = self._anchors[prompt]
        return self._strength * rate + 1.0, self._strength * (1.0 - rate) + 1.0

    def score(self, prompt: str) -> float:
        """The expected learnability."""
        return learnability(*self.counts(prompt))
