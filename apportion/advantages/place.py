"""Where a reward sits: on the last token that the policy wrote, or on the last turn in which it wrote."""

from __future__ import annotations

import torch
from torch import Tensor

from apportion import segments
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal, Term
from apportion.verdicts import Presence

__all__ = ["on_last_token", "on_last_turn", "wrote"]


def wrote(batch: Batch) -> Tensor:
    """bool[K]: the turns in which the policy wrote something; all of them in text-only rollouts.

    Example:
        >>> wrote(Batch.of(groups=["q"], turns=[3], tokens=[2, 0, 1])).tolist()
        [True, False, True]
    """
    return torch.ones_like(batch.gaps, dtype=torch.bool) if batch.tokens is None else batch.tokens > 0


def on_last_token(x: Signal) -> Signal:
    """A turn's (trajectory's) value on its last policy token, 0 on its other tokens.

    For returns and advantages that add up along the trajectory; `channel` puts the value on every token instead. Under
    token normalisation the two differ by the factor "tokens in the turn".

    Args:
        x: values per turn or trajectory.

    Returns:
        A token-level signal. Tokens of a missing turn (trajectory) are missing. The value of a turn without policy
        tokens goes to the policy token before it in the same trajectory, where there is one; a value that no token
        could have caused goes nowhere.

    Raises:
        InvalidArgument: x per token or per group, or text-only rollouts.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q", "q"], turns=[2, 1], tokens=[2, 0, 3])
        >>> on_last_token(Signal.of(b, Level.TURN, [0.5, 1.0, -1.0], name="r")).values.tolist()
        [0.0, 1.5, 0.0, 0.0, -1.0]
    """
    if x.level not in (Level.TURN, Level.TRAJECTORY):
        raise InvalidArgument("x", x.level.name, "a signal per TURN or TRAJECTORY")
    b = x.batch
    size = b.size(Level.TOKEN)
    last = torch.cumsum(b.lengths(Level.TOKEN, x.level), 0) - 1
    row = b.owner(x.level, Level.TRAJECTORY)
    reachable = last >= segments.starts(b.tokens_per_trajectory)[row]
    target = torch.where(reachable, last, 0)

    def put(values: Tensor) -> Tensor:
        return values.new_zeros(size).index_add(0, target, torch.where(reachable, values, 0)) if size else values[:0]

    state = b.spread(x.presence, x.level, Level.TOKEN)
    failed = put((x.presence == int(Presence.FAILED)).to(torch.float64)) > 0
    landed = put(x.known.to(torch.float64)) > 0
    state = torch.where(landed, state.clamp_min(int(Presence.KNOWN)), state)
    state = torch.where(failed, int(Presence.FAILED), state).to(torch.uint8)
    known = state == int(Presence.KNOWN)
    terms = {name: Term(Level.TOKEN, torch.where(known, put(v), 0.0)) for name, v in x.ledger().items()}
    values = torch.where(known, put(x.values), 0.0)
    return Signal(batch=b, level=Level.TOKEN, values=values, presence=state, terms=terms, resolution=x.resolution)


def on_last_turn(x: Signal) -> Signal:
    """A trajectory's value on the last turn in which the policy wrote, 0 on its other turns.

    For returns and temporal differences over turns. Text-only rollouts: the last turn.

    Args:
        x: values per trajectory.

    Returns:
        A turn-level signal, linear in x; turns of a missing trajectory are missing. A value that no turn could have
        caused goes nowhere.

    Raises:
        InvalidArgument: x at another level.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q", "q"], turns=[3, 1], tokens=[2, 1, 0, 3])
        >>> on_last_turn(Signal.of(b, Level.TRAJECTORY, [1.0, -1.0], name="r")).values.tolist()
        [0.0, 1.0, 0.0, -1.0]
    """
    if x.level != Level.TRAJECTORY:
        raise InvalidArgument("x", x.level.name, "a signal per TRAJECTORY")
    b = x.batch
    at = torch.arange(1, b.gaps.numel() + 1, device=b.device) * wrote(b)
    last = segments.pool(at, b.turns, "max")
    share = x.values.new_zeros(b.gaps.numel()).index_fill(0, last[last > 0] - 1, 1.0)
    return x.scaled(share, Level.TURN)
