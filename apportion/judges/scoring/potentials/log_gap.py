"""`log_gap`: how much of the distance to the gold answer a state has closed, on a log scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from apportion.errors import InvalidArgument
from apportion.judges.scoring.encode import TargetOf
from apportion.judges.scoring.potentials.states import Means, asked, carried, mean_log_probs
from apportion.judges.scoring.rescorer import Rescorer
from apportion.rewards import _arguments
from apportion.rollouts import Trajectory
from apportion.verdicts import Scored, Verdict

__all__ = ["LogGap", "log_gap"]


@dataclass(frozen=True)
class LogGap:
    """See `log_gap`."""

    rescorer: Rescorer
    target: TargetOf
    offset: float
    longest_target: int
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.rescorer, Rescorer):
            raise InvalidArgument("rescorer", self.rescorer, "a Rescorer: an object with name, vocabulary and score")
        if _arguments.number("offset", self.offset, at_least=0) == 0:
            raise InvalidArgument("offset", self.offset, "a number > 0: without it a certain answer has no logarithm")
        _arguments.whole("longest_target", self.longest_target, at_least=1)
        _arguments.text("name", self.name)

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]]:
        """V_0 = 0 and V_k after each turn, per trajectory; one call of the re-scorer."""
        requests = [asked(one, self.target(one), longest_target=self.longest_target) for one in trajectories]
        rows = mean_log_probs(self.rescorer, requests, [one.n_turns + 1 for one in trajectories])
        return [carried(one, self._gaps(row)) for one, row in zip(trajectories, rows, strict=True)]

    def _gaps(self, row: Means) -> list[Verdict]:
        start = row[0]
        if not isinstance(start, float):
            return [start] * len(row)
        return [
            Scored(
                math.log((self.offset - start) / (self.offset - one)), f"mean log-prob {one:.4f}, {start:.4f} at start"
            )
            if isinstance(one, float)
            else one
            for one in row
        ]


def log_gap(
    rescorer: Rescorer,
    *,
    target: TargetOf,
    offset: float = 0.1,
    longest_target: int = 256,
    name: str = "log_gap",
) -> LogGap:
    """A potential: the log-ratio of the gaps to the gold answer at the start and now.

        l_k = mean_j log p(y_j | s_k, lead, y_<j);  d_k = -l_k + offset;  V_k = ln(d_0 / d_k);  V_0 = 0

    V rises when the state makes the answer likelier; per turn, V_k - V_{k-1} sums to V_K.

    Args:
        rescorer: a frozen reference, in nats per token.
        target: from a trajectory to the tokens y of its gold answer and the lead between state and answer, e.g.
            `reference_target(tokenizer, before=...)`. Only the re-scorer ever sees the answer, never the policy.
        offset: part of the definition: bounds d_k away from 0.
        longest_target: tokens; a longer answer abstains.
        name: of the values.

    Returns:
        A `Potential` with `n_turns` + 1 values per trajectory. All of them abstain when there is no answer, an empty or
        over-long one, or no token ids; they share the verdict of s_0 when that could not be scored. The last turn, when
        nothing was observed after it, is the answer and abstains; a turn that was not executed keeps the value so far.

    Raises:
        InvalidArgument: an argument that cannot be used; when asked, a re-scorer that gives another number of scores
            than states.

    Example:
        >>> import numpy as np
        >>> from apportion.judges.scoring import LogProbs, Target, Vocabulary
        >>> class Told:
        ...     name, vocabulary = "told", Vocabulary("words", 9)
        ...     def score(self, requests, *, temperature=1.0):
        ...         return [[LogProbs(np.array([l])) for l in (-2.0, -1.0, -1.0, -0.4)] for _ in requests]
        >>> three = Trajectory(id="r", group="q", prompt_ids=[1], response_ids=[2, 3] * 3, policy=[1, 0] * 3)
        >>> potential = log_gap(Told(), target=lambda t: Target(np.array([5]), np.array([], int)))
        >>> [round(v.value, 4) for v in potential.values([three])[0]]
        [0.0, 0.6466, 0.6466, 1.4351]

    Source: TRACE (arXiv 2607.13988), from a public re-implementation and a digest, not from the paper's text; the lead,
    and which turns are transitions, are a reconstruction.
    """
    return LogGap(rescorer, target, offset, longest_target, name)
