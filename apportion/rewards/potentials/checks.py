"""What a state is worth by its acceptance checks: the share of those unmet at the start that now hold.

check           at start   after 1   after 2
file exists     met        met       met         met at the start: it is nobody's progress
tests pass      unmet      unmet     met
no warnings     unmet      met       unmet       progress can be lost again
Phi             0          1/2       1/2
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import _arguments
from apportion.rewards.asking import ask_each
from apportion.rewards.running import Limits
from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["ChecksPotential", "checks_potential"]

# One result per state: flags (a list, or by name), {"passed": n, "total": N}, None where the checks were not run.
Results: TypeAlias = Sequence[Any]
Run: TypeAlias = Callable[[Trajectory], "Results | Awaitable[Results]"]
# Which checks hold: flags by name, or how many of how many.
_Held: TypeAlias = dict[str, bool] | tuple[int, int]

_MISSING = Abstained("the checks were not run on this state")


@dataclass(frozen=True)
class ChecksPotential:
    """See `checks_potential`."""

    run: Run | None
    column: str
    name: str
    concurrency: int

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]] | Awaitable[list[list[Verdict]]]:
        """Phi_0 .. Phi_K of every trajectory."""
        if self.run is None:
            self._need(trajectories)
            return _rows(trajectories, [self._recorded(t) for t in trajectories])
        found = ask_each(self.run, list(trajectories), Limits(slots=asyncio.Semaphore(self.concurrency)))
        return _rows(trajectories, found) if isinstance(found, list) else self._wait(trajectories, found)

    async def _wait(self, trajectories: Sequence[Trajectory], found: Awaitable[list[Any]]) -> list[list[Verdict]]:
        return _rows(trajectories, await found)

    def _need(self, trajectories: Sequence[Trajectory]) -> None:
        turns = [turn for t in trajectories for turn in t.turns]
        start = f"{self.column}_start"
        absent = [
            what
            for what, there in (
                (f"a turn column {self.column!r}", not turns or any(self.column in turn.columns for turn in turns)),
                (f"a trajectory column {start!r}", not turns or any(start in t.columns for t in trajectories)),
            )
            if not there
        ]
        if absent:
            raise MissingInput(
                f"potential {self.name!r}",
                " and ".join(absent),
                "record the results of the acceptance checks (a list of true and false, or "
                '{"passed": 2, "total": 5}) after every turn and before the first, name another column, or give the '
                "function that runs them",
            )

    def _recorded(self, trajectory: Trajectory) -> list[Any]:
        after = [turn.columns.get(self.column) for turn in trajectory.turns] or [None] * trajectory.n_turns
        return [trajectory.columns.get(f"{self.column}_start"), *after]


def checks_potential(
    run: Run | None = None, *, column: str = "checks", name: str = "checks", concurrency: int = 64
) -> ChecksPotential:
    """The share of the initially unmet acceptance checks that hold in a state.

        Phi_k = |unmet at s_0 and met at s_k| / |unmet at s_0|        one denominator for the whole group

    Args:
        run: runs the checks of a trajectory on each of its states: K + 1 results, of the state before the first turn
            and after every turn; plain or async. It needs an environment that can be looked at without being changed,
            or a scratch copy that replays the actions. A result is a list of flags, flags by name,
            `{"passed": n, "total": N}`, or None where the checks were not run. Default: recorded results, in the turn
            column and, for the state before the first turn, the trajectory column "<column>_start".
        column: of recorded results.
        name: of the values.
        concurrency: how many async calls may be under way.

    Returns:
        A potential. The rollouts of a group start from one state, so a check counts when no rollout of the group has it
        met at the start; a missing start is taken from the others. Counts cannot tell which checks hold, so losing one
        that was met at the start looks like losing progress; they are never below 0. No check unmet at the start: 0
        everywhere. A result that is missing: `Abstained`; after a turn that never reached the environment, that of the
        state before. One that cannot be read, or that has other checks than the rest of its group: `Failed`.

    Raises:
        InvalidArgument: something that cannot be called.
        MissingInput: when observing without `run`, no turn has the column, or no trajectory has its start.

    Example:
        >>> from apportion.rollouts import Turn
        >>> turns = [Turn(columns={"checks": flags}) for flags in ([True, False, False], [True, True, False])]
        >>> t = Trajectory(id="r", group="q", turns=turns, columns={"checks_start": [True, False, False]})
        >>> [v.value for v in checks_potential().values([t])[0]]
        [0.0, 0.0, 0.5]

    Source: arXiv 2609.27532 (ProCredit), of which the abstract was read: leaving out what holds at the start is ours.
    """
    if run is not None and not callable(run):
        raise InvalidArgument("run", run, "a function of one trajectory that gives K + 1 results, plain or async")
    return ChecksPotential(
        run,
        _arguments.text("column", column),
        _arguments.text("name", name),
        _arguments.whole("concurrency", concurrency, at_least=1),
    )


def _rows(trajectories: Sequence[Trajectory], found: Sequence[Any]) -> list[list[Verdict]]:
    read = [_states(t, results) for t, results in zip(trajectories, found, strict=True)]
    groups: dict[str, list[_Held]] = {}
    for trajectory, row in zip(trajectories, read, strict=True):
        if row and isinstance(row[0], (dict, tuple)):
            groups.setdefault(trajectory.group, []).append(row[0])
    starts = {group: _common_start(known) for group, known in groups.items()}
    return [
        [_value(held, starts.get(trajectory.group)) for held in row]
        for trajectory, row in zip(trajectories, read, strict=True)
    ]


def _states(trajectory: Trajectory, results: Any) -> list[_Held | Verdict]:
    size = trajectory.n_turns + 1
    if isinstance(results, Failed):
        return [results] * size
    if not isinstance(results, Iterable) or isinstance(results, (str, bytes, Mapping)):
        return [Failed(f"{_arguments.excerpt(results)} are no results of checks, one per state")] * size
    rows = list(results)
    if len(rows) != size:
        return [Failed(f"{len(rows)} results of checks for {size} states")] * size
    states = [_held(row) for row in rows]
    for k, turn in enumerate(trajectory.turns):
        if not turn.executed:
            states[k + 1] = states[k]
    return states


def _held(result: Any) -> _Held | Verdict:
    if result is None:
        return _MISSING
    if isinstance(result, (Abstained, Failed)):
        return result
    if isinstance(result, Mapping) and set(result) == {"passed", "total"}:
        passed, total = result["passed"], result["total"]
        if all(isinstance(n, (int, np.integer)) for n in (passed, total)) and 0 <= passed <= total:
            return int(passed), int(total)
        return _unreadable(result)
    named = result if isinstance(result, Mapping) else None
    if named is None and isinstance(result, Iterable) and not isinstance(result, (str, bytes)):
        named = {str(i): flag for i, flag in enumerate(result)}
    if named is None or not all(isinstance(f, (int, np.integer, np.bool_)) and f in (0, 1) for f in named.values()):
        return _unreadable(result)
    return {str(check): bool(flag) for check, flag in named.items()}


def _unreadable(result: Any) -> Failed:
    expected = 'a list of true and false, {"passed": n, "total": N}, or null'
    return Failed(f"{_arguments.excerpt(result)} is no result of checks: {expected}")


def _common_start(known: Sequence[_Held]) -> _Held | Failed:
    """Of the starts of a group: a check that any of them has met is met."""
    first = known[0]
    if any(_checks(start) != _checks(first) for start in known):
        return Failed(f"the rollouts of this group have different checks: {sorted({len(_checks(s)) for s in known})}")
    if isinstance(first, tuple):
        return max(start[0] for start in known if isinstance(start, tuple)), first[1]
    return {check: any(start[check] for start in known if isinstance(start, dict)) for check in first}


def _checks(held: _Held) -> frozenset[str]:
    if isinstance(held, tuple):
        return frozenset({f"{held[1]} counted"})
    return frozenset(held)


def _value(held: _Held | Verdict, start: _Held | Failed | None) -> Verdict:
    if not isinstance(held, (dict, tuple)):
        return held
    if start is None:
        return Abstained("no rollout of the group says which checks were met at the start")
    if isinstance(start, Failed):
        return start
    if _checks(held) != _checks(start):
        return Failed("other checks than at the start of the group")
    if isinstance(held, tuple) and isinstance(start, tuple):
        unmet, met = start[1] - start[0], max(held[0] - start[0], 0)
    elif isinstance(held, dict) and isinstance(start, dict):
        open_ = [check for check, was_met in start.items() if not was_met]
        unmet, met = len(open_), sum(held[check] for check in open_)
    if not unmet:
        return Scored(0.0, "no check was unmet at the start")
    return Scored(met / unmet, f"{met} of {unmet} checks that were unmet at the start")
