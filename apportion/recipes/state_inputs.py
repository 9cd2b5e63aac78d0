"""The observers that value states, for recipes: a potential object, a file that defines one, or recorded columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from apportion import segments
from apportion.advantages.place import wrote
from apportion.advantages.states import StateValues, state_values
from apportion.batch import STATUSES
from apportion.recipes.files import defined_in
from apportion.rewards.base import Reward
from apportion.rewards.potential import Potential, potential_rewards
from apportion.rewards.potentials import recorded_potential
from apportion.signal import Signal
from apportion.verdicts import Presence

__all__ = ["End", "Given", "States", "by_policy", "carried", "named_potential"]

Given: TypeAlias = Potential | str | None
# What the last state is worth: what the potential says, or 0 (everywhere, or where the task ended there).
End: TypeAlias = Literal["keep", "zero", "zero_if_terminated"]


class States:
    """A potential as two observers, and their signals as values of states.

    Args:
        potential: the potential, a Python file that defines `potential`, or None for what was recorded.
        column: turn column of the recorded values, Phi_k after the turn; that of the prompt is "<column>_start".
        start_value: Phi_0 where no such column is recorded.
    """

    def __init__(self, potential: Given, *, column: str, start_value: float | None) -> None:
        self.source = named_potential(potential, column=column, start_value=start_value)
        self.start, self.after = potential_rewards(self.source)
        self.recorded = potential is None

    @property
    def observers(self) -> tuple[Reward, Reward]:
        """At the start, and after every turn."""
        return self.start, self.after

    @property
    def needs(self) -> tuple[str, ...]:
        """What rollouts must carry for it, in words."""
        if not self.recorded:
            return ()
        column = self.after.name
        return (f"turn column {column!r} and trajectory column '{column}_start' (or start_value=), or potential=",)

    def of(self, signals: Mapping[str, Signal], *, end: End = "keep") -> StateValues:
        """The values before and after every turn in which the policy wrote, see `by_policy`."""
        values = state_values(signals[self.start.name], signals[self.after.name])
        return by_policy(values if end == "keep" else _ended(values, end))


def named_potential(potential: Given, *, column: str, start_value: float | None) -> Potential:
    """The potential that was given; see `States`."""
    if potential is None:
        return recorded_potential(column, start_value=start_value)
    if isinstance(potential, str):
        found: Potential = defined_in(potential, "potential", argument="potential")
        return found
    return potential


def by_policy(values: StateValues) -> StateValues:
    """The values over the turns in which the policy wrote.

    What happens in a turn without policy tokens belongs to the turn before it: nobody else could have caused it. Such a
    turn itself is ABSENT, and those before the first turn of the policy are part of the prompt.

    Example:
        >>> from apportion.batch import Batch
        >>> from apportion.rollouts import Level
        >>> b = Batch.of(groups=["q"], turns=[3], tokens=[2, 0, 1])
        >>> start = Signal.of(b, Level.TRAJECTORY, [0.0], name="phi")
        >>> v = by_policy(state_values(start, Signal.of(b, Level.TURN, [0.5, 0.25, 1.0], name="phi")))
        >>> v.difference.values.tolist(), v.difference.known.tolist()
        ([0.25, 0.0, 0.75], [True, False, True])
    """
    before, after = values.before, values.after
    turns, written = after.batch.turns, wrote(after.batch)
    if bool(written.all()):
        return values
    size = written.numel()
    at = torch.arange(size, device=turns.device)
    own = torch.where(written, at, size)
    later = torch.cat((own[1:], own.new_tensor([size])))
    following = torch.cummin(later.flip(0), 0).values.flip(0)
    last = (torch.cumsum(turns, 0) - 1)[segments.owners(turns)]
    until = torch.minimum(following - 1, last)
    moved = replace(after, values=after.values[until], presence=after.presence[until])
    name = next(iter(after.terms), "potential")
    return StateValues(before=before.masked(written), after=moved.named(name).masked(written))


def _ended(values: StateValues, end: End) -> StateValues:
    after = values.after
    turns, status = after.batch.turns, after.batch.status
    there = turns > 0 if end == "zero" else (turns > 0) & (status == STATUSES.index("terminated"))
    last = (torch.cumsum(turns, 0) - 1)[there]
    numbers, presence = after.values.index_fill(0, last, 0.0), after.presence.index_fill(0, last, int(Presence.KNOWN))
    name = next(iter(after.terms), "potential")
    return StateValues(before=values.before, after=replace(after, values=numbers, presence=presence).named(name))


def carried(values: StateValues, steps: Tensor) -> StateValues:
    """The same values over some of the turns: between two of them nothing moves.

    Args:
        values: before and after every turn.
        steps: bool[K], the turns that count as a step from one state to the next; one without policy tokens never does.

    Returns:
        Values that are ABSENT on all other turns; a step starts from the state that the step before it ended in.

    Example:
        >>> from apportion.batch import Batch
        >>> from apportion.rollouts import Level
        >>> b = Batch.of(groups=["q"], turns=[3])
        >>> start = Signal.of(b, Level.TRAJECTORY, [0.0], name="phi")
        >>> v = state_values(start, Signal.of(b, Level.TURN, [0.5, 0.9, 0.7], name="phi"))
        >>> carried(v, torch.tensor([True, False, True])).before.values.tolist()
        [0.0, 0.0, 0.5]
    """
    lengths, written = values.after.batch.turns, wrote(values.after.batch)
    steps = steps & written
    before, after = values.before, values.after.masked(steps)
    at = torch.arange(1, steps.numel() + 1, device=steps.device)
    reached = torch.cummax(torch.where(steps, at, 0), 0).values if steps.numel() else at
    previous = torch.cat((reached.new_zeros(1), reached[:-1])) if steps.numel() else at
    owner = segments.owners(lengths)
    inside = previous > segments.starts(lengths)[owner]
    # The first step starts where the policy does: what comes before that is part of the prompt.
    first = segments.pool(torch.where(written, at, steps.numel()), lengths, "min")[owner] - 1
    pick = torch.where(inside, previous - 1, first)

    def move(start: Tensor, end: Tensor) -> Tensor:
        return torch.where(inside, end[pick], start[pick])

    moved = replace(before, values=move(before.values, after.values), presence=move(before.presence, after.presence))
    return StateValues(before=moved.named(next(iter(before.terms), "potential")).masked(steps), after=after)
