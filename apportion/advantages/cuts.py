"""Cut points inside a rollout: values that are known at a few tokens become values before and after every stretch."""

from __future__ import annotations

import torch

from apportion import segments
from apportion.advantages.states import StateValues
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Presence

__all__ = ["cut_points", "cut_values"]


def cut_points(logps: Signal, *, below: float = 0.9, every: int = 5) -> torch.Tensor:
    """Where to cut: before every `every`-th token of which the policy was not sure.

    Args:
        logps: log p(y_t) under the policy that sampled, TOKEN level; a token without one is no candidate.
        below: a token counts when its probability is less than this.
        every: the first such token of a rollout is a cut, and then each `every`-th one.

    Returns:
        bool[N].

    Raises:
        InvalidArgument: another level, a probability outside (0, 1], or `every` below 1.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], tokens=[5])
        >>> logps = Signal.of(b, Level.TOKEN, [-0.01, -1.0, -1.0, -0.01, -2.0], name="logps")
        >>> cut_points(logps, every=2).tolist()
        [False, True, False, False, True]

    Source: arXiv 2505.23564 (SPO) and its code.
    """
    if logps.level != Level.TOKEN or not 0 < below <= 1 or every < 1:
        given = (logps.level.name, below, every)
        raise InvalidArgument("logps, below, every", given, "a TOKEN signal, a probability in (0, 1], a number >= 1")
    unsure = logps.known & (torch.exp(logps.values) < below)
    lengths = logps.batch.tokens_per_trajectory
    seen = torch.cumsum(unsure.long(), 0)
    before = torch.cat((seen.new_zeros(1), seen))[segments.starts(lengths)]
    number = seen - logps.batch.spread(before, Level.TRAJECTORY, Level.TOKEN)
    return unsure & ((number - 1) % every == 0)


def cut_values(at_cuts: Signal, last: Signal) -> StateValues:
    """What is known at the cuts, before and after every token of the stretch between two of them.

        token      t0    t1   t2   t3   t4         V known at t1 and t3
        before           V1   V1   V3   V3         t0 precedes the first cut: not known
        after      V1    V3   V3   R    R          R = the outcome

    Args:
        at_cuts: V of the state before a token (turn), at TOKEN (TURN) level; known at the cuts alone.
        last: what the end is worth, TRAJECTORY: the outcome.

    Returns:
        Values whose `difference` is the credit of the stretch, on each of its tokens.

    Raises:
        InvalidArgument: signals at other levels, or of two batches.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], tokens=[4])
        >>> values = Signal.of(b, Level.TOKEN, [0.5, None, 0.75, 0.25], name="value")
        >>> cut_values(values, Signal.of(b, Level.TRAJECTORY, [1.0], name="outcome")).difference.values.tolist()
        [0.25, 0.25, -0.5, 0.75]
    """
    batch, level = at_cuts.batch, at_cuts.level
    if level > Level.TRAJECTORY or last.level != Level.TRAJECTORY or last.batch is not batch:
        found = f"{level.name}, {last.level.name}"
        raise InvalidArgument("at_cuts, last", found, "values per TOKEN or TURN, and per TRAJECTORY, of one batch")
    n, lengths, cut = at_cuts.values.numel(), batch.lengths(level, Level.TRAJECTORY), at_cuts.known
    if not n:
        return StateValues(before=at_cuts, after=at_cuts)
    here = torch.arange(n, device=cut.device)
    first = segments.starts(lengths)[segments.owners(lengths)]
    end = torch.cumsum(lengths, 0)[segments.owners(lengths)]
    begun = torch.cummax(torch.where(cut, here, -1), 0).values
    coming = torch.cummin(torch.where(cut, here, n).flip(0), 0).values.flip(0)
    coming = torch.cat((coming[1:], coming.new_full((1,), n)))
    known, absent = int(Presence.KNOWN), int(Presence.ABSENT)
    inside = coming < end
    ahead = coming.clamp_max(n - 1)
    before = at_cuts.linear(lambda v: v[begun.clamp_min(0)], torch.where(begun >= first, known, absent).to(torch.uint8))
    after = at_cuts.linear(lambda v: v[ahead], torch.where(inside, known, absent).to(torch.uint8))
    return StateValues(before=before, after=after + last.spread(level).masked(~inside))
