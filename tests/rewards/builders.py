"""Tiny rollouts and rewards with prescribed verdicts, for the tests of rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from apportion.rewards import Composable
from apportion.rewards.base import Observation
from apportion.rollouts import Action, Level, Trajectory, Turn
from apportion.verdicts import Abstained, Failed, Scored, Verdict


def said(*texts: str, id: str = "r", group: str = "q", **fields: Any) -> Trajectory:
    """A text-only rollout, one turn per text."""
    return Trajectory(id=id, group=group, turns=tuple(Turn(text=text) for text in texts), **fields)


def acted(*turns: Sequence[Action], id: str = "r", group: str = "q", **fields: Any) -> Trajectory:
    """A text-only rollout, one turn per list of actions."""
    return Trajectory(id=id, group=group, turns=tuple(Turn(actions=tuple(turn)) for turn in turns), **fields)


def call(name: str, **arguments: Any) -> Action:
    return Action(name=name, arguments=arguments)


def broken_call(raw: str = "<tool_call>{") -> Action:
    return Action(name=None, raw=raw, error="unbalanced braces at 11")


def row(id: str, group: str = "q", **columns: Any) -> Trajectory:
    """A rollout without turns that carries columns."""
    return Trajectory(id=id, group=group, columns=columns)


@dataclass(frozen=True)
class Fixed(Composable):
    """A reward that says what it was told to; `asked` lists the ids it was asked about."""

    name: str
    rows: Mapping[str, Sequence[Verdict]]
    level: Level = Level.TRAJECTORY
    asked: list[str] = field(default_factory=list, compare=False)

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation:
        self.asked.extend(trajectory.id for trajectory in trajectories)
        if self.level is Level.TURN:
            return [list(self.rows[trajectory.id]) for trajectory in trajectories]
        return [self.rows[trajectory.id][0] for trajectory in trajectories]


@dataclass(frozen=True)
class Slow(Composable):
    """The same, async."""

    inner: Fixed

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def level(self) -> Level:
        return self.inner.level

    async def observe(self, trajectories: Sequence[Trajectory]) -> Observation:
        return self.inner.observe(trajectories)


def fixed(name: str, *verdicts: Verdict | float | None) -> Fixed:
    """A trajectory reward on rollouts "0", "1", ...; a number is scored, None abstains."""
    return Fixed(name, {str(at): [_verdict(name, verdict)] for at, verdict in enumerate(verdicts)})


def fixed_turns(name: str, *turns: Verdict | float | None) -> Fixed:
    """A turn reward on one rollout "0"."""
    return Fixed(name, {"0": [_verdict(name, verdict) for verdict in turns]}, Level.TURN)


def _verdict(name: str, value: Verdict | float | None) -> Verdict:
    if value is None:
        return Abstained(f"{name} does not apply")
    return value if isinstance(value, (Scored, Abstained, Failed)) else Scored(value)


def rollouts(count: int, turns: int = 0) -> list[Trajectory]:
    """Rollouts "0", "1", ..."""
    return [said(*["x"] * turns, id=str(at)) for at in range(count)]


def cells(observation: Observation) -> list[Verdict]:
    """All verdicts of either level in one list."""
    return [cell for entry in observation for cell in (entry if isinstance(entry, list) else [entry])]  # type: ignore[list-item]


def values(observation: Observation) -> list[float | None]:
    """Scores; None for missing."""
    return [cell.value if isinstance(cell, Scored) else None for cell in cells(observation)]


def kinds(observation: Observation) -> str:
    """One letter per verdict: S, A or F."""
    return "".join(type(cell).__name__[0] for cell in cells(observation))


VERDICTS = st.sampled_from(
    [Failed("outage"), Abstained("not here"), Scored(0.0), Scored(1.0), Scored(-0.5)]
) | st.floats(-100, 100).map(Scored)
WEIGHTS = st.sampled_from([0.0, 1.0, -1.0, 0.5]) | st.floats(-10, 10)


@st.composite
def observed(draw: st.DrawFn, parts: int) -> tuple[list[Trajectory], list[Fixed]]:
    """Rollouts, and rewards of one level that have a verdict for each of them; some rollouts have no turns."""
    level = draw(st.sampled_from([Level.TRAJECTORY, Level.TURN]))
    turns = draw(st.lists(st.integers(0, 3), max_size=3))
    made = [said(*["x"] * count, id=str(at)) for at, count in enumerate(turns)]
    rewards = []
    for name in "abcdef"[:parts]:
        rows = {
            trajectory.id: draw(st.lists(VERDICTS, min_size=count, max_size=count))
            for trajectory, count in ((t, t.n_turns if level is Level.TURN else 1) for t in made)
        }
        rewards.append(Fixed(name, rows, level))
    return made, rewards
