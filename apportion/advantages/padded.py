"""The drop-in door for any trainer with padded tensors: rewards and a mask in, [B, T] advantages out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy.typing as npt
import torch
from torch import Tensor

from apportion.advantages.masked_rewards import MaskedRewards, packed_rewards
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.segments import checked_door, checked_numbers
from apportion.signal import Signal

__all__ = ["Estimator", "MaskedRewards", "padded_advantages"]

Estimator: TypeAlias = Callable[[Signal], Signal]


def padded_advantages(
    estimator: Estimator,
    rewards: Tensor | npt.ArrayLike,
    mask: Tensor | npt.ArrayLike,
    groups: Sequence[object],
    *,
    masked_rewards: MaskedRewards = "refuse",
    level: Literal["trajectory", "token"] = "trajectory",
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Any estimator of this package on padded tensors.

    Args:
        estimator: a function of one signal, e.g. `grpo` or `lambda x: grpo(x, dialect="verl")`.
        rewards: [B], one per row, or [B, T], one per token: a tensor, an array or lists. None or NaN = missing.
        mask: [B, T], non-zero where the policy wrote the token and it takes part in the loss; as the rewards.
        groups: B group ids, in any order.
        masked_rewards: what happens to token rewards where the mask is 0, see `packed_rewards`.
        level: what the estimator is given: a row's reward per "trajectory", or its rewards per policy "token".
        dtype: of the result; the computation is in float64.

    Returns:
        [B, T], exactly 0 wherever the mask is 0 or the reward is missing. A row without policy tokens cannot be scored:
        its reward counts as missing, so it moves no baseline.

    Raises:
        InvalidArgument: shapes that do not fit, an infinite reward, a per-token level without token rewards, a folded
            reward before the first policy token of its row, a masked reward under "refuse" (rows are listed), or an
            advantage too large for dtype.

    Example:
        >>> from apportion.advantages import grpo
        >>> mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
        >>> padded_advantages(grpo, [1.0, 0.0], mask, ["q", "q"])
        tensor([[ 0.7071,  0.7071,  0.0000],
                [-0.7071,  0.0000,  0.0000]])
    """
    if masked_rewards not in get_args(MaskedRewards):
        raise InvalidArgument("masked_rewards", masked_rewards, f"one of {', '.join(get_args(MaskedRewards))}")
    if level not in ("trajectory", "token"):
        raise InvalidArgument("level", level, "trajectory or token")
    mask = checked_numbers("mask", mask)
    batch = Batch.from_mask(mask, groups)
    rewards = checked_numbers("rewards", rewards).to(mask.device)
    if rewards.shape == mask.shape:
        x = _token_rewards(batch, rewards, masked_rewards)
        if level == "trajectory":
            x = _total(x)
    elif rewards.shape == mask.shape[:1] and level == "trajectory":
        known = ~torch.isnan(rewards) & (batch.tokens_per_trajectory > 0)
        x = Signal.of(batch, Level.TRAJECTORY, rewards, name="reward", known=known)
    else:
        wanted = f"shape {tuple(mask.shape)}" + (f" or {tuple(mask.shape[:1])}" if level == "trajectory" else "")
        raise InvalidArgument("rewards", tuple(rewards.shape), wanted)
    made = estimator(x).spread(Level.TOKEN)
    door = made.values.to(checked_door(dtype))
    if not bool(torch.isfinite(door).all()):
        raise InvalidArgument("dtype", str(dtype), f"one that holds {float(made.values.abs().max()):.3g}")
    return made.batch.pad(door, width=mask.shape[1])


def _token_rewards(batch: Batch, rewards: Tensor, masked_rewards: MaskedRewards) -> Signal:
    values = packed_rewards(rewards.to(torch.float64), batch, masked_rewards=masked_rewards)
    made = Signal.of(batch, Level.TOKEN, values, name="reward", known=~torch.isnan(values))
    coarse = rewards.is_floating_point() and rewards.dtype != torch.float64
    return replace(made, resolution=float(torch.finfo(torch.float32).eps)) if coarse else made


def _total(x: Signal) -> Signal:
    """Sum over a row's tokens; a row with a missing token reward is missing."""
    total = x.pool(Level.TRAJECTORY, "sum")
    gaps = x.batch.pool((~x.known).to(torch.float64), Level.TOKEN, Level.TRAJECTORY, "sum")
    return total.masked(gaps == 0)
