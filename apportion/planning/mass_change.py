"""BroRL's analysis of one update: how sampled and unsampled answers move probability onto the correct ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apportion.errors import InvalidArgument

__all__ = ["MassChange", "mass_change"]


@dataclass(frozen=True, slots=True)
class MassChange:
    """First-order change of the probability of a correct answer, by cause.

    Attributes:
        sampled_correct: from the correct answers that were sampled; not negative where wrong <= 0 <= right.
        sampled_wrong: from the wrong ones that were sampled; not negative there either.
        unsampled: from what was not sampled; of either sign, and 0 once everything is sampled.
    """

    sampled_correct: float
    sampled_wrong: float
    unsampled: float

    @property
    def total(self) -> float:
        """The sum of the three."""
        return self.sampled_correct + self.sampled_wrong + self.unsampled


def mass_change(
    probabilities: Sequence[float] | npt.ArrayLike,
    *,
    correct: Sequence[bool] | npt.ArrayLike,
    sampled: Sequence[bool] | npt.ArrayLike,
    right: float = 1.0,
    wrong: float = -1.0,
    step: float = 1.0,
) -> MassChange:
    """How one policy-gradient step on the logits changes the probability Q+ of the correct answers.

        dQ+ = step ((right - S) Q- A2  +  (S - wrong) Q+ B2  +  S (Q+ U2- - Q- U2+))      S = right P+ + wrong P-

    P+, P- are the sampled, Q+, Q- all the mass of correct and wrong answers; A2, B2 the sums of squared probabilities
    of the sampled correct and wrong ones, U2+, U2- those of the unsampled. With wrong <= 0 <= right
    only the last part can hurt, and it vanishes as the group grows: the case for hundreds of rollouts per prompt. An
    analysis, not an estimator; every estimator of this package takes groups of any size.

    Args:
        probabilities: [n] of all answers (or tokens), summing to 1.
        correct: [n] bool.
        sampled: [n] bool, what the group holds.
        right: reward of a correct answer.
        wrong: reward of a wrong one, at most `right`.
        step: learning rate over the number of rollouts.

    Raises:
        InvalidArgument: lengths that differ, probabilities that are negative or do not sum to 1, or rewards the wrong
            way round.

    Example:
        >>> made = mass_change([0.5, 0.3, 0.2], correct=[1, 0, 0], sampled=[1, 1, 0])
        >>> [round(part, 4) for part in (made.sampled_correct, made.sampled_wrong, made.unsampled)]
        [0.1, 0.054, 0.004]

    Source: BroRL, arXiv 2510.01180, of which a summary was read.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    good, seen = np.asarray(correct, dtype=np.bool_), np.asarray(sampled, dtype=np.bool_)
    if p.ndim != 1 or not p.shape == good.shape == seen.shape:
        raise InvalidArgument(
            "probabilities", p.shape, f"one per answer, as correct {good.shape}, sampled {seen.shape}"
        )
    if not bool((p >= 0).all()) or not abs(float(p.sum()) - 1.0) <= 1e-6:
        raise InvalidArgument("probabilities", p.tolist()[:10], "numbers >= 0 that sum to 1")
    if not wrong <= right:
        raise InvalidArgument("wrong", wrong, f"at most right={right}")

    def mass(which: npt.NDArray[np.bool_], power: int) -> float:
        return float((p[which] ** power).sum())

    all_right, all_wrong = mass(good, 1), mass(~good, 1)
    baseline = right * mass(good & seen, 1) + wrong * mass(~good & seen, 1)
    unsampled = all_right * mass(~good & ~seen, 2) - all_wrong * mass(good & ~seen, 2)
    return MassChange(
        sampled_correct=step * (right - baseline) * all_wrong * mass(good & seen, 2),
        sampled_wrong=step * (baseline - wrong) * all_right * mass(~good & seen, 2),
        unsampled=step * baseline * unsampled,
    )
