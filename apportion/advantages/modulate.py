"""Modulation: credit times weights that say where in a rollout it belongs, not how good the rollout was."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from apportion.advantages.modulate_weights import tokens_that_count
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["Conserve", "keep_sign", "modulate"]

Conserve: TypeAlias = Literal["none", "mass"]


def modulate(x: Signal, weight: Signal, *, conserve: Conserve = "none") -> Signal:
    """Every element times its weight.

        A_k = x_k * w_k                                none
        A_k = x_k * w_k * L / sum_j L_j w_j            mass: over the elements of each trajectory

    L_j is the number of tokens of element j that take part in the loss (1 each for text-only rollouts), so with "mass"
    the credit of a rollout moves between its turns and its total over tokens stays: sum_t A_t = L * x.

    Args:
        x: credit at any level.
        weight: w per TURN or TOKEN (or TRAJECTORY), as `apportion.advantages.modulate_weights` makes them. An unknown
            weight is 1, before conservation.
        conserve: "none" or "mass".

    Returns:
        A signal at the finer of the two levels. It is linear in x, so every ledger term is multiplied alike; weights
        that are not negative keep every sign, and `keep_sign` stops others at 0. Where all weights of a trajectory are
        0, or it has no token in the loss, there is nothing to conserve and they are used as they are.

    Raises:
        InvalidArgument: signals of two batches, an unknown choice, or a negative weight with "mass".

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], turns=[2], tokens=[10, 10])
        >>> failed = Signal.of(b, Level.TRAJECTORY, [-1.0], name="outcome")
        >>> twice = Signal.of(b, Level.TURN, [1.0, 2.0], name="weight")
        >>> [round(a, 4) for a in modulate(failed, twice, conserve="mass").values.tolist()]
        [-0.6667, -1.3333]

    Source: the conserving form is IAPO's (arXiv 2608.24588).
    """
    if conserve not in get_args(Conserve):
        raise InvalidArgument("conserve", conserve, f"one of {', '.join(get_args(Conserve))}")
    if weight.batch is not x.batch:
        raise InvalidArgument("weight", weight.batch.ids[:3], "a signal of the same batch object")
    factor = torch.where(weight.known, weight.values, 1.0)
    if conserve == "mass":
        factor = _conserved(weight, factor)
    return x.scaled(factor, weight.level)


def _conserved(weight: Signal, factor: Tensor) -> Tensor:
    bad = torch.nonzero(factor < 0).flatten()[:10]
    if bad.numel():
        expected = f"weights >= 0 to conserve the mass; elements {bad.tolist()} are not"
        raise InvalidArgument("weight", factor[bad].tolist(), expected)
    b, level, whole = weight.batch, weight.level, max(weight.level, Level.TRAJECTORY)
    size = tokens_that_count(b, level)
    mass = b.pool(size * factor, level, whole, "sum")
    share = torch.where(mass > 0, b.pool(size, level, whole, "sum") / torch.where(mass > 0, mass, 1.0), 1.0)
    return factor * b.spread(share, whole, level)


def keep_sign(x: Signal, *, of: Signal) -> Signal:
    """Credit that may weaken another one, and not turn it around.

        A_k = 0 where x_k * of_k < 0, else x_k

    Args:
        x: credit to which something was added.
        of: the credit whose sign must stay, at x's level or a coarser one; where it is 0 or missing x is free.

    Returns:
        A signal at x's level; what the guard took away is the ledger term "sign guard".

    Raises:
        InvalidArgument: signals of two batches, or `of` at a finer level than x.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> base = rewards_signal([0.2, -1.0], name="outcome")
        >>> total = base + Signal.of(base.batch, Level.TRAJECTORY, [-0.5, 0.5], name="roles")
        >>> keep_sign(total, of=base).values.tolist()
        [0.0, -0.5]
    """
    if of.batch is not x.batch or of.level < x.level:
        raise InvalidArgument("of", of.level.name, f"a signal of the same batch object at {x.level.name} or coarser")
    against = x.values * of.spread(x.level).values < 0
    return x.changed(torch.where(against, 0.0, x.values), because="sign guard")
