"""`StateValues`: what a state is worth, before and after every element of a trajectory.

    element      1          2          3            a turn, or a policy token
    before     V(s_0)     V(s_1)     V(s_2)         the state it starts from
    after      V(s_1)     V(s_2)     V(s_3)         the state it ends in

What turns values into credit (`td`, `gae`) takes this and a reward, whatever the values come from: a critic (one value
before every token, and one for the last state), a potential (one at the start, and one after every turn).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from apportion import segments
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["StateValues", "critic_values", "state_values"]


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
        last: V of the last state [B], TRAJECTORY: exactly 0 where the trajectory terminated, the bootstrap where it was
            truncated.

    Raises:
        InvalidArgument: signals of different batches, or at other levels.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], tokens=[3])
        >>> last = Signal.of(b, Level.TRAJECTORY, [0.0], name="value")
        >>> critic_values(Signal.of(b, Level.TOKEN, [0.1, 0.3, 0.2], name="value"), last).after.values.tolist()
        [0.3, 0.2, 0.0]
    """
    _check("last", last, before)
    name = next(iter(before.terms), "value")
    before = before.named(name)
    lengths = before.batch.lengths(before.level, Level.TRAJECTORY)
    after = replace(
        before,
        values=segments.shifted(before.values, lengths, last.values, take="next"),
        presence=segments.shifted(before.presence, lengths, last.presence, take="next"),
    )
    return StateValues(before=before, after=after.named(name))


def _check(argument: str, whole: Signal, elements: Signal) -> None:
    if whole.level != Level.TRAJECTORY or elements.level not in (Level.TURN, Level.TOKEN):
        found = f"{whole.level.name}, {elements.level.name}"
        raise InvalidArgument(argument, found, "one value per trajectory, and one per turn or policy token")
    if whole.batch is not elements.batch:
        raise InvalidArgument(argument, whole.batch.ids[:3], "signals of the same batch object")
