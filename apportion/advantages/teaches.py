"""Which rollouts or groups carry anything to learn from: what a filter may look at."""

from __future__ import annotations

import torch
from torch import Tensor

from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["teaches"]


def teaches(*streams: Signal, level: Level = Level.TRAJECTORY) -> Tensor:
    """True where any stream is not 0.

        teaches_i = any over streams s and elements t of i:  s_t known and s_t != 0

    Args:
        streams: everything that the loss uses, of one batch, at any levels: finished advantages, weights of a
            cross-entropy or of a divergence. Never the summed reward: parts that differ can have equal sums.
        level: TRAJECTORY for rollouts, GROUP for groups: a group teaches when one of its rollouts does, and a weight of
            the whole group is one of each of its rollouts.

    Returns:
        bool[size(level)]. What is False may be dropped without changing a gradient, except through the denominators
        that count it (`token_weights`).

    Raises:
        InvalidArgument: no streams, or streams of different batches.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> advantages = rewards_signal([0.0, 0.0, 0.3], name="advantages")
        >>> ce_weight = Signal.of(advantages.batch, Level.TRAJECTORY, [0.0, 0.5, 0.0], name="ce_weight")
        >>> teaches(advantages, ce_weight).tolist(), teaches(advantages).tolist()
        ([False, True, True], [False, False, True])
    """
    if not streams or any(stream.batch is not streams[0].batch for stream in streams):
        raise InvalidArgument("streams", len(streams), "at least one signal, all of the same batch object")
    batch = streams[0].batch
    found = torch.zeros(batch.size(level), dtype=torch.float64, device=batch.device)
    for stream in streams:
        moves = (stream.known & (stream.values.detach() != 0)).to(torch.float64)
        at = min(stream.level, level)
        found = found + batch.pool(batch.spread(moves, stream.level, at), at, level, "sum")
    return found > 0
