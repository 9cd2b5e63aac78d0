"""GAE of a trainer's own tensors: packed in a few passes over memory, and padded tensors in and out."""

from __future__ import annotations

import torch
from torch import Tensor

from apportion import scans
from apportion.advantages.masked_rewards import MaskedRewards, packed_rewards
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level

__all__ = ["packed_gae", "padded_gae"]

# Below it the sums of (1/lam - 1) V grow large, and lose digits when V / lam is taken off them again.
_IDENTITY = 0.5


def packed_gae(
    rewards: Tensor,
    values: Tensor,
    lengths: Tensor | scans.Plan,
    *,
    last: Tensor | None = None,
    discount: float = 1.0,
    lam: float | Tensor = 0.95,
) -> Tensor:
    """GAE over segments that lie one after the other, without a loop over time.

        delta_t = r_t + discount * V_{t+1} - V_t
        A_t = delta_t + discount * lam * A_{t+1}      V after the last element: `last`

    Args:
        rewards: [N], one per policy token (or turn) and nothing else: what is not there is not discounted over.
        values: [N], of the state before each.
        lengths: int64[S] elements of every trajectory; their sum is N. Or their plan, such as a batch keeps:
            `batch.plan(Level.TOKEN)`.
        last: [S], value of the state that a trajectory ends in: 0 where it terminated (the default), the critic's where
            it was cut.
        discount: gamma in [0, 1].
        lam: lambda in [0, 1], or float[S] with one per trajectory.

    Returns:
        [N], of the wider type of the two, at least float32; detached. Critic targets are this plus the values. In
        float32 the error stays below 1e-6 of the largest advantage.

    Raises:
        InvalidArgument: sizes that do not fit, discount or lam outside [0, 1], or an advantage that is not finite.

    Example:
        >>> r, v = torch.tensor([0.0, 0.0, 0.0, 1.0]), torch.tensor([0.5, 0.6, 0.7, 0.8])
        >>> packed_gae(r, v, torch.tensor([4]))
        tensor([0.4567, 0.3755, 0.2900, 0.2000])

    Source: arXiv 1506.02438. With S the discounted sums of r + (1/lam - 1) V, A_t = S_t - V_t / lam.
    """
    size = rewards.numel()
    if rewards.ndim != 1 or values.shape != rewards.shape:
        raise InvalidArgument("values", tuple(values.shape), f"as many as rewards, {tuple(rewards.shape)}, flat")
    total = lengths.size if isinstance(lengths, scans.Plan) else int(lengths.sum())
    if total != size:
        raise InvalidArgument("lengths", total, f"lengths whose sum is {size}")
    shape = lengths.lengths.shape if isinstance(lengths, scans.Plan) else lengths.shape
    for name, each in (("last", last), ("lam", lam)):
        if isinstance(each, Tensor) and each.shape != shape:
            raise InvalidArgument(name, tuple(each.shape), f"shape {tuple(shape)}, one per trajectory")
    for name, number in (("discount", torch.as_tensor(discount)), ("lam", torch.as_tensor(lam))):
        if not bool(((number >= 0) & (number <= 1)).all()):
            raise InvalidArgument(name, number.tolist(), "in [0, 1]")
    dtype = torch.promote_types(torch.promote_types(rewards.dtype, values.dtype), torch.float32)
    rewards, values = rewards.detach().to(dtype), values.detach().to(dtype)
    if not size:
        return rewards
    at = lengths if isinstance(lengths, scans.Plan) else scans.plan(lengths, size)
    some = at.lengths > 0
    ends = (torch.cumsum(at.lengths, 0) - 1)[some]
    if last is not None:
        rewards = rewards.index_add(0, ends, last.detach().to(dtype)[some] * discount)
    if not isinstance(lam, Tensor) and lam >= _IDENTITY:
        made, sound = scans.scan(rewards, at, discount * lam, beside=values, before=1 / lam - 1, after=-1 / lam)
    else:
        delta = rewards - values
        at_ends = delta[ends]
        delta[:-1].add_(values[1:], alpha=discount)
        delta[ends] = at_ends
        made, sound = scans.scan(delta, at, discount * lam)
    if not bool(torch.isfinite(sound)):
        _refuse(made)
    return made


def padded_gae(
    rewards: Tensor,
    values: Tensor,
    batch: Batch,
    *,
    last: Tensor | None = None,
    discount: float = 1.0,
    lam: float | Tensor = 0.95,
    masked_rewards: MaskedRewards = "refuse",
) -> tuple[Tensor, Tensor]:
    """GAE of padded tensors: over policy tokens alone, as if the others were not there.

    Args:
        rewards: [B, T].
        values: [B, T], of the state before each token; elsewhere they are not looked at.
        batch: where the policy's tokens are; `Batch.from_mask` makes one, once for every tensor of this shape.
        last: [B], see `packed_gae`.
        discount: gamma; one step per policy token.
        lam: lambda, see `packed_gae`.
        masked_rewards: what happens to rewards on tokens that the policy did not write, see `packed_rewards`; "fold"
            gives them to the policy token before.

    Returns:
        advantages [B, T] and critic targets [B, T], exactly 0 on every token that the policy did not write.

    Raises:
        InvalidArgument: as `packed_gae` and `packed_rewards`.

    Example:
        >>> mask = torch.tensor([[1, 0, 0, 1]])
        >>> r, v = torch.tensor([[0.0, 0.0, 0.0, 1.0]]), torch.tensor([[0.5, 9.0, 9.0, 0.5]])
        >>> padded_gae(r, v, Batch.from_mask(mask, ["q"]))[0]
        tensor([[0.4750, 0.0000, 0.0000, 0.5000]])
    """
    earned, packed = packed_rewards(rewards, batch, masked_rewards=masked_rewards), batch.unpad(values)
    made = packed_gae(earned, packed, batch.plan(Level.TOKEN), last=last, discount=discount, lam=lam)
    width = rewards.shape[1]
    return batch.pad(made, width=width), batch.pad(made + packed, width=width)


def _refuse(made: Tensor) -> None:
    where = torch.nonzero(~torch.isfinite(made)).flatten()[:10].tolist()
    if where:
        raise InvalidArgument("rewards", where, "finite rewards and values; the advantages of these elements are not")
