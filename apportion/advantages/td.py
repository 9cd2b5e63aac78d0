"""TD: credit from what states are worth. One step, windows, and everything to the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from apportion import segments
from apportion.advantages.states import StateValues
from apportion.batch import STATUSES
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Presence

__all__ = ["Terminal", "Window", "td", "td_errors"]

Window: TypeAlias = Literal["sum", "normalised"]
Terminal: TypeAlias = Literal["keep", "zero"]


def td(
    values: StateValues,
    *,
    reward: Signal | None = None,
    discount: float = 1.0,
    lam: float | Tensor = 1.0,
    n_step: int | None = 1,
    window: Window = "sum",
    terminal: Terminal = "keep",
    fill: Signal | None = None,
    within: Level = Level.TRAJECTORY,
) -> Signal:
    """Temporal differences of a potential or critic, summed or averaged over the steps that follow.

        delta_k = r_k + discount * V(s_k) - V(s_{k-1})
        sum         c_k = sum_{j < n} (discount * lam)^j delta_{k+j}
        normalised  the same divided by sum_{j < n} (discount * lam)^j over the steps that there are
        fill        + (discount * lam)^(T-k+1) * fill      where the window reaches the last of the T steps

    Args:
        values: what the states are worth, per TURN or policy TOKEN; see `apportion.advantages.states`.
        reward: r, at the values' level; default none.
        discount: gamma in [0, 1] of the state that follows; one step per turn (policy token), never per observation.
        lam: lambda in [0, 1], how much less every later step counts beside the discount; float[B] for one per
            trajectory.
        n_step: steps in the window; None = all that follow, which makes c the GAE of lambda.
        window: how the steps add up.
        terminal: "zero" counts the last state of a terminated trajectory as worth 0, as shaping that must not change
            the optimal policy needs; a truncated one keeps its value. "keep" leaves all values as they are.
        fill: what follows the last step, per trajectory (TRACE: twice the outcome's advantage).
        within: where windows end: at the end of the TRAJECTORY, or for tokens at that of their TURN.

    Returns:
        A signal at the values' level, linear in values, reward and fill, whose ledger terms it carries. An element
        whose delta is not known (a value missing, a reward FAILED) is no step: ABSENT, and skipped by the windows of
        the others. An ABSENT reward adds nothing, but a trajectory without any known reward is ABSENT as a whole. A
        missing fill adds nothing.

    Raises:
        InvalidArgument: signals of other batches or levels, an unknown choice, discount or lam outside [0, 1], a lam of
            another size, or a negative n_step.

    Example:
        >>> from apportion.advantages.states import state_values
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], turns=[3])
        >>> start = Signal.of(b, Level.TRAJECTORY, [0.0], name="gap")
        >>> v = state_values(start, Signal.of(b, Level.TURN, [0.6466, 0.6466, 1.4351], name="gap"))
        >>> [round(c, 4) for c in td(v).values.tolist()]
        [0.6466, 0.0, 0.7885]
        >>> [round(c, 4) for c in td(v, n_step=3, lam=0.8, window="normalised").values.tolist()]
        [0.4718, 0.3504, 0.7885]

    Source: windows and fill as TRACE (arXiv 2607.13988) has them; its differences are not discounted, only the window
    is, so its gamma=0.8 is `lam` here. One step is VinePPO's (arXiv 2410.01679) and, with terminal="zero", that of
    potential-based shaping; all steps with lam are GAE (arXiv 1506.02438).
    """
    level, batch = values.after.level, values.after.batch
    if window not in get_args(Window):
        raise InvalidArgument("window", window, f"one of {', '.join(get_args(Window))}")
    if n_step is not None and n_step < 0:
        raise InvalidArgument("n_step", n_step, "a whole number >= 0, or None for all steps that follow")
    delta = td_errors(values, reward=reward, discount=discount, terminal=terminal)
    step = torch.nonzero(delta.known).flatten()
    if within not in (Level.TURN, Level.TRAJECTORY) or within <= level:
        raise InvalidArgument("within", within.name, f"TURN or TRAJECTORY, above {level.name}")
    lengths = segments.pool(delta.known.to(torch.int64), batch.lengths(level, within), "sum")
    weight = discount * _checked_lam(lam, len(batch))
    if isinstance(weight, Tensor):
        weight = batch.spread(weight, Level.TRAJECTORY, within)

    def window_of(x: Tensor) -> Tensor:
        if n_step is None:
            return segments.reverse_scan(x, lengths, weight)
        return segments.window_sum(x, lengths, n_step, weight)

    ones = delta.values.new_ones(step.numel())
    count = window_of(ones).clamp_min(1.0) if window == "normalised" else ones

    def back(x: Tensor) -> Tensor:
        return x.new_zeros(delta.values.shape).index_copy(0, step, x)

    credit = delta.linear(lambda x: back(window_of(x[step]) / count))
    if fill is None:
        return credit
    owner = segments.owners(lengths)
    remaining = torch.cumsum(lengths, 0)[owner] - torch.arange(step.numel(), device=batch.device)
    reaches = remaining <= (step.numel() if n_step is None else max(n_step, 1))
    decay = (weight[owner] if isinstance(weight, Tensor) else ones * weight) ** remaining
    return credit + _filled(fill, delta).scaled(back(torch.where(reaches, decay, 0.0)), level)


def td_errors(
    values: StateValues, *, reward: Signal | None = None, discount: float = 1.0, terminal: Terminal = "keep"
) -> Signal:
    """What every element changed: the deltas that `td` adds up.

        delta_k = r_k + discount * V(s_k) - V(s_{k-1})

    Args:
        values: as in `td`.
        reward: as in `td`.
        discount: as in `td`.
        terminal: as in `td`.

    Returns:
        A signal at the values' level; ABSENT where the delta is not known, see `td`.

    Raises:
        InvalidArgument: as `td`.

    Example:
        >>> from apportion.advantages.states import state_values
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], turns=[2])
        >>> start = Signal.of(b, Level.TRAJECTORY, [0.0], name="phi")
        >>> v = state_values(start, Signal.of(b, Level.TURN, [0.3, 0.3], name="phi"))
        >>> [round(d, 2) for d in td_errors(v, discount=0.9, terminal="zero").values.tolist()]
        [0.27, -0.3]
    """
    if not 0 <= discount <= 1:
        raise InvalidArgument("discount", discount, "a number in [0, 1]")
    if terminal not in get_args(Terminal):
        raise InvalidArgument("terminal", terminal, f"one of {', '.join(get_args(Terminal))}")
    before, after = values.before, _ended(values.after) if terminal == "zero" else values.after
    known = before.known & after.known
    if reward is None:
        return after.masked(known).neutral() * discount - before.masked(known).neutral()
    _check_fits("reward", reward, after, reward.level == after.level)
    b = after.batch
    some = b.pool(reward.known.to(torch.float64), reward.level, Level.TRAJECTORY, "sum") > 0
    known = known & b.spread(some, Level.TRAJECTORY, after.level) & (reward.presence != int(Presence.FAILED))
    return reward.masked(known) + (after.masked(known).neutral() * discount - before.masked(known).neutral())


def _ended(after: Signal) -> Signal:
    """The last state of every terminated trajectory is worth 0, whatever was known of it."""
    b = after.batch
    lengths = b.lengths(after.level, Level.TRAJECTORY)
    last = (torch.cumsum(lengths, 0) - 1)[(lengths > 0) & (b.status == STATUSES.index("terminated"))]
    presence = after.presence.index_fill(0, last, int(Presence.KNOWN))
    return replace(after.linear(lambda x: x.index_fill(0, last, 0.0)), presence=presence)


def _filled(fill: Signal, delta: Signal) -> Signal:
    _check_fits("fill", fill, delta, fill.level >= delta.level)
    return fill.neutral().spread(delta.level).masked(delta.known)


def _check_fits(argument: str, x: Signal, to: Signal, level_fits: bool) -> None:
    if x.batch is not to.batch or not level_fits:
        raise InvalidArgument(argument, x.level.name, f"a signal of the same batch object at level {to.level.name}")


def _checked_lam(lam: float | Tensor, size: int) -> float | Tensor:
    each = torch.as_tensor(lam)
    if each.ndim and each.shape != (size,):
        raise InvalidArgument("lam", tuple(each.shape), f"one number, or shape ({size},), one per trajectory")
    if not bool(((each >= 0) & (each <= 1)).all()):
        raise InvalidArgument("lam", lam, "in [0, 1]")
    return lam
