"""Token rewards of a padded tensor, packed; and what becomes of those that stand where the policy wrote nothing."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from apportion.batch import Batch
from apportion.errors import InvalidArgument

__all__ = ["MaskedRewards", "packed_rewards"]

MaskedRewards: TypeAlias = Literal["fold", "drop", "refuse"]


def packed_rewards(rewards: Tensor, batch: Batch, *, masked_rewards: MaskedRewards = "refuse") -> Tensor:
    """One reward per policy token from a padded tensor.

    Args:
        rewards: [B, T]; NaN = missing, and not 0.
        batch: where the policy's tokens are.
        masked_rewards: what happens to rewards on other tokens. "fold" gives them to the policy token before: right
            where an episode ends on an observation. "drop" ignores them: right for a row rejected after sampling, for
            penalties of tool tokens. Nothing in the tensor tells these apart, so "refuse" raises.

    Returns:
        [N]. Rows without policy tokens cannot be scored, whatever stands in them.

    Raises:
        InvalidArgument: an unknown choice, another shape, a masked reward under "refuse", or a folded one before the
            first policy token of its row (rows are listed).

    Example:
        >>> batch = Batch.from_mask(torch.tensor([[1, 1, 0, 1, 0]]), ["q"])
        >>> packed_rewards(torch.tensor([[0.0, 0.5, 0.25, 0.0, 1.0]]), batch, masked_rewards="fold").tolist()
        [0.0, 0.75, 1.0]
    """
    if masked_rewards not in get_args(MaskedRewards):
        raise InvalidArgument("masked_rewards", masked_rewards, f"one of {', '.join(get_args(MaskedRewards))}")
    found = batch.unpad(rewards)
    if masked_rewards == "drop" or int(torch.count_nonzero(rewards)) == int(torch.count_nonzero(found)):
        return found
    width, cells, flat = rewards.shape[1], batch.cells(rewards.shape[1]), rewards.reshape(-1)
    where = torch.nonzero(flat).flatten()
    where = where[(batch.tokens_per_trajectory > 0)[where // width]]
    home = torch.searchsorted(cells, where, right=True) - 1
    outside = (home < 0) | (cells[home] != where)
    where, home = where[outside], home[outside]
    row = where // width
    if masked_rewards == "refuse" and row.numel():
        raise InvalidArgument(
            "rewards",
            torch.unique(row)[:10].tolist(),
            "rewards on policy tokens only; these rows have some elsewhere: say masked_rewards='fold' when they belong "
            "to the action before (an episode that ends on an observation), 'drop' when to none (a rejected row)",
        )
    orphan = (home < 0) | (cells[home] // width != row)
    if bool(orphan.any()):
        rows = torch.unique(row[orphan])[:10].tolist()
        raise InvalidArgument("rewards", rows, "no reward before a row's first policy token: nothing earned it")
    return found.index_add(0, home, flat[where])
