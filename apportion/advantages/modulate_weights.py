"""Weights for `modulate`: scores that observers gave become factors around 1.

    exp_clip          e^{clip(z, -c, c)}                  z standardised inside each rollout
    tanh_gate         1 + tanh(score)                     in (0, 2)
    bounded_signed    1 + eta * clip(score / |A|, -1/phi, 1/phi)
    inverse_root      1 / sqrt(count)
    where_true        1 where a flag is set, else `otherwise`
    hindsight_ratio   1 - e^{log pi - log h}              may be negative

A missing score stays missing, and `modulate` reads it as the factor 1.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.segments import PoolHow
from apportion.signal import Signal
from apportion.verdicts import LARGEST

__all__ = [
    "LARGEST_EXPONENT",
    "bounded_signed",
    "centred_in_rollout",
    "exp_clip",
    "hindsight_ratio",
    "in_loss",
    "inverse_root",
    "tanh_gate",
    "tokens_that_count",
    "where_true",
    "within_rollout",
]

# e to the power of this is LARGEST: no weight overflows.
LARGEST_EXPONENT = math.log(LARGEST)


def exp_clip(z: Signal, *, limit: float = 0.25) -> Signal:
    """An exponential that cannot run away.

        w = e^{clip(z, -limit, limit)}

    Args:
        z: scores at any level, usually standardised by `within_rollout`.
        limit: c >= 0.

    Raises:
        InvalidArgument: a limit that is negative or so large that the weight overflows.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> [round(w, 4) for w in exp_clip(rewards_signal([-9.0, 0.0, 0.1])).values.tolist()]
        [0.7788, 1.0, 1.1052]

    Source: arXiv 2608.24588 (IAPO), whose limit is the default.
    """
    if not 0 <= limit <= LARGEST_EXPONENT:
        raise InvalidArgument("limit", limit, f"a number in [0, {LARGEST_EXPONENT:.0f}]")
    return _weight(z, torch.exp(z.values.clamp(-limit, limit)))


def within_rollout(x: Signal, *, eps: float = 1e-6) -> Signal:
    """Features standardised inside each rollout, over its tokens that take part in the loss.

        z_t = (x_t - mean) / (std + eps)        population std

    Args:
        x: features at TURN or TOKEN level; a turn counts as often as it has such tokens (once in text-only rollouts).
        eps: units of x.

    Returns:
        A signal at x's level. Exactly 0 in a rollout whose features are all equal, or that has a single one.

    Raises:
        InvalidArgument: a negative eps.

    Example:
        >>> b = Batch.of(groups=["q"], turns=[2], tokens=[3, 1])
        >>> z = within_rollout(Signal.of(b, Level.TURN, [1.0, 3.0], name="phi"), eps=0.0)
        >>> [round(v, 4) for v in z.values.tolist()]
        [-0.5774, 1.7321]
    """
    if not eps >= 0:
        raise InvalidArgument("eps", eps, "a number >= 0")
    far, weight = centred_in_rollout(x), _counted(x)
    variance = _whole(x, weight * far.values**2, "sum") / _whole(x, weight, "sum").clamp_min(1.0)
    live = variance > 0
    factor = torch.where(live, 1.0 / (torch.sqrt(torch.where(live, variance, 1.0)) + eps), 0.0)
    return far.scaled(factor, x.level)


def centred_in_rollout(x: Signal) -> Signal:
    """Features minus their mean over the tokens of the rollout that take part in the loss.

    Args:
        x: features at TURN or TOKEN level.

    Returns:
        A signal at x's level; exactly 0 in a rollout whose features are all equal.

    Example:
        >>> b = Batch.of(groups=["q"], turns=[2], tokens=[3, 1])
        >>> centred_in_rollout(Signal.of(b, Level.TURN, [1.0, 3.0], name="phi")).values.tolist()
        [-0.5, 1.5]
    """
    weight = _counted(x)
    low = _whole(x, torch.where(x.known, x.values, torch.inf), "min")
    high = _whole(x, torch.where(x.known, x.values, -torch.inf), "max")
    equal = high - low <= x.resolution * torch.maximum(low.abs(), high.abs()).clamp_min(1.0)
    mass = _whole(x, weight, "sum").clamp_min(1.0)
    return x.linear(lambda v: torch.where(equal, 0.0, v - _whole(x, weight * v, "sum") / mass)).neutral()


def tanh_gate(score: Signal) -> Signal:
    """A gate around 1, in [0, 2].

        w = 1 + tanh(score)

    Example:
        >>> from apportion.quick import rewards_signal
        >>> [round(w, 4) for w in tanh_gate(rewards_signal([1.0, 0.0, -1.0])).values.tolist()]
        [1.7616, 1.0, 0.2384]

    Source: arXiv 2606.17043 (HABC).
    """
    return _weight(score, 1.0 + torch.tanh(score.values))


def bounded_signed(score: Signal, advantage: Signal, *, strength: float = 0.2, bound: float = 2.0) -> Signal:
    """Strengthens or weakens credit by a score, by at most a share of the credit itself.

        w = 1 + strength * clip(score / |A|, -1/bound, 1/bound)
        A w = A + strength * sign(A) * clip(score, -|A|/bound, |A|/bound)

    Args:
        score: at any level; positive strengthens the credit whatever its sign.
        advantage: A, the credit to be weighted, at the score's level or a coarser one.
        strength: eta, 0 <= eta < bound.
        bound: phi > 0; the weight stays in [1 - eta/phi, 1 + eta/phi].

    Returns:
        Weights at the score's level; 1 where A is 0.

    Raises:
        InvalidArgument: a strength outside [0, bound), or an advantage at a finer level.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> a = rewards_signal([1.0, -2.0, 0.0], name="outcome")
        >>> score = Signal.of(a.batch, a.level, [-9.0, 0.5, 1.0], name="score")
        >>> (bounded_signed(score, a).values * a.values).tolist()
        [0.9, -2.1, 0.0]

    Source: arXiv 2608.24300 (CBPO).
    """
    if not 0 <= strength < bound:
        raise InvalidArgument("strength", strength, f"a number >= 0 and below bound={bound:g}")
    if advantage.level < score.level:
        raise InvalidArgument("advantage", advantage.level.name, f"a signal at level {score.level.name} or coarser")
    size = advantage.spread(score.level).values.abs()
    part = (score.values / torch.where(size > 0, size, 1.0)).clamp(-1.0 / bound, 1.0 / bound)
    return _weight(score, torch.where(size > 0, 1.0 + strength * part, 1.0))


def inverse_root(count: Signal) -> Signal:
    """An element that many rollouts share weighs less in each.

        w = 1 / sqrt(count)

    Raises:
        InvalidArgument: a known count below 1.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> inverse_root(rewards_signal([1.0, 4.0])).values.tolist()
        [1.0, 0.5]

    Source: arXiv 2506.11902 (TreeRL).
    """
    bad = torch.nonzero(count.known & ~(count.values >= 1)).flatten()[:10]
    if bad.numel():
        raise InvalidArgument("count", count.values[bad].tolist(), f"at least 1; elements {bad.tolist()} are not")
    return _weight(count, torch.rsqrt(torch.where(count.known, count.values, 1.0)))


def where_true(flag: Signal, *, then: float = 1.0, otherwise: float = 0.0) -> Signal:
    """One weight where a flag is set (at least 0.5), another one where it is not.

    Args:
        flag: 0 or 1, or a probability.
        then: >= 0.
        otherwise: >= 0.

    Raises:
        InvalidArgument: a weight that is negative or not finite.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> where_true(rewards_signal([1.0, 0.0, None]), then=2.0, otherwise=1.0).values.tolist()
        [2.0, 1.0, 0.0]
    """
    for name, value in (("then", then), ("otherwise", otherwise)):
        if not 0 <= value < math.inf:
            raise InvalidArgument(name, value, "a finite number >= 0")
    return _weight(flag, torch.where(flag.values >= 0.5, then, otherwise).to(flag.values.dtype))


def hindsight_ratio(policy: Signal, hindsight: Signal, *, limit: float = 5.0) -> Signal:
    """How much the outcome, once known, makes an action more likely.

        w = 1 - min(e^{policy - hindsight}, limit)

    Args:
        policy: log pi(a | s), at TOKEN or TURN level.
        hindsight: log h(a | s, outcome), at the same level.
        limit: the largest ratio pi / h, > 0; the weight is at least 1 - limit.

    Returns:
        Weights below 1; negative where the outcome speaks against the action. Missing where either is.

    Raises:
        InvalidArgument: signals of different levels or batches, or a limit that is not a positive number.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> before = rewards_signal([math.log(0.25), math.log(0.5)], name="policy")
        >>> after = Signal.of(before.batch, before.level, [math.log(0.5), math.log(0.1)], name="hindsight")
        >>> [round(w, 4) for w in hindsight_ratio(before, after).values.tolist()]
        [0.5, -4.0]

    Source: hindsight credit assignment, return form (arXiv 1912.02503).
    """
    if policy.level != hindsight.level or policy.batch is not hindsight.batch:
        raise InvalidArgument("hindsight", hindsight.level.name, f"a signal of the same batch at {policy.level.name}")
    if not 0 < limit < math.inf:
        raise InvalidArgument("limit", limit, "a positive number")
    both = policy.masked(hindsight.known)
    gap = torch.where(both.known, policy.values - hindsight.values, 0.0)
    return _weight(both.neutral(), 1.0 - torch.exp(gap.clamp_max(math.log(limit))))


def in_loss(x: Signal) -> Signal:
    """A signal at the finest level, only where the current policy sampled; missing elements ABSENT.

    Example:
        >>> b = Batch.of(groups=["q"], tokens=[2], own=torch.tensor([False, True]))
        >>> in_loss(Signal.of(b, Level.TURN, [3.0], name="x")).values.tolist()
        [0.0, 3.0]
    """
    fine = x.neutral().spread(min(x.level, x.batch.finest))
    own = fine.batch.own
    return fine if own is None or fine.level != Level.TOKEN else fine.masked(own)


def tokens_that_count(batch: Batch, level: Level) -> Tensor:
    """float64[size(level)]: tokens in the loss of every element; 1 each in text-only rollouts.

    Example:
        >>> tokens_that_count(Batch.of(groups=["q"], turns=[2], tokens=[3, 0]), Level.TURN).tolist()
        [3.0, 0.0]
    """
    if not batch.has_tokens:
        return batch.group.new_ones(batch.size(level), dtype=torch.float64)
    if batch.own is not None:
        return batch.pool(batch.own.to(torch.float64), Level.TOKEN, level, "sum")
    if level == Level.TOKEN:
        return batch.group.new_ones(batch.n_tokens, dtype=torch.float64)
    return batch.lengths(Level.TOKEN, level).to(torch.float64)


def _whole(x: Signal, values: Tensor, how: PoolHow) -> Tensor:
    """Of every element's rollout."""
    b, level = x.batch, x.level
    return b.spread(b.pool(values, level, Level.TRAJECTORY, how), Level.TRAJECTORY, level)


def _counted(x: Signal) -> Tensor:
    return torch.where(x.known, tokens_that_count(x.batch, x.level), 0.0)


def _weight(score: Signal, values: Tensor) -> Signal:
    return replace(score, values=torch.where(score.known, values, 0.0)).named("weight")
