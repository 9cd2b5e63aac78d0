"""InSight: the prompts whose next outcomes tell most about their pass rate."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.planning.beta import BetaPosterior
from apportion.planning.scores import entropy_information, information

__all__ = ["InSight", "Measure"]

Measure: TypeAlias = Literal["variance", "entropy"]


class InSight(BetaPosterior):
    """Information of the next outcomes.

        variance   k p (1 - p) / ((n + 1) (n + k))        entropy   H(p) - E[H(p)]

    At equal pass rate the score prefers the prompt that is known *less*; `ThinkPrior` does the opposite.

    Args:
        measure: what is reduced.
        rollouts: k, the rollouts that a chosen prompt gets; for "variance".
        prior: see `BetaPosterior`.
        discount: see `BetaPosterior`.

    Raises:
        InvalidArgument: an unknown measure, or fewer than one rollout.

    Example:
        >>> planner = InSight()
        >>> planner.update({"known": [1.0, 0.0] * 7, "new": [1.0, 0.0]})
        >>> planner.counts("known"), planner.counts("new")
        ((8.0, 8.0), (2.0, 2.0))
        >>> planner.score("new") > planner.score("known")
        True

    Source: arXiv 2603.01907, of which a summary was read; a weight on the pass rate that the paper multiplies with is
    not known and left at 1, the variance form is derived: a reconstruction.
    """

    def __init__(
        self,
        *,
        measure: Measure = "variance",
        rollouts: int = 1,
        prior: tuple[float, float] = (1.0, 1.0),
        discount: float = 1.0,
    ) -> None:
        super().__init__(prior=prior, discount=discount)
        if measure not in get_args(Measure):
            raise InvalidArgument("measure", measure, f"one of {', '.join(get_args(Measure))}")
        if not rollouts >= 1:
            raise InvalidArgument("rollouts", rollouts, "a number >= 1")
        self._measure = measure
        self._rollouts = rollouts

    def score(self, prompt: str) -> float:
        """The information of the next outcomes."""
        a, b = self.counts(prompt)
        return information(a, b, rollouts=self._rollouts) if self._measure == "variance" else entropy_information(a, b)
