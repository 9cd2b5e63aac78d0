"""What a state is worth, by trying: the mean return of fresh continuations from it."""

from __future__ import annotations

import asyncio
import functools
import math
import statistics
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import _arguments
from apportion.rewards.asking import ask_each
from apportion.rewards.potentials.prefix import prefix
from apportion.rewards.prefixes import prefixes
from apportion.rewards.running import Later, Limits
from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["MonteCarlo", "RecordedContinuations", "monte_carlo_potential", "recorded_continuations"]

# (state as a trajectory of the turns so far, n=how many) -> the returns of so many continuations; plain or async.
Sampler: TypeAlias = Callable[..., Sequence[float] | Awaitable[Sequence[float]]]

_END = Scored(0.0, "the task ended here, nothing follows")
_CUT = Abstained("the last state, where the rollout was cut")


@dataclass(frozen=True)
class MonteCarlo:
    """See `monte_carlo_potential`."""

    sampler: Sampler
    n: int
    states: int
    concurrency: int
    name: str

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]] | Awaitable[list[list[Verdict]]]:
        """Phi_0 .. Phi_K of every trajectory; equal prefixes are sampled once."""
        keys = _keys(trajectories, self.states)
        first: dict[Hashable, Trajectory] = {}
        for trajectory, row in zip(trajectories, keys, strict=True):
            for k, key in enumerate(row):
                if key not in first:
                    first[key] = prefix(trajectory, k)
        ask = functools.partial(self.sampler, n=self.n)
        found = ask_each(ask, list(first.values()), Limits(slots=asyncio.Semaphore(self.concurrency)))
        if isinstance(found, list):
            return self._rows(trajectories, keys, dict(zip(first, found, strict=True)))
        return Later(functools.partial(self._wait, trajectories, keys, list(first), found), found)

    async def _wait(
        self,
        trajectories: Sequence[Trajectory],
        keys: list[list[Hashable]],
        first: list[Hashable],
        found: Awaitable[list[Any]],
    ) -> list[list[Verdict]]:
        return self._rows(trajectories, keys, dict(zip(first, await found, strict=True)))

    def _rows(
        self, trajectories: Sequence[Trajectory], keys: list[list[Hashable]], found: dict[Hashable, Any]
    ) -> list[list[Verdict]]:
        verdicts = {key: _mean(returns) for key, returns in found.items()}
        beyond = Abstained(f"beyond the first {self.states} states, which are sampled")
        rows = []
        for trajectory, row in zip(trajectories, keys, strict=True):
            rest = [beyond] * (trajectory.n_turns - len(row))
            rows.append([*(verdicts[key] for key in row), *rest, _last(trajectory)])
        return rows


def monte_carlo_potential(
    sampler: Sampler, *, continuations: int = 9, states: int = 25, concurrency: int = 64, name: str = "value"
) -> MonteCarlo:
    """The value of a state as the mean return of fresh continuations from it.

        Phi_k = (1 / n) sum_j R_j,   R_j the return from s_k on        standard error = std / sqrt(n)

    Args:
        sampler: sampler(state, n=...) gives the returns of so many continuations of the current policy; plain or async.
            `state` is a trajectory of the prompt and the turns so far, see `prefix`. Needs an environment that can be
            set to a state; a continuation that a limit cuts should return what failure returns.
        continuations: n of each state.
        states: how many states of a trajectory are sampled, from the first on; later ones abstain, and an estimator
            that needs them fills them backwards.
        concurrency: how many async calls may be under way.
        name: of the values.

    Returns:
        A potential. States with equal prefixes are sampled once. The last state of a terminated rollout is worth 0,
        since nothing follows; that of a cut one abstains. An exception, and returns that are no numbers, are `Failed`
        for that state alone.

    Raises:
        InvalidArgument: a sampler that cannot be called, or a number below 1.

    Example:
        >>> from apportion.rollouts import Turn
        >>> def play(state, n):
        ...     return [0.5] * n if state.n_turns else [0.0, 1.0]
        >>> t = Trajectory(id="r", group="q", turns=[Turn(text="a"), Turn(text="b")])
        >>> [v.evidence for v in monte_carlo_potential(play, continuations=4).values([t])[0]][:2]
        ['mean of 2 continuations, standard error 0.5', 'mean of 4 continuations, standard error 0']

    Source: arXiv 2410.01679 (VinePPO), whose numbers are the defaults (20 to 25 states).
    """
    if not callable(sampler):
        raise InvalidArgument("sampler", sampler, "a function (state, n=...) -> returns, plain or async")
    return MonteCarlo(
        sampler,
        _arguments.whole("continuations", continuations, at_least=1),
        _arguments.whole("states", states, at_least=1),
        _arguments.whole("concurrency", concurrency, at_least=1),
        _arguments.text("name", name),
    )


@dataclass(frozen=True)
class RecordedContinuations:
    """See `recorded_continuations`."""

    column: str
    start: str
    name: str

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]]:
        """The means of the recorded returns; where none are recorded it abstains.

        Raises:
            MissingInput: no turn of any trajectory has the column.
        """
        turns = [turn for t in trajectories for turn in t.turns]
        if turns and not any(self.column in turn.columns for turn in turns):
            raise MissingInput(
                f"potential {self.name!r}",
                f"a turn column {self.column!r}",
                "record the returns of fresh continuations from the state after every turn, as a list",
            )
        return [self._row(t) for t in trajectories]

    def _row(self, trajectory: Trajectory) -> list[Verdict]:
        absent = Abstained(f"no {self.column!r} recorded")
        first = _mean(trajectory.columns[self.start]) if self.start in trajectory.columns else absent
        later = [_mean(t.columns[self.column]) if self.column in t.columns else absent for t in trajectory.turns]
        row = [first, *(later or [absent] * trajectory.n_turns)]
        return [*row[:-1], _last(trajectory)] if isinstance(row[-1], Abstained) else row


def recorded_continuations(
    column: str = "continuations", *, start: str | None = None, name: str = "value"
) -> RecordedContinuations:
    """`monte_carlo_potential` of continuations that were recorded.

    Args:
        column: key in `Turn.columns`: a list with the returns of continuations from the state after the turn.
        start: key in `Trajectory.columns`, the same for the prompt; default "<column>_start".
        name: of the values.

    Example:
        >>> from apportion.rollouts import Turn
        >>> turns = [Turn(columns={"continuations": [1, 0, 1, 1]}), Turn()]
        >>> t = Trajectory(id="r", group="q", turns=turns, columns={"continuations_start": [0, 1]})
        >>> [v.value for v in recorded_continuations().values([t])[0]]
        [0.5, 0.75, 0.0]
    """
    _arguments.text("column", column)
    return RecordedContinuations(column, start or f"{column}_start", _arguments.text("name", name))


def _keys(trajectories: Sequence[Trajectory], states: int) -> list[list[Hashable]]:
    """What makes two of the first so many states one and the same; the last state of a trajectory is not sampled."""
    rows = prefixes().observe(trajectories)
    keys: list[list[Hashable]] = []
    for i, (trajectory, row) in enumerate(zip(trajectories, rows, strict=True)):
        prompt = None if trajectory.prompt_ids is None else trajectory.prompt_ids.tobytes()
        lead = (
            None if trajectory.response_ids is None else trajectory.response_ids[: trajectory.layout().lead].tobytes()
        )
        ids: list[Hashable] = [(trajectory.group, prompt, lead)]
        cells = row if isinstance(row, list) else []
        ids += [(cell.value if isinstance(cell, Scored) else (i, k)) for k, cell in enumerate(cells, 1)]
        keys.append(ids[: min(states, trajectory.n_turns)])
    return keys


def _last(trajectory: Trajectory) -> Verdict:
    return _END if trajectory.status == "terminated" else _CUT


def _mean(returns: Any) -> Verdict:
    if isinstance(returns, (Abstained, Failed)):
        return returns
    try:
        numbers = [float(one) for one in returns]
    except (TypeError, ValueError, OverflowError):
        numbers = []
    if not numbers or isinstance(returns, str) or not all(map(math.isfinite, numbers)):
        return Failed(f"{_arguments.excerpt(returns)} are no returns of continuations: a list of finite numbers")
    size = len(numbers)
    if size == 1:
        return Scored(numbers[0], "one continuation, standard error unknown")
    error = statistics.stdev(numbers) / math.sqrt(size)
    return Scored(math.fsum(numbers) / size, f"mean of {size} continuations, standard error {error:.3g}")
