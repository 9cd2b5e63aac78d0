"""What a state is worth, as a function says: a learned head, or any other."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.asking import ask_each
from apportion.rewards.potentials.prefix import prefix
from apportion.rewards.running import Later, Limits
from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Failed, Verdict, as_verdict

__all__ = ["LearnedPotential", "Sees", "learned_potential"]

Sees: TypeAlias = Literal["prefix", "trajectory"]


@dataclass(frozen=True)
class LearnedPotential:
    """See `learned_potential`."""

    head: Callable[[Trajectory], Any]
    sees: Sees
    concurrency: int
    name: str

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]] | Awaitable[list[list[Verdict]]]:
        """Phi_0 .. Phi_K of every trajectory."""
        shown = list(trajectories)
        if self.sees == "prefix":
            shown = [prefix(t, k) for t in trajectories for k in range(t.n_turns + 1)]
        answers = ask_each(self.head, shown, Limits(slots=asyncio.Semaphore(self.concurrency)))
        if isinstance(answers, list):
            return self._rows(trajectories, answers)
        return Later(functools.partial(self._wait, trajectories, answers), answers)

    async def _wait(self, trajectories: Sequence[Trajectory], answers: Awaitable[list[Any]]) -> list[list[Verdict]]:
        return self._rows(trajectories, await answers)

    def _rows(self, trajectories: Sequence[Trajectory], answers: list[Any]) -> list[list[Verdict]]:
        source = f"the head of {self.name!r}"
        if self.sees == "prefix":
            cells = iter(answers)
            return [[as_verdict(next(cells), source=source) for _ in range(t.n_turns + 1)] for t in trajectories]
        return [self._row(t, answer, source) for t, answer in zip(trajectories, answers, strict=True)]

    def _row(self, trajectory: Trajectory, answer: Any, source: str) -> list[Verdict]:
        states = trajectory.n_turns + 1
        if answer is None or isinstance(answer, (Abstained, Failed)):
            return [as_verdict(answer, source=source)] * states
        try:
            cells = list(answer)
        except TypeError:
            cells = []
        if isinstance(answer, (str, bytes)) or len(cells) != states:
            wrong = f"{source} gave {_arguments.excerpt(answer, 80)} for the {states} states of {trajectory.id!r}"
            return [Failed(wrong)] * states
        return [as_verdict(cell, source=source) for cell in cells]


def learned_potential(
    head: Callable[[Trajectory], Any], *, sees: Sees = "prefix", concurrency: int = 64, name: str = "value"
) -> LearnedPotential:
    """The value of a state as a function says it: a value head, a reward model, a heuristic.

        prefix      Phi_k = head(the prompt and the first k turns)
        trajectory  (Phi_0, ..., Phi_K) = head(the whole trajectory)

    Args:
        head: plain or async; gives a number, None (it abstains) or a verdict per state.
        sees: "prefix" cannot look ahead: it is shown a trajectory that ends at the state, without outcome columns.
            "trajectory" is one call per rollout, for a head that reads all states in one pass.
        concurrency: how many async calls may be under way.
        name: of the values.

    Returns:
        A potential. An exception, and another number of values than states, is `Failed` for that state (trajectory).

    Raises:
        InvalidArgument: a head that cannot be called, or an unknown `sees`.

    Example:
        >>> from apportion.rollouts import Turn
        >>> t = Trajectory(id="r", group="q", turns=[Turn(text="found it"), Turn()])
        >>> hopeful = learned_potential(lambda state: sum("found" in turn.text for turn in state.turns))
        >>> [v.value for v in hopeful.values([t])[0]]
        [0.0, 1.0, 1.0]
    """
    if not callable(head):
        raise InvalidArgument("head", head, "a function of a trajectory, plain or async")
    _arguments.choice("sees", sees, get_args(Sees))
    return LearnedPotential(
        head, sees, _arguments.whole("concurrency", concurrency, at_least=1), _arguments.text("name", name)
    )
