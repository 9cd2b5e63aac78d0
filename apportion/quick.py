"""Plain lists in, a signal out: the one-line start.

>>> from apportion.advantages import grpo
>>> grpo(rewards_signal([1, 0, 0, 0, None], groups=["q", "q", "q", "q", "q"])).values.tolist()
[1.5, -0.5, -0.5, -0.5, 0.0]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt
import torch
from torch import Tensor

from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.segments import checked_numbers
from apportion.signal import Signal

__all__ = ["rewards_signal"]


def rewards_signal(
    rewards: Sequence[float | None] | npt.ArrayLike | Tensor,
    *,
    groups: Sequence[object] | None = None,
    tokens: Sequence[int] | None = None,
    name: str = "reward",
) -> Signal:
    """One reward per rollout as a trajectory-level signal.

    Args:
        rewards: B numbers: a list, an array or a tensor; None or NaN = missing.
        groups: B group ids, in any order; default: all rollouts answer one prompt.
        tokens: B numbers of policy tokens; needed where lengths matter or credit goes to tokens.
        name: the name of the ledger term.

    Returns:
        A signal whose resolution is that of the rewards' float type. A rollout of 0 tokens cannot be scored: its reward
        counts as missing, so it moves no baseline.

    Raises:
        InvalidArgument: lengths that differ, something that is not a number, or an infinite reward.

    Example:
        >>> x = rewards_signal([1.0, None], tokens=[2, 3])
        >>> x.values.tolist(), x.known.tolist(), x.spread(Level.TOKEN).values.tolist()
        ([1.0, 0.0], [True, False], [1.0, 1.0, 0.0, 0.0, 0.0])
    """
    values = checked_numbers("rewards", rewards)
    if values.ndim != 1:
        raise InvalidArgument("rewards", tuple(values.shape), "a flat list, one reward per rollout")
    lengths = {"rewards": len(values)}
    lengths |= {k: len(v) for k, v in (("groups", groups), ("tokens", tokens)) if v is not None}
    if len(set(lengths.values())) > 1:
        raise InvalidArgument("rewards", lengths, "equal lengths, one entry per rollout")
    batch = Batch.of(groups=["0"] * len(values) if groups is None else groups, tokens=tokens).to(values.device)
    known = ~torch.isnan(values)
    if batch.has_tokens:
        known &= batch.tokens_per_trajectory > 0
    return Signal.of(batch, Level.TRAJECTORY, values, name=name, known=known)
