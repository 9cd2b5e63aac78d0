"""`answer_probability`: the probability of the gold answer per token in a state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from apportion.errors import InvalidArgument
from apportion.judges.scoring.encode import TargetOf
from apportion.judges.scoring.potentials.states import asked, carried, mean_log_probs
from apportion.judges.scoring.rescorer import Rescorer
from apportion.rewards import _arguments
from apportion.rollouts import Trajectory
from apportion.verdicts import Scored, Verdict

__all__ = ["AnswerProbability", "answer_probability"]


@dataclass(frozen=True)
class AnswerProbability:
    """See `answer_probability`."""

    rescorer: Rescorer
    target: TargetOf
    longest_target: int
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.rescorer, Rescorer):
            raise InvalidArgument("rescorer", self.rescorer, "a Rescorer: an object with name, vocabulary and score")
        _arguments.whole("longest_target", self.longest_target, at_least=1)
        _arguments.text("name", self.name)

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]]:
        """p_0 and p_k after each turn, per trajectory; one call of the re-scorer."""
        requests = [asked(one, self.target(one), longest_target=self.longest_target) for one in trajectories]
        rows = mean_log_probs(self.rescorer, requests, [one.n_turns + 1 for one in trajectories])
        return [
            carried(
                trajectory,
                [Scored(math.exp(one), f"mean log-prob {one:.4f}") if isinstance(one, float) else one for one in row],
            )
            for trajectory, row in zip(trajectories, rows, strict=True)
        ]


def answer_probability(
    rescorer: Rescorer,
    *,
    target: TargetOf,
    longest_target: int = 256,
    name: str = "answer_probability",
) -> AnswerProbability:
    """A potential: the geometric mean probability of the gold answer's tokens.

        p_k = exp(mean_j log p(y_j | s_k, lead, y_<j))  in [0, 1]

    Args:
        rescorer: the current policy in the published method.
        target: as in `log_gap`.
        longest_target: tokens; a longer answer abstains.
        name: of the values.

    Returns:
        A `Potential` with `n_turns` + 1 values per trajectory; what abstains and what is carried is as in `log_gap`.

    Raises:
        InvalidArgument: as `log_gap`.

    Example:
        >>> import numpy as np
        >>> from apportion.judges.scoring import LogProbs, Target, Vocabulary
        >>> class Told:
        ...     name, vocabulary = "told", Vocabulary("words", 9)
        ...     def score(self, requests, *, temperature=1.0):
        ...         return [[LogProbs(np.log([p])) for p in (0.1, 0.3, 0.25, 0.9)] for _ in requests]
        >>> turns = Trajectory(id="r", group="q", prompt_ids=[1], response_ids=[2, 3, 2, 3, 2], policy=[1, 0, 1, 0, 1])
        >>> potential = answer_probability(Told(), target=lambda t: Target(np.array([5]), np.array([], int)))
        >>> [round(v.value, 2) for v in potential.values([turns])[0][:3]]
        [0.1, 0.3, 0.25]

    Source: IGPO (arXiv 2510.14967), from the authors' code.
    """
    return AnswerProbability(rescorer, target, longest_target, name)
