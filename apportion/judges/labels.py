"""How often a judge agrees with labelled data: what it did not judge is excluded and counted, never a disagreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.errors import InvalidArgument
from apportion.verdicts import Scored, Verdict

__all__ = ["Agreement", "agreement_with"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """A judge against labels.

    Attributes:
        agreed: verdicts on the label's side of the threshold.
        compared: rollouts that have a verdict.
        excluded: rollouts without one.
    """

    agreed: int
    compared: int
    excluded: int

    @property
    def share(self) -> float | None:
        """Agreed / compared; None when nothing could be compared."""
        return self.agreed / self.compared if self.compared else None


def agreement_with(labels: Sequence[bool], verdicts: Sequence[Verdict], *, at: float = 0.5) -> Agreement:
    """Counts verdicts that fall on the side of their label.

        agreed = #{i: v_i known and (v_i >= at) == label_i}

    Args:
        labels: whether each rollout is good.
        verdicts: of the judge, in the same order.
        at: the value from which a verdict says good.

    Raises:
        InvalidArgument: not one label per verdict.

    Example:
        >>> from apportion.verdicts import Failed
        >>> agreement_with([True, True, False], [Scored(1.0), Failed("timeout"), Scored(0.0)])
        Agreement(agreed=2, compared=2, excluded=1)
    """
    if len(labels) != len(verdicts):
        raise InvalidArgument("labels", len(labels), f"one for each of the {len(verdicts)} verdicts")
    known = [(label, v.value) for label, v in zip(labels, verdicts, strict=True) if isinstance(v, Scored)]
    agreed = sum((value >= at) == bool(label) for label, value in known)
    return Agreement(agreed, len(known), len(verdicts) - len(known))
