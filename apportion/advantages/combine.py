"""Several rewards, one advantage: the order of adding and normalising, denominators per channel, gates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from apportion.advantages.dialect import Dialect
from apportion.advantages.grpo import grpo
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["Counted", "gate", "normalize_then_sum", "per_channel", "sum_then_normalize"]

Counted: TypeAlias = Literal["known", "nonzero"]


def sum_then_normalize(
    parts: Sequence[Signal],
    *,
    weights: Sequence[float] | None = None,
    dialect: str | Dialect = "apportion",
    constant_tol: float | None = None,
) -> Signal:
    """Weighted sum of the raw rewards, then GRPO of the sum.

        A_i = grpo( sum_n w_n r_{i,n} )

    Args:
        parts: one signal per reward, of one batch. An ABSENT part adds nothing, a FAILED one makes the sum unknown.
        weights: one per part; default 1 each. A part of weight 0 is left out, whatever is missing in it.
        dialect: whose GRPO.
        constant_tol: see `group_stat`.

    Returns:
        Advantages at the parts' finest level. Different combinations of rewards with equal sums are the same here;
        `normalize_then_sum` keeps them apart.

    Raises:
        InvalidArgument: no parts, or another number of weights.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> a = rewards_signal([0.0, 1.0], name="correct")
        >>> b = Signal.of(a.batch, Level.TRAJECTORY, [0.0, 1.0], name="format")
        >>> [round(v, 4) for v in sum_then_normalize([a, b]).values.tolist()]
        [-0.7071, 0.7071]
    """
    return grpo(_weighted(parts, weights), dialect=dialect, constant_tol=constant_tol)


def normalize_then_sum(
    parts: Sequence[Signal],
    *,
    weights: Sequence[float] | None = None,
    dialect: str | Dialect = "apportion",
    constant_tol: float | None = None,
) -> Signal:
    """GRPO of every reward on its own, then their weighted sum.

        A_i = sum_n w_n grpo(r_n)_i

    Args:
        parts: one signal per reward, of one batch.
        weights: one per part; default 1 each.
        dialect: whose GRPO.
        constant_tol: see `group_stat`.

    Returns:
        Advantages at the parts' finest level. A missing reward leaves its group's statistics and adds 0.

    Raises:
        InvalidArgument: no parts, or another number of weights.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> a = rewards_signal([1.0, 0.0, 1.0, None], name="a")
        >>> b = Signal.of(a.batch, Level.TRAJECTORY, [0.2, 0.4, 0.1, 0.3], name="b")
        >>> [round(v, 4) for v in normalize_then_sum([a, b]).values.tolist()]
        [0.1901, 0.0072, -0.5845, 0.3873]
    """
    return _weighted([grpo(part, dialect=dialect, constant_tol=constant_tol) for part in parts], weights)


def per_channel(channels: Sequence[Signal], *, counted: Sequence[Counted]) -> Signal:
    """Each channel divided by its own number of tokens; the loss then sums over tokens.

        A_t = sum_c A^c_t / N_c        known    N_c = tokens on which channel c is known
                                       nonzero  N_c = tokens on which channel c is not 0, rounding aside

    Args:
        channels: signals of one batch, any levels; spread to the finest level (turns for text-only rollouts).
        counted: for every channel, what its denominator counts.

    Returns:
        Credit at the finest level, for the aggregation "token-sum". A channel without a counted token adds nothing.
        Tokens that the current policy did not sample take no part, in no denominator either.

    Raises:
        InvalidArgument: no channels, or another number of `counted`.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q", "q"], turns=[2, 1], tokens=[1, 1, 2])
        >>> outcome = Signal.of(b, Level.TRAJECTORY, [0.5, -0.5], name="outcome")
        >>> path = Signal.of(b, Level.TURN, [0.0, -0.25, 0.0], name="path")
        >>> per_channel([outcome, path], counted=["known", "nonzero"]).values.tolist()
        [0.125, -0.125, -0.125, -0.125]

    Source: arXiv 2607.07435 (RLVP): "separately normalised" means these denominators, not z-scores.
    """
    if not channels or len(counted) != len(channels) or any(c not in ("known", "nonzero") for c in counted):
        raise InvalidArgument("counted", list(counted), f"known or nonzero for each of the {len(channels)} channels")
    parts = []
    for channel, how in zip(channels, counted, strict=True):
        fine = channel.neutral().spread(min(channel.level, channel.batch.finest))
        if fine.batch.own is not None and fine.level == Level.TOKEN:
            fine = fine.masked(fine.batch.own)
        number = int((fine.known if how == "known" else _moves(fine)).sum())
        parts.append(fine * (1.0 / max(number, 1)))
    return _weighted(parts, None)


def _moves(x: Signal) -> Tensor:
    # A turn at the mean of its group is left with 0 or with 1e-17, by the order of the sum: neither may count.
    size = x.values.detach().abs()
    return size > x.resolution * size.max() if size.numel() else size > 0


def gate(x: Signal, *, when: Signal, at_least: float = 1.0, missing: Literal["open", "closed"] = "open") -> Signal:
    """Values where a condition holds, exactly 0 where it does not.

        A = x * 1[when >= at_least]

    Args:
        x: values at any level.
        when: the condition, at x's level or a coarser one.
        at_least: the value from which the gate is open.
        missing: what an unknown condition does; "open" = neutral.

    Returns:
        A signal at x's level; what the gate took away is the ledger term "gate". What is closed is a known 0.

    Raises:
        InvalidArgument: a condition at a finer level than x, or an unknown choice.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> format_ok = rewards_signal([1.0, 0.0], name="format")
        >>> accuracy = Signal.of(format_ok.batch, Level.TRAJECTORY, [1.0, 1.0], name="accuracy")
        >>> gated = gate(accuracy, when=format_ok)
        >>> gated.values.tolist(), gated.ledger()["gate"].tolist()
        ([1.0, 0.0], [0.0, -1.0])
    """
    if when.level < x.level:
        raise InvalidArgument("when", when.level.name, f"a condition at level {x.level.name} or coarser; pool it")
    if missing not in ("open", "closed"):
        raise InvalidArgument("missing", missing, "open or closed")
    fine = when.spread(x.level)
    is_open = torch.where(fine.known, fine.values >= at_least, missing == "open")
    return x.changed(torch.where(is_open, x.values, 0.0), because="gate")


def _weighted(parts: Sequence[Signal], weights: Sequence[float] | None) -> Signal:
    if not parts:
        raise InvalidArgument("parts", list(parts), "at least one signal")
    if weights is not None and (len(weights) != len(parts) or not all(map(math.isfinite, weights)) or not any(weights)):
        raise InvalidArgument("weights", list(weights), f"{len(parts)} finite numbers, not all 0")
    used = [(part, w) for part, w in zip(parts, weights or [1.0] * len(parts), strict=True) if w]
    total = used[0][0] * used[0][1]
    for part, weight in used[1:]:
        total = total + part * weight
    return total
