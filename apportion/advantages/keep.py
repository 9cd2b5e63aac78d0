"""Which groups to keep, and why the others go: by the finished advantages, or by the variance of a metric.

    keep_teaching(advantages)   a group stays when anything in it moves the loss, whatever its rewards look like
    keep_varying(metric)        a group stays when one chosen reward differs inside it (dynamic sampling)

The second drops groups of equal outcomes that a turn-level signal still tells apart; the first keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from apportion.advantages.group_stat import group_statistics
from apportion.advantages.teaches import teaches
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["KEEP_REASONS", "Kept", "keep_teaching", "keep_varying"]

KEEP_REASONS = ("kept", "missing", "no_credit", "constant", "below", "above")
_KEPT, _MISSING, _NO_CREDIT, _CONSTANT, _BELOW, _ABOVE = range(len(KEEP_REASONS))


@dataclass(frozen=True, eq=False, kw_only=True)
class Kept:
    """What a filter decided about every group.

    Attributes:
        reason: int64[g] index into `KEEP_REASONS`: "kept"; "missing", nothing known; "no_credit", every advantage is 0;
            "constant", "below" or "above", what the metric is.
    """

    reason: Tensor

    @property
    def groups(self) -> Tensor:
        """bool[g]: True where the group stays; `kept.groups[batch.group]` says it for the rollouts."""
        return self.reason == _KEPT

    def counts(self) -> dict[str, int]:
        """Groups by reason, all reasons listed: what to log, and how many have to be sampled again."""
        found = torch.bincount(self.reason, minlength=len(KEEP_REASONS)).tolist()
        return dict(zip(KEEP_REASONS, found, strict=True))


def keep_teaching(*streams: Signal) -> Kept:
    """Keep the groups in which any stream of the loss is not 0.

        keep_g = any over streams s and elements t of g:  s_t known and s_t != 0

    Args:
        streams: everything that the loss uses, at any levels: `credit.advantages`, weights of a cross-entropy or of a
            divergence; see `teaches`.

    Returns:
        A decision per group. What goes may go without changing a gradient, but for the denominators that count it.

    Raises:
        InvalidArgument: no streams, or streams of different batches.

    Example:
        >>> from apportion.batch import Batch
        >>> batch = Batch.of(groups=["a", "a", "b", "b", "c"])
        >>> advantages = Signal.of(batch, Level.TURN, [0.1, -0.1, 0.0, 0.0, None], name="advantages")
        >>> keep_teaching(advantages).groups.tolist()
        [True, False, False]
        >>> {reason: n for reason, n in keep_teaching(advantages).counts().items() if n}
        {'kept': 1, 'missing': 1, 'no_credit': 1}
    """
    keep = teaches(*streams, level=Level.GROUP)
    known = torch.zeros_like(keep)
    for stream in streams:
        known |= stream.batch.pool(stream.known.to(torch.float64), stream.level, Level.GROUP, "sum") > 0
    return Kept(reason=torch.where(keep, _KEPT, torch.where(known, _NO_CREDIT, _MISSING)))


def keep_varying(
    metric: Signal,
    *,
    low: float = -float("inf"),
    high: float = float("inf"),
    singleton: Literal["keep", "drop"] = "keep",
    constant_tol: float | None = None,
) -> Kept:
    """Keep the groups in which the known values of one metric differ: dynamic sampling as DAPO has it.

        keep_g = (max_g - min_g > tolerance  or  one known value)  and  low <= mean_g <= high

    Args:
        metric: one value per trajectory. Name the one that is meant: accuracy and a shaped reward keep different groups
            (two solutions of different length have equal accuracy and differ in an overlong penalty).
        low: accuracy below which a group goes; 0.2 to 0.8 is a common choice.
        high: accuracy above which it goes.
        singleton: whether a group with one known value stays.
        constant_tol: relative distance below which values are equal; default the metric's resolution.

    Returns:
        A decision per group; a group without a known value goes as "missing". Groups that a turn-level signal tells
        apart go too: use `keep_teaching` where there is one.

    Raises:
        InvalidArgument: a metric that is not per trajectory, bounds the wrong way round, or an unknown choice.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> accuracy = rewards_signal([1, 1, 1, 0, 1, 1, 1, 1, 1, 0], groups=list("aabbbbbbbb"))
        >>> keep_varying(accuracy).groups.tolist(), keep_varying(accuracy, low=0.2, high=0.7).groups.tolist()
        ([False, True], [False, False])

    Source: arXiv 2503.14476 and its released code, which keeps single rollouts; the bounds are common practice.
    """
    if metric.level != Level.TRAJECTORY:
        raise InvalidArgument("metric", metric.level.name, "one value per trajectory (level TRAJECTORY)")
    if not low <= high:
        raise InvalidArgument("low", low, f"at most high={high}")
    if singleton not in ("keep", "drop"):
        raise InvalidArgument("singleton", singleton, "keep or drop")
    stats = group_statistics(metric, constant_tol=constant_tol)
    constant = stats.constant & ((stats.count > 1) if singleton == "keep" else torch.ones_like(stats.constant))
    reason = torch.where(stats.mean > high, _ABOVE, torch.where(stats.mean < low, _BELOW, _KEPT))
    return Kept(reason=torch.where(stats.count == 0, _MISSING, torch.where(constant, _CONSTANT, reason)))
