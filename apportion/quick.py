"""Plain lists in, a signal out: the one-line start.

>>> from apportion.advantages import grpo
>>> grpo(rewards_signal([1, 0, 0, 0, None], groups=["q", "q", "q", "q", "q"])).values.tolist()
[1.5, -0.5, -0.5, -0.5, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["rewards_signal"]


def rewards_signal(
    rewards: Sequence[float | None],
    *,
    groups: Sequence[object] | None = None,
    tokens: Sequence[int] | None = None,
    name: str = "reward",
) -> Signal:
    """One reward per rollout as a trajectory-level signal.

    Args:
        rewards: B numbers; None or NaN = missing.
        groups: B group ids, in any order; default: all rollouts answer one prompt.
        tokens: B numbers of policy tokens; needed where lengths matter or credit goes to tokens.
        name: the name of the ledger term.

    Raises:
        InvalidArgument: lengths that differ, or an infinite reward.

    Example:
        >>> x = rewards_signal([1.0, None], tokens=[2, 3])
        >>> x.values.tolist(), x.known.tolist(), x.spread(Level.TOKEN).values.tolist()
        ([1.0, 0.0], [True, False], [1.0, 1.0, 0.0, 0.0, 0.0])
    """
    lengths = {"rewards": len(rewards)}
    lengths |= {k: len(v) for k, v in (("groups", groups), ("tokens", tokens)) if v is not None}
    if len(set(lengths.values())) > 1:
        raise InvalidArgument("rewards", lengths, "equal lengths, one entry per rollout")
    batch = Batch.of(groups=["0"] * len(rewards) if groups is None else groups, tokens=tokens)
    values = [None if r is None or math.isnan(r) else float(r) for r in rewards]
    return Signal.of(batch, Level.TRAJECTORY, values, name=name)
