"""`Annotator`: what somebody noted about a rollout, turn by turn; read as verdicts, so that it is stored like a reward.

    annotator(trajectory) -> labels | flags | links | None | Abstained | Failed

An annotator is a function of one trajectory, plain or `async def`: a rule, what the producer recorded, or a model that
is asked. It notes in words; the observers made of it (`labelled`, `flagged`, `link_features`) turn that into numbers
and keep the words as evidence. None or `Abstained` is no note. An exception, or a note that cannot be read, is `Failed`
for that trajectory (turn): nobody knows, which later weighs nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.asking import AskedOnce, ask_each
from apportion.rewards.base import Composable, Observation, Role
from apportion.rewards.running import UNLIMITED, Later, Limits, as_row, flat
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed

__all__ = ["Annotated", "Annotator", "Requires", "asked_of"]

Notes: TypeAlias = list[Any]
Asked: TypeAlias = AskedOnce[Notes]


@runtime_checkable
class Annotator(Protocol):
    """Notes about one trajectory; which form they have is up to the observer that reads them."""

    def __call__(self, trajectory: Trajectory, /) -> Any | Awaitable[Any]:
        """The notes, or None where there is nothing to note."""


@runtime_checkable
class Requires(Protocol):
    """An annotator that can tell from all trajectories together that its input is missing."""

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput`."""


@dataclass(frozen=True, eq=False)
class Annotated(Composable):
    """An observer that reads an annotator's notes: where credit belongs, never how much there is.

    Attributes:
        asked: the annotator, asked once however many observers read its notes.
        read: a trajectory and its notes as what a reward function of this level returns.
        name: what the verdicts are called.
        level: TURN or TRAJECTORY.
        role: "shaping", or "label" where a number names what was noted.
    """

    asked: Asked
    read: Callable[[Trajectory, Any], object]
    name: str
    level: Level = Level.TURN
    role: Role = "shaping"

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation | Awaitable[Observation]:
        """The verdicts, in the order of `trajectories`."""
        return self.observe_within(trajectories, UNLIMITED)

    def observe_within(
        self, trajectories: Sequence[Trajectory], limits: Limits
    ) -> Observation | Awaitable[Observation]:
        """Like `observe`, with limits on the time of each trajectory and on how many are asked about at a time."""
        notes = self.asked(trajectories, limits)
        if isinstance(notes, list):
            return self._verdicts(trajectories, notes)
        return Later(functools.partial(self._wait, trajectories, notes), notes)

    async def _wait(self, trajectories: Sequence[Trajectory], notes: Awaitable[Notes]) -> Observation:
        return self._verdicts(trajectories, await notes)

    def _verdicts(self, trajectories: Sequence[Trajectory], notes: Notes) -> Observation:
        def row(trajectory: Trajectory, note: Any) -> list[Any]:
            silent = note is None or isinstance(note, (Abstained, Failed))
            return as_row(self, trajectory, note if silent else self.read(trajectory, note))

        return flat(self.level, [row(t, note) for t, note in zip(trajectories, notes, strict=True)])


def asked_of(annotator: Annotator) -> Asked:
    """An annotator as something to ask about many trajectories.

    Raises:
        InvalidArgument: something that cannot be called.
    """
    if not callable(annotator):
        raise InvalidArgument("annotator", annotator, "a function of one trajectory, plain or async")
    return AskedOnce(functools.partial(_ask, annotator))


def _ask(annotator: Annotator, trajectories: Sequence[Trajectory], limits: Limits) -> Notes | Awaitable[Notes]:
    if isinstance(annotator, Requires):
        annotator.require(trajectories)
    return ask_each(annotator, trajectories, limits)


def per_turn(notes: Any, trajectory: Trajectory, what: str) -> list[Any] | Failed:
    """The notes as a list with one entry per turn, or why that cannot be: what a model wrote may have any form."""
    turns = trajectory.n_turns
    if isinstance(notes, (str, bytes)) or not isinstance(notes, Sequence):
        return Failed(f"{_arguments.excerpt(notes)} is no list of {turns} {what}, one per turn")
    if len(notes) != turns:
        return Failed(f"{len(notes)} {what} for {turns} turns")
    return list(notes)
