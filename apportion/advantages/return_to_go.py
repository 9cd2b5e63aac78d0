"""Return-to-go: what a turn or token is followed by, summed or reduced in other ways."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from apportion import segments
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Presence

__all__ = ["ReturnForm", "return_to_go"]

ReturnForm: TypeAlias = Literal["sum", "min", "softmin", "last"]


def return_to_go(
    x: Signal,
    *,
    discount: float = 1.0,
    form: ReturnForm = "sum",
    stop: Tensor | None = None,
    temperature: float = 0.1,
) -> Signal:
    """Each turn (token) gets what happens from it to the end of its trajectory.

        sum      y_k = x_k + discount * y_{k+1}
        softmin  the sum form of w_k x_k,    w = softmax(-x / temperature) over the trajectory
        min      y_k = min(x_k, ..., x_K)
        last     y_k = x_K, the last known value

    Args:
        x: values per TURN or per policy TOKEN; one step of discount per element, never per observation token.
        discount: gamma in [0, 1]; must be 1 for min and last.
        form: one of the above. Sums of scores that are never negative pay for length; min, softmin and last do not.
        stop: bool[size(level)]; True cuts the accumulation on both sides of the element: it keeps its own value, and
            nothing passes through it.
        temperature: of softmin; small = min.

    Returns:
        A signal at x's level. An ABSENT element adds nothing but still receives what follows it; a FAILED one makes
        every return that includes it FAILED. Differentiable in x (for softmin through the weights too).

    Raises:
        InvalidArgument: another level, an unknown form, a discount outside [0, 1] or one that the form does not take,
            a temperature <= 0, or a stop of another shape.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], turns=[3], tokens=[1, 1, 1])
        >>> x = Signal.of(b, Level.TURN, [1.0, 0.1, 1.0], name="step")
        >>> return_to_go(x, discount=0.5).values.tolist()
        [1.3, 0.6, 1.0]
        >>> return_to_go(x, discount=0.5, stop=torch.tensor([False, True, False])).values.tolist()
        [1.0, 0.1, 1.0]

    Source: min and softmin arXiv 2504.15275 (PURE), stop as UI-S1 has it.
    """
    if x.level not in (Level.TOKEN, Level.TURN):
        raise InvalidArgument("x", x.level.name, "a signal per TURN or TOKEN; place a trajectory's with on_last_token")
    if form not in get_args(ReturnForm):
        raise InvalidArgument("form", form, f"one of {', '.join(get_args(ReturnForm))}")
    if not 0 <= discount <= 1 or (form in ("min", "last") and discount != 1):
        raise InvalidArgument("discount", discount, "a number in [0, 1], and 1 for the forms min and last")
    if not temperature > 0:
        raise InvalidArgument("temperature", temperature, "a positive number")
    if stop is not None and stop.shape != x.values.shape:
        raise InvalidArgument("stop", tuple(stop.shape), f"shape {tuple(x.values.shape)}, one per {x.level.name}")
    lengths = _pieces(x, stop)
    presence = _presence(x, lengths)
    if form == "min":
        pick = _running_min(x.values, x.known, lengths)
        return x.linear(lambda values: values[pick], presence)
    if form == "last":
        position = torch.where(x.known, torch.arange(x.values.numel(), device=x.values.device) + 1, 0)
        final = segments.pool(position.to(torch.float64), lengths, "max").long()[segments.owners(lengths)]
        pick = (final - 1).clamp_min(0)
        return x.linear(lambda values: values[pick], presence)
    weight = _softmin(x, lengths, temperature) if form == "softmin" else torch.ones_like(x.values)
    return x.linear(lambda values: segments.reverse_scan(values * weight, lengths, discount), presence)


def _pieces(x: Signal, stop: Tensor | None) -> Tensor:
    """Lengths of the stretches that accumulate on their own: trajectories, cut around every stop."""
    lengths = x.batch.lengths(x.level, Level.TRAJECTORY)
    if stop is None or not x.values.numel():
        return lengths
    cut = stop.to(torch.bool)
    begins = cut.clone()
    begins[1:] |= cut[:-1]
    begins[segments.starts(lengths)[lengths > 0]] = True
    where = torch.nonzero(begins).flatten()
    return torch.diff(where, append=where.new_tensor([x.values.numel()]))


def _presence(x: Signal, lengths: Tensor) -> Tensor:
    position = torch.arange(x.values.numel(), device=x.values.device)
    owner = segments.owners(lengths)

    def ahead(state: Presence) -> Tensor:
        reached = torch.where(x.presence == int(state), position, -1)
        return segments.pool(reached.to(torch.float64), lengths, "max")[owner] >= position

    known = torch.where(ahead(Presence.KNOWN), int(Presence.KNOWN), int(Presence.ABSENT))
    return torch.where(ahead(Presence.FAILED), int(Presence.FAILED), known).to(torch.uint8)


def _softmin(x: Signal, lengths: Tensor, temperature: float) -> Tensor:
    owner = segments.owners(lengths)
    logit = torch.where(x.known, -x.values / temperature, -torch.inf)
    top = segments.pool(logit.detach(), lengths, "max")[owner]
    share = torch.where(x.known, torch.exp(torch.where(x.known, logit - top, 0.0)), 0.0)
    total = segments.pool(share, lengths, "sum")[owner]
    return share / torch.where(total > 0, total, 1.0)


def _running_min(values: Tensor, known: Tensor, lengths: Tensor) -> Tensor:
    """int64[N]: the element with the smallest known value from each element to the end of its piece."""
    best = torch.arange(values.numel(), device=values.device)
    if not values.numel():
        return best
    cost = torch.where(known, values.detach(), torch.inf)
    remaining = (torch.cumsum(lengths, 0) - 1)[segments.owners(lengths)] - best
    step, longest = 1, int(lengths.max())
    while step < longest:
        # A minimum does not mind being taken twice, so windows may overlap and doubling needs no exact cover.
        rival = torch.cat((best[step:], best[-step:]))
        better = (remaining >= step) & (cost[rival] < cost[best])
        best, step = torch.where(better, rival, best), step * 2
    return best
