"""`observe`: run rewards over trajectories, and refuse to go on when one of them mostly fails."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from apportion.errors import InvalidArgument, ObserverFailing
from apportion.rewards import _arguments
from apportion.rewards.base import Reward, Rows, check_reward, unique_names
from apportion.rewards.metric import metric
from apportion.rewards.running import Limits, ask_all
from apportion.rewards.vector import Vector
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Failed, Verdict

__all__ = ["Observed", "observe", "observe_async"]

# Verdicts by the name of the reward: one per trajectory, or one list of them (one per turn) per trajectory.
Observed: TypeAlias = dict[str, list[Verdict] | list[list[Verdict]]]

T = TypeVar("T")


def observe(
    rewards: Sequence[Reward | Vector],
    trajectories: Sequence[Trajectory],
    *,
    failure_limit: float = 0.5,
    timeout: float | None = None,
    concurrency: int = 64,
) -> Observed:
    """The verdicts of several rewards on the same trajectories, by name.

    Sync rewards run one after another in this thread, in the order given; then all async ones run together. An
    exception while observing is a `Failed` verdict: of one trajectory where a function looks at one, of all of them
    where a reward takes the whole list. A wrong set-up (any `ApportionError`) is raised instead. Also works inside a
    running event loop (TRL, Jupyter): async rewards then run on a loop of their own, in another thread; use
    `observe_async` when they hold connections of yours.

    Args:
        rewards: observers with different names, of any level; a `vector` counts as its parts, and one of weight 0 in it
            as a `metric`.
        trajectories: what to look at; an empty list gives empty verdicts.
        failure_limit: the share of `Failed` verdicts of one reward, in [0, 1], above which observing stops; 1 never
            stops, and no `metric` does.
        timeout: seconds that one call may take: one trajectory for a per-trajectory function, the whole list otherwise.
            Late is `Failed`, never 0. A sync call that never returns is left in a daemon thread.
        concurrency: how many async calls may be under way.

    Returns:
        `{name: verdicts}` in the order given: a list with one verdict per trajectory, or one list of verdicts per
        trajectory, one for each of its turns.

    Raises:
        InvalidArgument: something that is no reward, a name used twice, a reward that gives a wrong number of verdicts
            or something else than verdicts.
        ObserverFailing: more than `failure_limit` of one reward's verdicts are `Failed`.

    Example:
        >>> from apportion.rewards import reward
        >>> rollouts = [Trajectory(id=f"r{i}", group="q", columns={"n": i}) for i in range(3)]
        >>> @reward
        ... def inverse(trajectory):
        ...     return 1 / trajectory.columns["n"]
        >>> verdicts = observe([inverse], rollouts)
        >>> [type(v).__name__ for v in verdicts["inverse"]]
        ['Failed', 'Scored', 'Scored']
        >>> verdicts["inverse"][0].error.partition(" at ")[0]
        'ZeroDivisionError: division by zero'
    """
    asked = _arranged(rewards, trajectories, failure_limit, timeout, concurrency)
    answers = ask_all([(part, trajectories) for part in asked], Limits(timeout, asyncio.Semaphore(concurrency)))
    rows = answers if isinstance(answers, list) else _run(answers.start())
    return _collected(asked, trajectories, rows, failure_limit)


async def observe_async(
    rewards: Sequence[Reward | Vector],
    trajectories: Sequence[Trajectory],
    *,
    failure_limit: float = 0.5,
    timeout: float | None = None,
    concurrency: int = 64,
) -> Observed:
    """Like `observe`, on the running event loop; sync rewards hold the loop up while they run.

    Args:
        rewards: as in `observe`.
        trajectories: as in `observe`.
        failure_limit: as in `observe`.
        timeout: as in `observe`.
        concurrency: as in `observe`.

    Returns:
        As `observe`.

    Raises:
        InvalidArgument: as `observe`.
        ObserverFailing: as `observe`.

    Example:
        >>> from apportion.rewards import reward
        >>> @reward
        ... async def judged(trajectory):
        ...     return 0.5
        >>> asyncio.run(observe_async([judged], [Trajectory(id="r0", group="q")]))
        {'judged': [Scored(value=0.5, evidence='')]}
    """
    asked = _arranged(rewards, trajectories, failure_limit, timeout, concurrency)
    answers = ask_all([(part, trajectories) for part in asked], Limits(timeout, asyncio.Semaphore(concurrency)))
    rows = answers if isinstance(answers, list) else await answers
    return _collected(asked, trajectories, rows, failure_limit)


def _arranged(
    rewards: Sequence[Reward | Vector],
    trajectories: Sequence[Trajectory],
    failure_limit: float,
    timeout: float | None,
    concurrency: int,
) -> list[Reward]:
    if not isinstance(rewards, Sequence):
        raise InvalidArgument("rewards", rewards, "a list of rewards")
    asked: list[Reward] = []
    for entry in rewards:
        asked.extend(_parts(entry) if isinstance(entry, Vector) else [check_reward("rewards", entry)])
    unique_names("rewards", asked)
    strangers = [type(entry).__name__ for entry in trajectories if not isinstance(entry, Trajectory)]
    if strangers:
        raise InvalidArgument("trajectories", strangers, "Trajectory objects")
    _arguments.number("failure_limit", failure_limit, at_least=0, at_most=1)
    if timeout is not None and _arguments.number("timeout", timeout, at_least=0) == 0:
        raise InvalidArgument("timeout", timeout, "a number of seconds > 0, or None for no limit")
    _arguments.whole("concurrency", concurrency, at_least=1)
    return asked


def _parts(entry: Vector) -> list[Reward]:
    return [part if entry.weights[part.name] else metric(part) for part in entry.parts]


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    context = contextvars.copy_context()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="apportion-observe") as pool:
        return pool.submit(lambda: context.run(asyncio.run, coroutine)).result()


def _collected(
    asked: Sequence[Reward], trajectories: Sequence[Trajectory], columns: Sequence[Rows], failure_limit: float
) -> Observed:
    result: Observed = {}
    for part, rows in zip(asked, columns, strict=True):
        failures = [
            f"{trajectory.id!r}: {cell.error}"
            for trajectory, row in zip(trajectories, rows, strict=True)
            for cell in row
            if isinstance(cell, Failed)
        ]
        total = sum(len(row) for row in rows)
        if len(failures) > failure_limit * total and getattr(part, "role", "outcome") != "metric":
            raise ObserverFailing(part.name, len(failures), total, failure_limit, failures[0])
        result[part.name] = rows if part.level is Level.TURN else [row[0] for row in rows]
    return result
