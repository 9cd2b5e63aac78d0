"""`StateValues`: what a state is worth, before and after every element of a trajectory.

    element      1          2          3            a turn, or a policy token
    before     V(s_0)     V(s_1)     V(s_2)         the state it starts from
    after      V(s_1)     V(s_2)     V(s_3)         the state it ends in

What turns values into credit (`td`, `gae`) takes this and a reward, whatever the values come from: a critic (one value
before every token, and one for the last state), a potential (one at the start, and one after every turn).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from apportion import segments
from apportion.batch import STATUSES, Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Presence

__all__ = ["OnTruncated", "StateValues", "critic_values", "last_values", "state_values", "turn_values"]

OnTruncated: TypeAlias = Literal["bootstrap", "zero"]


@dataclass(frozen=True, eq=False, kw_only=True)
class StateValues:
    """Two signals of one level: `after` of an element is `before` of the next one in its trajectory.

    Attributes:
        before: the value of the state that an element starts from.
        after: the value of the state that it ends in.
    """

    before: Signal
    after: Signal

    @property
    def difference(self) -> Signal:
        """After - before; ABSENT where either is not known, since nobody can tell what the element changed."""
        known = self.before.known & self.after.known
        return self.after.masked(known).neutral() - self.before.masked(known).neutral()


def state_values(start: Signal, after: Signal) -> StateValues:
    """From a value at the start of every trajectory and one after each element, as potentials have them.

    Args:
        start: Phi_0 [B], TRAJECTORY.
        after: Phi_k [n], at TURN or TOKEN level.

    Raises:
        InvalidArgument: signals of different batches, or at other levels.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], turns=[3])
        >>> start = Signal.of(b, Level.TRAJECTORY, [0.1], name="phi")
        >>> v = state_values(start, Signal.of(b, Level.TURN, [0.3, 0.2, None], name="phi"))
        >>> [round(x, 2) for x in v.before.values.tolist()], v.difference.known.tolist()
        ([0.1, 0.3, 0.2], [True, True, False])
    """
    _check("start", start, after)
    name = next(iter(after.terms), "potential")
    after = after.named(name)
    lengths = after.batch.lengths(after.level, Level.TRAJECTORY)
    before = replace(
        after,
        values=segments.shifted(after.values, lengths, start.values, take="previous"),
        presence=segments.shifted(after.presence, lengths, start.presence, take="previous"),
    )
    return StateValues(before=before.named(name), after=after)


def critic_values(before: Signal, last: Signal) -> StateValues:
    """From a value before every element and one for the state that a trajectory ends in, as a critic has them.

    Args:
        before: V of the state before each element [n], at TURN or TOKEN level.
        last: V of the last state [B], TRAJECTORY, see `last_values`; or per TURN for tokens whose states end with it.

    Raises:
        InvalidArgument: signals of different batches, or at other levels.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], tokens=[3])
        >>> last = Signal.of(b, Level.TRAJECTORY, [0.0], name="value")
        >>> critic_values(Signal.of(b, Level.TOKEN, [0.1, 0.3, 0.2], name="value"), last).after.values.tolist()
        [0.3, 0.2, 0.0]
    """
    if not (before.level == Level.TOKEN and last.level == Level.TURN):
        _check("last", last, before)
    name = next(iter(before.terms), "value")
    before = before.named(name)
    lengths = before.batch.lengths(before.level, last.level)
    after = replace(
        before,
        values=segments.shifted(before.values, lengths, last.values, take="next"),
        presence=segments.shifted(before.presence, lengths, last.presence, take="next"),
    )
    return StateValues(before=before, after=after.named(name))


def turn_values(values: Signal, last: Signal, *, read: Literal["first", "last"] = "first") -> StateValues:
    """From a critic's value per policy token: what the state is worth when a turn begins.

    Args:
        values: V of the state before each policy token, TOKEN.
        last: as in `critic_values`, TRAJECTORY.
        read: the turn's value is that of its "first" token, which has seen the whole observation, or that of its "last"
            one, as bi-level GAE reads it.

    Returns:
        Values per TURN. A turn without policy tokens has none: it is no step, and its neighbours are neighbours.

    Raises:
        InvalidArgument: as `critic_values`, or an unknown choice.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], turns=[3], tokens=[2, 0, 1])
        >>> last = Signal.of(b, Level.TRAJECTORY, [0.0], name="value")
        >>> v = turn_values(Signal.of(b, Level.TOKEN, [0.1, 0.3, 0.2], name="value"), last)
        >>> v.before.values.tolist(), v.after.values.tolist(), v.after.known.tolist()
        ([0.1, 0.0, 0.2], [0.2, 0.0, 0.0], [True, False, True])
    """
    _check("last", last, values)
    if read not in ("first", "last"):
        raise InvalidArgument("read", read, "first or last")
    if values.level != Level.TOKEN:
        raise InvalidArgument("values", values.level.name, "one value per policy TOKEN")
    b, name = values.batch, next(iter(values.terms), "value")
    tokens = b.lengths(Level.TOKEN, Level.TURN)
    wrote = tokens > 0
    ends = torch.cumsum(tokens, 0)
    at = (ends - tokens if read == "first" else ends - 1)[wrote]
    lengths = segments.pool(wrote.to(torch.int64), b.turns, "sum")

    def at_turns(value: Tensor, presence: Tensor) -> Signal:
        size = (wrote.numel(),)
        return replace(
            values,
            level=Level.TURN,
            values=value.new_zeros(size).masked_scatter(wrote, value),
            presence=presence.new_full(size, int(Presence.ABSENT)).masked_scatter(wrote, presence),
        ).named(name)

    before, state = values.values[at], values.presence[at]
    return StateValues(
        before=at_turns(before, state),
        after=at_turns(
            segments.shifted(before, lengths, last.values, take="next"),
            segments.shifted(state, lengths, last.presence, take="next"),
        ),
    )


def last_values(
    batch: Batch, bootstrap: Signal | None = None, *, on_truncated: OnTruncated = "bootstrap", name: str = "value"
) -> Signal:
    """What the state that a trajectory ends in is worth, by how it ended.

        terminated  0, since nothing follows
        truncated   the bootstrap: what would have followed is cut off, not lost; or 0 where that is declared
        aborted     the bootstrap; not known without one

    Args:
        batch: whose trajectories.
        bootstrap: the critic's value of the last state, per TRAJECTORY; only those of unfinished ones are looked at.
        on_truncated: "zero" declares a cut to be an end, as trainers without a bootstrap do: every long rollout then
            looks like a loss of all that was still expected.
        name: of the values.

    Raises:
        InvalidArgument: an unknown choice, or a bootstrap of another batch or level.
        MissingInput: truncated trajectories (they are listed) without a bootstrap.

    Example:
        >>> b = Batch.of(groups=["q"] * 2, status=["terminated", "truncated"])
        >>> last_values(b, Signal.of(b, Level.TRAJECTORY, [None, 0.7], name="value")).values.tolist()
        [0.0, 0.7]
    """
    if on_truncated not in get_args(OnTruncated):
        raise InvalidArgument("on_truncated", on_truncated, f"one of {', '.join(get_args(OnTruncated))}")
    if bootstrap is not None and (bootstrap.batch is not batch or bootstrap.level != Level.TRAJECTORY):
        raise InvalidArgument("bootstrap", bootstrap.level.name, "a signal of the same batch, per TRAJECTORY")
    zero = Signal.zeros(batch, Level.TRAJECTORY, name=name)
    given = zero.masked(torch.zeros_like(zero.known)) if bootstrap is None else bootstrap.neutral()
    ends = batch.status == STATUSES.index("terminated")
    cut = batch.status == STATUSES.index("truncated")
    if on_truncated == "zero":
        ends, cut = ends | cut, torch.zeros_like(cut)
    without = cut & ~given.known & (batch.lengths(batch.finest, Level.TRAJECTORY) > 0)
    if bool(without.any()):
        raise MissingInput(
            "a critic",
            "the value of the state in which a truncated trajectory was cut",
            "record it, or declare on_truncated='zero'",
            [batch.ids[i] for i in torch.nonzero(without).flatten().tolist()],
        )
    return zero.masked(ends) + given.masked(~ends).named(name)


def _check(argument: str, whole: Signal, elements: Signal) -> None:
    if whole.level != Level.TRAJECTORY or elements.level not in (Level.TURN, Level.TOKEN):
        found = f"{whole.level.name}, {elements.level.name}"
        raise InvalidArgument(argument, found, "one value per trajectory, and one per turn or policy token")
    if whole.batch is not elements.batch:
        raise InvalidArgument(argument, whole.batch.ids[:3], "signals of the same batch object")
