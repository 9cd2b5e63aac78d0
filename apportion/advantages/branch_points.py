"""Which tokens of a rollout are worth resuming before: priorities per token, and the candidates made of them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from apportion import segments
from apportion.advantages.branch_plan import Candidate
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["candidates", "hindsight_shift", "window_entropy"]


def candidates(priority: Signal, *, where: Tensor | None = None) -> list[Candidate]:
    """A place before every token whose priority is known and that the rollout sampled itself.

    Args:
        priority: at TOKEN level.
        where: bool[N], further places that count, such as `apportion.advantages.cuts.cut_points`.

    Returns:
        In the order of the batch; the offset counts response tokens, observations included. Before its first policy
        token a rollout is not resumed: that is a fresh one.

    Raises:
        InvalidArgument: another level, or `where` of another shape.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], turns=[2], tokens=[2, 2], gaps=torch.tensor([3, 0]), ids=["a"])
        >>> found = candidates(Signal.of(b, Level.TOKEN, [0.9, 0.1, None, 0.5], name="entropy"))
        >>> [(c.parent, c.offset, c.priority) for c in found]
        [('a', 1, 0.1), ('a', 6, 0.5)]
    """
    if priority.level != Level.TOKEN:
        raise InvalidArgument("priority", priority.level.name, "a signal per TOKEN")
    batch = priority.batch
    take = priority.known if where is None else priority.known & where
    if batch.own is not None:
        take = take & batch.own
    owner = batch.owner(Level.TOKEN, Level.TRAJECTORY)
    first = segments.starts(batch.tokens_per_trajectory)[owner]
    at = torch.nonzero(take & (torch.arange(take.numel(), device=take.device) > first)).flatten()
    rows = zip(owner[at].tolist(), batch.offsets[at].tolist(), priority.values[at].tolist(), strict=True)
    return [Candidate(parent=batch.ids[i], offset=offset, priority=value) for i, offset, value in rows]


def hindsight_shift(logps: Signal, hindsight: Signal) -> Signal:
    """How much knowing the outcome moves each token: s_t = |log p(y_t | feedback, ...) - log p(y_t | ...)|.

    Args:
        logps: log p of the sampled token in its own context, TOKEN level.
        hindsight: the same token with the feedback put before it.

    Returns:
        A TOKEN signal; unknown where either is.

    Raises:
        InvalidArgument: other levels, or signals of two batches.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], tokens=[3])
        >>> before = Signal.of(b, Level.TOKEN, [-0.1, -0.5, -0.3], name="before")
        >>> after = Signal.of(b, Level.TOKEN, [-0.1, -2.0, -0.2], name="after")
        >>> [round(s, 4) for s in hindsight_shift(before, after).values.tolist()]
        [0.0, 1.5, 0.1]

    Source: arXiv 2609.36864 (HDL).
    """
    if logps.level != Level.TOKEN or hindsight.level != Level.TOKEN or hindsight.batch is not logps.batch:
        raise InvalidArgument("hindsight", hindsight.level.name, "two TOKEN signals of one batch")
    gap = (hindsight.values - logps.values).abs()
    return Signal.of(logps.batch, Level.TOKEN, gap, name="hindsight shift", known=logps.known & hindsight.known)


def window_entropy(
    entropy: Signal, *, vocabulary: int, every: int = 64, window: int = 20, base: float = 0.2, gain: float = 2.0
) -> Signal:
    """CBPO's priority of a boundary: how much less sure the policy is there than where it began.

        P_b = clip(base + gain * (H_b - H_first), 0, 1)
        H_b = mean entropy of the `window` tokens from boundary b on / ln(vocabulary)

    Args:
        entropy: per TOKEN, nats; of the top tokens alone where the sampler gives no more.
        vocabulary: number of tokens in it, >= 2.
        every: distance of the boundaries, in tokens that the rollout sampled itself; d_min.
        window: W.
        base: alpha.
        gain: gamma.

    Returns:
        A TOKEN signal, known at the boundaries: before own token `every`, 2 * `every`, ... of a rollout. A window that
        the end cuts is shorter; one without a known entropy makes no boundary.

    Raises:
        InvalidArgument: another level, or numbers that are too small.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], tokens=[4])
        >>> h = Signal.of(b, Level.TOKEN, [0.0, 0.2, 0.4, 0.6], name="entropy")
        >>> p = window_entropy(h, vocabulary=3, every=2, window=2)
        >>> p.known.tolist(), round(float(p.values[2]), 4)
        ([False, False, True, False], 0.9282)

    Source: arXiv 2608.24300. That the window begins at the boundary is our reading.
    """
    if entropy.level != Level.TOKEN or vocabulary < 2 or every < 1 or window < 1:
        given = (entropy.level.name, vocabulary, every, window)
        raise InvalidArgument("entropy, vocabulary, every, window", given, "a TOKEN signal, numbers >= 2, 1 and 1")
    batch = entropy.batch
    own = torch.ones_like(entropy.known) if batch.own is None else batch.own
    at = torch.nonzero(own).flatten()
    lengths = batch.pool(own.long(), Level.TOKEN, Level.TRAJECTORY, "sum")
    known, values = entropy.known[at].double(), entropy.values[at]
    owner = segments.owners(lengths)
    begin, end = segments.starts(lengths)[owner], torch.cumsum(lengths, 0)[owner]
    here = torch.arange(at.numel(), device=at.device)
    stop = torch.minimum(here + window, end)

    def inside(x: Tensor) -> Tensor:
        total = torch.cat((x.new_zeros(1), torch.cumsum(x, 0)))
        return total[stop] - total[here]

    count = inside(known)
    mean = inside(values * known) / count.clamp_min(1.0) / math.log(vocabulary)
    index = here - begin
    valid = (count > 0) & (count[begin] > 0) & (index > 0) & (index % every == 0)
    priority = (base + gain * (mean - mean[begin])).clamp(0.0, 1.0)
    spread = torch.zeros_like(entropy.values).index_put((at,), priority)
    return Signal.of(batch, Level.TOKEN, spread, name="priority", known=own.clone().index_put((at,), valid) & own)
