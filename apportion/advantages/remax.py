"""ReMax: the baseline is what a greedy rollout of the same prompt earned."""

from __future__ import annotations

import torch
from torch import Tensor

from apportion.signal import Signal

__all__ = ["remax"]


def remax(x: Signal, *, baseline: Signal | Tensor) -> Signal:
    """Reward minus the greedy rollout's reward.

        A_i = x_i - b        b = reward of the greedy rollout of the same prompt

    Args:
        x: rewards, usually one per trajectory.
        baseline: a signal at any level (one value per GROUP is usual), or a tensor of x's size, NaN = missing.

    Returns:
        Advantages at the finer of the two levels; ABSENT where the reward or its baseline is missing. The baseline is
        the ledger term "baseline". No group is needed, so a group of equal rewards is not 0 here.

    Raises:
        InvalidArgument: a tensor of another size, or a baseline that is infinite.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> a = remax(rewards_signal([1.0, 0.0]), baseline=torch.tensor([0.4, 0.4], dtype=torch.float64))
        >>> a.values.tolist(), {name: term.tolist() for name, term in a.ledger().items()}
        ([0.6, -0.4], {'reward': [1.0, 0.0], 'baseline': [-0.4, -0.4]})

    Source: arXiv 2310.10505.
    """
    if isinstance(baseline, Tensor):
        baseline = Signal.of(x.batch, x.level, baseline, name="baseline", known=~torch.isnan(baseline))
    level = min(x.level, baseline.level)
    both = x.spread(level).known & baseline.spread(level).known
    return (x - baseline.named("baseline")).masked(both)
