"""How a reward is called: per trajectory or per batch, in order or concurrently, within limits.

What goes wrong *while observing* becomes a `Failed` verdict that says what and where. What is wrong with the *set-up*
(an `ApportionError`: bad argument, missing column, missing package) propagates, because it is the same for every row.

Combinators are written once for sync and async parts: `plan` is a generator that yields what it wants to know, as
(reward, trajectories) pairs, and is sent the answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import queue
import threading
import traceback
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from apportion.errors import ApportionError, InvalidArgument
from apportion.rewards.base import Composable, Observation, Reward, Rows
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict, as_verdict

T = TypeVar("T")
Question: TypeAlias = tuple[Reward, Sequence[Trajectory]]
Plan: TypeAlias = Generator[list[Question], list[Rows], Rows]

_MESSAGE = 300


@dataclass(frozen=True, slots=True)
class Limits:
    """How long one call may take, in seconds, and how many async calls may be under way."""

    timeout: float | None = None
    slots: asyncio.Semaphore | None = None

    def slot(self) -> contextlib.AbstractAsyncContextManager[object]:
        """One of the concurrent calls."""
        return self.slots if self.slots is not None else contextlib.nullcontext()


UNLIMITED = Limits()


@runtime_checkable
class Limited(Protocol):
    """A reward that takes the limits down to its own calls."""

    def observe_within(
        self, trajectories: Sequence[Trajectory], limits: Limits
    ) -> Observation | Awaitable[Observation]:
        """Like `observe`, within `limits`."""


class Later(Generic[T]):
    """An answer to wait for. Closing it before it was started leaves no coroutine behind that was never awaited."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, T]], *inner: object) -> None:
        self.start = start
        self.inner = inner

    def __await__(self) -> Generator[Any, Any, T]:
        return self.start().__await__()

    def close(self) -> None:
        """Closes what it would have waited for."""
        for waiting in self.inner:
            if isinstance(waiting, (Later, Coroutine)):
                waiting.close()


class PerTrajectory(Composable):
    """A built-in reward that looks at one trajectory at a time."""

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when the rollouts lack what this reward looks at."""

    @abstractmethod
    def score(self, trajectory: Trajectory) -> object:
        """The verdict of one trajectory; at turn level one verdict per turn."""

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation:
        """The verdicts, in the order of `trajectories`."""
        return self.observe_within(trajectories, UNLIMITED)

    def observe_within(self, trajectories: Sequence[Trajectory], limits: Limits) -> Observation:
        """Like `observe`, with a limit on the time of each trajectory."""
        self.require(trajectories)
        return flat(self.level, each(self, self.score, trajectories, limits))


class Combined(Composable):
    """A reward made of rewards; async exactly when one of its parts is."""

    @abstractmethod
    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Yields the questions to the parts, is sent their answers, returns the verdicts."""

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation | Awaitable[Observation]:
        """The verdicts, in the order of `trajectories`."""
        answer = self.observe_within(trajectories, UNLIMITED)
        return answer.start() if isinstance(answer, Later) else answer

    def observe_within(self, trajectories: Sequence[Trajectory], limits: Limits) -> Observation | Later[Observation]:
        """Like `observe`, within `limits`."""
        plan = self.plan(trajectories)
        try:
            questions = next(plan)
            while True:
                answers = ask_all(questions, limits)
                if isinstance(answers, Later):
                    return Later(functools.partial(self._finish, plan, answers, limits), answers)
                questions = plan.send(answers)
        except StopIteration as stop:
            return flat(self.level, stop.value)

    async def _finish(self, plan: Plan, answers: Awaitable[list[Rows]], limits: Limits) -> Observation:
        while True:
            known = await answers
            try:
                more = ask_all(plan.send(known), limits)
            except StopIteration as stop:
                return flat(self.level, stop.value)
            answers = _ready(more) if isinstance(more, list) else more


async def _ready(value: T) -> T:
    return value


def flat(level: Level, rows: Rows) -> Observation:
    """Rows in the shape of their level: cells (TRAJECTORY) or lists of cells (TURN)."""
    return rows if level is Level.TURN else [row[0] for row in rows]


def width(trajectory: Trajectory, level: Level) -> int:
    """Number of verdicts of one trajectory at this level."""
    return trajectory.n_turns if level is Level.TURN else 1


def ask_all(questions: Sequence[Question], limits: Limits) -> list[Rows] | Later[list[Rows]]:
    """The answers in order: sync rewards one after another, then all async ones together."""
    answers: list[Rows | Later[Rows]] = []
    try:
        for reward, trajectories in questions:
            answers.append(ask(reward, trajectories, limits))
    except BaseException:
        for answer in answers:
            if isinstance(answer, Later):
                answer.close()
        raise
    known = [answer for answer in answers if isinstance(answer, list)]
    return known if len(known) == len(answers) else Later(functools.partial(_all, answers), *answers)


async def _all(answers: Sequence[Rows | Later[Rows]]) -> list[Rows]:
    return await gather([_ready(answer) if isinstance(answer, list) else answer for answer in answers])


async def gather(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """All results in order; the first error cancels the rest and is raised once they have stopped."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def ask(reward: Reward, trajectories: Sequence[Trajectory], limits: Limits) -> Rows | Later[Rows]:
    """One reward's verdicts as rows, checked; an exception of the whole call fails every trajectory of it."""
    if not trajectories:
        return []
    # A list that one reward sorts would put the verdicts of all others beside the wrong rollouts.
    trajectories = tuple(trajectories)
    try:
        if isinstance(reward, Limited):
            answer = reward.observe_within(trajectories, limits)
        else:
            answer = within(limits.timeout, lambda: reward.observe(trajectories))
    except ApportionError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a reward raises is its verdict: nobody knows the value
        return all_failed(reward.level, trajectories, describe(error))
    if inspect.isawaitable(answer):
        return Later(functools.partial(_await, reward, trajectories, answer, limits), answer)
    return checked(reward, trajectories, answer)


async def _await(
    reward: Reward, trajectories: Sequence[Trajectory], answer: Awaitable[Observation], limits: Limits
) -> Rows:
    if isinstance(reward, Limited):
        return checked(reward, trajectories, await answer)
    outcome = await attempt(answer, limits)
    if isinstance(outcome, Failed):
        return all_failed(reward.level, trajectories, outcome.error)
    return checked(reward, trajectories, outcome)


async def attempt(answer: Awaitable[T], limits: Limits, *, file: str | None = None) -> T | Failed:
    """The result of one async call that holds a slot and ends in time, or why there is none."""
    async with limits.slot():
        scope = asyncio.timeout(limits.timeout)
        try:
            async with scope:
                result = await answer
            # A coroutine may swallow its cancellation and answer all the same.
            return Failed(_late(limits.timeout)) if scope.expired() else result
        except ApportionError:
            raise
        except Exception as error:  # noqa: BLE001 - the same as in ask()
            return Failed(_late(limits.timeout) if scope.expired() else describe(error, file=file))


def each(
    reward: Reward,
    function: Callable[[Trajectory], object],
    trajectories: Sequence[Trajectory],
    limits: Limits,
    *,
    file: str | None = None,
) -> Rows:
    """A sync function called on one trajectory after another; an exception fails only the trajectory it is about.

    `file` is where the user's code is: errors are located there.
    """
    rows: Rows = []
    for trajectory in trajectories:
        try:
            value = within(limits.timeout, functools.partial(function, trajectory))
        except ApportionError:
            raise
        except Exception as error:  # noqa: BLE001 - the same as in ask(), for one trajectory
            value = Failed(describe(error, file=file))
        rows.append(as_row(reward, trajectory, value))
    return rows


async def each_async(
    reward: Reward,
    function: Callable[[Trajectory], Awaitable[object]],
    trajectories: Sequence[Trajectory],
    limits: Limits,
) -> Rows:
    """An async function called on all trajectories, as many at a time as `limits` allow."""
    file = source_file(function)

    async def one(trajectory: Trajectory) -> list[Verdict]:
        return as_row(reward, trajectory, await attempt(_called(function, trajectory), limits, file=file))

    return await gather(one(trajectory) for trajectory in trajectories)


async def _called(function: Callable[[Trajectory], Awaitable[object]], trajectory: Trajectory) -> object:
    return await function(trajectory)


def within(timeout: float | None, call: Callable[[], T]) -> T:
    """`call()`, or `TimeoutError` after `timeout` seconds.

    Python cannot stop a thread: a call that never returns is left behind in a daemon thread. One that holds the
    interpreter lock (a catastrophic regular expression) cannot be timed out here at all; run such code in a process.
    """
    if timeout is None:
        return call()
    done: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def work() -> None:
        try:
            done.put((True, call()))
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread and raised there
            done.put((False, error))

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    try:
        finished, value = done.get(timeout=timeout)
    except queue.Empty:
        raise TimeoutError(_late(timeout)) from None
    if finished:
        result: T = value
        return result
    raise value


def _late(timeout: float | None) -> str:
    return f"no answer within {timeout:g} s"


def source_file(function: Callable[..., object]) -> str | None:
    """The file that defines a function or a callable object."""
    code = getattr(inspect.unwrap(function), "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return code.co_filename if code is not None else None


def describe(error: BaseException, *, file: str | None = None) -> str:
    """An exception as text: type, message, and the last line it passed through, in `file` where it passed there."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == file] or list(frames)
    where = f" at {PurePath(own[-1].filename).name}:{own[-1].lineno}" if own else ""
    message = str(error)
    cut = message if len(message) <= _MESSAGE else f"{message[: _MESSAGE - 1]}…"
    return f"{type(error).__name__}: {cut}{where}" if cut else f"{type(error).__name__}{where}"


def all_failed(level: Level, trajectories: Sequence[Trajectory], error: str) -> Rows:
    """The same failure on every trajectory and turn."""
    return [[Failed(error)] * width(trajectory, level) for trajectory in trajectories]


def as_row(reward: Reward, trajectory: Trajectory, value: object) -> list[Verdict]:
    """What a per-trajectory function returned, as one verdict or one per turn."""
    if reward.level is Level.TRAJECTORY:
        return [as_verdict(value, source=reward.name)]
    turns = trajectory.n_turns
    if value is None or isinstance(value, (Abstained, Failed)):
        return [as_verdict(value, source=reward.name)] * turns
    if (
        isinstance(value, (str, bytes, Mapping, Scored))
        or not hasattr(value, "__len__")
        or not hasattr(value, "__iter__")
    ):
        raise InvalidArgument(
            f"{reward.name}({trajectory.id!r})", value, f"a sequence with one entry for each of the {turns} turns"
        )
    entries = list(value)
    if len(entries) != turns:
        raise InvalidArgument(
            f"{reward.name}({trajectory.id!r})", value, f"{turns} entries, one per turn (got {len(entries)})"
        )
    return [as_verdict(entry, source=reward.name) for entry in entries]


def checked(reward: Reward, trajectories: Sequence[Trajectory], answer: object) -> Rows:
    """What `observe` returned, as rows; wrong counts and types are listed in an `InvalidArgument`."""
    source = f"{reward.name}.observe(...)"
    entries = _entries(source, answer, len(trajectories), "one per trajectory")
    rows: Rows = []
    for trajectory, entry in zip(trajectories, entries, strict=True):
        if reward.level is Level.TRAJECTORY:
            rows.append([entry])
        else:
            rows.append(_entries(f"{source}[{trajectory.id!r}]", entry, trajectory.n_turns, "one per turn"))
    wrong = [
        f"{trajectory.id!r}: {type(cell).__name__}"
        for trajectory, row in zip(trajectories, rows, strict=True)
        for cell in row
        if not isinstance(cell, (Scored, Abstained, Failed))
    ]
    if wrong:
        raise InvalidArgument(source, answer, f"Scored, Abstained or Failed everywhere (got {', '.join(wrong[:10])})")
    return rows


def _entries(source: str, value: object, count: int, each_one: str) -> list[Any]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise InvalidArgument(source, value, f"a list of {count} entries, {each_one} (got {type(value).__name__})")
    if len(value) != count:
        raise InvalidArgument(source, value, f"{count} entries, {each_one} (got {len(value)})")
    return list(value)
