"""One number out of per-token losses, and whether there was anything to learn from at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt
import torch
from torch import Tensor

from apportion.advantages.aggregation import Aggregation, token_weights
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.segments import checked_numbers

__all__ = ["Loss", "aggregate_loss"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Loss:
    """What `aggregate_loss` gives.

    Attributes:
        value: float64[] the loss, differentiable in the per-token losses; exactly 0 without a token.
        tokens: how many tokens took part.
        trajectories: how many trajectories had one that did.
    """

    value: Tensor
    tokens: int
    trajectories: int

    @property
    def no_signal(self) -> bool:
        """True when nothing took part: the 0 is no loss that was reached, and the step should be skipped."""
        return self.tokens == 0


def aggregate_loss(
    losses: Tensor | npt.ArrayLike,
    batch: Batch,
    aggregation: Aggregation,
    *,
    in_loss: Tensor | npt.ArrayLike | None = None,
    constant: float | None = None,
) -> Loss:
    """The loss of a batch under a named aggregation.

        value = sum_t w_t * loss_t        w = token_weights(batch, aggregation)

    Args:
        losses: float[N], one per policy token, or float[B, T] padded: a tensor, an array or lists; lower is better.
        batch: the structure; for padded tensors `Batch.from_mask(mask, groups)`.
        aggregation: see `token_weights`.
        in_loss: bool[N]; default all. What is left out is in no denominator.
        constant: see `token_weights`.

    Returns:
        The loss with its counts. What lies outside the mask or `in_loss` is never looked at, so a NaN there does no
        harm. In its *gradient* a NaN outside still would: take log-probabilities through `batch.unpad` before exp.

    Raises:
        InvalidArgument: losses or in_loss of another shape, or a loss in the sum that is not finite (positions listed).

    Example:
        >>> batch = Batch.of(groups=["q", "q"], tokens=[4, 6], status=["terminated", "truncated"])
        >>> finished = batch.spread(batch.status == 0, Level.TRAJECTORY, Level.TOKEN)
        >>> loss = aggregate_loss(torch.ones(10), batch, "token-mean", in_loss=finished)
        >>> float(loss.value), loss.tokens, loss.no_signal
        (1.0, 4, False)
        >>> nothing = aggregate_loss(torch.ones(10), batch, "token-mean", in_loss=finished & ~finished)
        >>> float(nothing.value), nothing.no_signal
        (0.0, True)
    """
    losses = checked_numbers("losses", losses).to(batch.device)
    flat = batch.unpad(losses) if losses.ndim == 2 else losses
    size = batch.size(Level.TOKEN)
    if flat.shape != (size,):
        raise InvalidArgument("losses", tuple(losses.shape), f"shape ({size},), or padded [{len(batch)}, T]")
    taken = torch.ones(size, dtype=torch.bool, device=batch.device)
    if in_loss is not None:
        taken = checked_numbers("in_loss", in_loss).to(batch.device, torch.bool)
    if taken.shape != (size,):
        raise InvalidArgument("in_loss", tuple(taken.shape), f"shape ({size},), one per policy token")
    bad = torch.nonzero(taken & ~torch.isfinite(flat.detach())).flatten()
    if bad.numel():
        where = bad[:10]
        rows, columns = batch.owner(Level.TOKEN, Level.TRAJECTORY)[where].tolist(), batch.offsets[where].tolist()
        listed = ", ".join(f"token {t} of {batch.ids[row]!r}" for row, t in zip(rows, columns, strict=True))
        raise InvalidArgument("losses", flat[where].tolist(), f"finite losses wherever the mask is 1: {listed}")
    weight = token_weights(batch, aggregation, in_loss=taken, constant=constant)
    value = (weight * torch.where(taken, flat, 0.0).to(torch.float64)).sum()
    rows_taken = batch.pool(taken.to(torch.float64), Level.TOKEN, Level.TRAJECTORY, "sum") > 0
    return Loss(value=value, tokens=int(taken.sum()), trajectories=int(rows_taken.sum()))
