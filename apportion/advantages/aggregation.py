"""How a trainer turns per-token losses into one number: part of a method, not a detail.

    loss = sum_t  w_t * loss_t          over the policy tokens that take part in the loss

Lengths (1, 3), advantages (1, -1), loss_t = -A_t: seq-mean-token-mean 0, token-mean +0.5, constant 4 over 2 rows
+0.25. A recipe declares the aggregation it assumes; `reweight` carries its credit to a trainer that uses another.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["Aggregation", "reweight", "token_weights"]

Aggregation: TypeAlias = Literal[
    "seq-mean-token-mean", "token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-sum-norm"
]


def token_weights(
    batch: Batch, aggregation: Aggregation, *, in_loss: Tensor | None = None, constant: float | None = None
) -> Tensor:
    """float64[N]: the weight of every policy token's loss.

        seq-mean-token-mean       1 / (B' n_i)    mean over tokens, then over trajectories        (GRPO)
        token-mean                1 / N'          mean over all tokens                            (DAPO)
        token-sum                 1               the credit carries its own denominators         (RLVP)
        seq-mean-token-sum        1 / B'          sum over tokens, mean over trajectories
        seq-mean-token-sum-norm   1 / (B' c)      the same divided by a constant length c         (Dr.GRPO)

    B', n_i and N' count only what takes part in the loss, so a trajectory that left it changes no denominator.

    Args:
        batch: N policy tokens.
        aggregation: one of the names above (veRL's `loss_agg_mode` vocabulary).
        in_loss: bool[N]; default all. Tokens outside get weight 0.
        constant: c, in tokens; needed by seq-mean-token-sum-norm only.

    Raises:
        InvalidArgument: an unknown name, or a missing or needless constant.

    Example:
        >>> b = Batch.of(groups=["q", "q"], tokens=[1, 3])
        >>> token_weights(b, "seq-mean-token-mean").tolist() == [0.5, 1 / 6, 1 / 6, 1 / 6]
        True
    """
    if aggregation not in get_args(Aggregation):
        raise InvalidArgument("aggregation", aggregation, f"one of {', '.join(get_args(Aggregation))}")
    if (aggregation == "seq-mean-token-sum-norm") != (constant is not None):
        raise InvalidArgument("constant", constant, "a number of tokens for seq-mean-token-sum-norm, and only for it")
    if constant is not None and not constant > 0:
        raise InvalidArgument("constant", constant, "a positive number of tokens")
    counts = torch.ones(batch.n_tokens, dtype=torch.float64, device=batch.device)
    if in_loss is not None:
        counts = in_loss.to(torch.float64)
    per_trajectory = batch.pool(counts, Level.TOKEN, Level.TRAJECTORY, "sum")
    rows = (per_trajectory > 0).sum().to(torch.float64).clamp_min(1)
    if aggregation == "token-sum":
        return counts
    if aggregation == "token-mean":
        return counts / counts.sum().clamp_min(1)
    if aggregation == "seq-mean-token-mean":
        return counts / (rows * batch.spread(per_trajectory, Level.TRAJECTORY, Level.TOKEN).clamp_min(1))
    return counts / (rows * (constant or 1.0))


def reweight(
    advantages: Signal,
    *,
    assumed: Aggregation,
    trainer: Aggregation,
    assumed_constant: float | None = None,
    trainer_constant: float | None = None,
) -> Signal:
    """Advantages that give under the trainer's aggregation the gradient they give under the assumed one.

        A'_t = A_t * w_assumed(t) / w_trainer(t)

    The method's denominators count the tokens where the advantages are known; the trainer's count every policy token of
    the batch, since it does not know which ones left the loss.

    Example:
        >>> b = Batch.of(groups=["q", "q"], tokens=[1, 3])
        >>> a = Signal.of(b, Level.TRAJECTORY, [1.0, -1.0], name="outcome").spread(Level.TOKEN)
        >>> moved = reweight(a, assumed="seq-mean-token-mean", trainer="token-mean")
        >>> [round(v, 4) for v in moved.values.tolist()]
        [2.0, -0.6667, -0.6667, -0.6667]
    """
    tokens = advantages.spread(Level.TOKEN)
    have = token_weights(tokens.batch, assumed, in_loss=tokens.known, constant=assumed_constant)
    want = token_weights(tokens.batch, trainer, constant=trainer_constant)
    factor = torch.where(want > 0, have / torch.where(want > 0, want, 1.0), 0.0)
    return tokens.scaled(factor, Level.TOKEN)
