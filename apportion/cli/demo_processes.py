"""Jobs in a few other processes, some of them only after others; no process is left behind.

The processes are spawned and not forked, since torch's threads do not survive a fork, and take one job after another,
since each needs seconds to import torch. However a process ends, its pipe closes and that is noticed here; a process
whose parent is gone ends at its next message.
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from apportion.errors import InvalidArgument

__all__ = ["Job", "JobCrashed", "Watcher", "run_jobs"]

# Seconds that a process gets to end after it was asked to.
_PATIENCE = 2.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """Something to do.

    Attributes:
        name: unique.
        work: called in the process, with a function that sends a message here. It is pickled, and so are its messages
            and what it returns.
        after: names of jobs, earlier in the list, that must have ended before.
    """

    name: str
    work: Callable[[Callable[[Any], None]], Any]
    after: tuple[str, ...] = ()


class JobCrashed(Exception):
    """A job raised, or its process died.

    Attributes:
        job: its name.
        report: the traceback, or how the process ended.
    """

    def __init__(self, job: str, report: str) -> None:
        self.job = job
        self.report = report
        super().__init__(f"{job}: {report}")


class Watcher(Protocol):
    """Is told how the jobs get on."""

    def start(self, job: str) -> None:
        """The job starts."""

    def message(self, job: str, message: Any) -> None:
        """The job sent this."""

    def end(self, job: str) -> None:
        """The job ended well."""


@dataclass(frozen=True)
class _Returned:
    value: Any


@dataclass(frozen=True)
class _Raised:
    report: str


def run_jobs(jobs: Sequence[Job], *, at_once: int, watcher: Watcher) -> Mapping[str, Any]:
    """Run all jobs, those that may start in the order of the list, and return what each returned.

    Args:
        jobs: what to do.
        at_once: most processes at the same time.
        watcher: is told.

    Raises:
        InvalidArgument: a job that waits for one that does not come before it.
        JobCrashed: at the first job that crashes; the others are stopped.
    """
    early = [job.name for i, job in enumerate(jobs) if not {other.name for other in jobs[:i]} >= set(job.after)]
    if early or at_once < 1:
        raise InvalidArgument("jobs", early or at_once, "jobs that wait for earlier ones only, one or more at once")
    waiting = list(jobs)
    workers: dict[Connection, BaseProcess] = {}
    running: dict[Connection, Job] = {}
    results: dict[str, Any] = {}
    try:
        while waiting or running:
            ready = [job for job in waiting if results.keys() >= set(job.after)]
            for job in ready[: at_once - len(running)]:
                waiting.remove(job)
                idle = next((pipe for pipe in workers if pipe not in running), None) or _employ(workers)
                running[idle] = job
                watcher.start(job.name)
                idle.send(job)
            heard = wait(list(running))
            for pipe in [pipe for pipe in running if pipe in heard]:
                received = _received(pipe, workers[pipe])
                if isinstance(received, _Raised):
                    raise JobCrashed(running[pipe].name, received.report)
                if isinstance(received, _Returned):
                    job = running.pop(pipe)
                    results[job.name] = received.value
                    watcher.end(job.name)
                else:
                    watcher.message(running[pipe].name, received)
    finally:
        _stop(list(workers.values()))
    return results


def _employ(workers: dict[Connection, BaseProcess]) -> Connection:
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    with _deaf():
        process.start()
        workers[here] = process
    # With our own copy of its end closed, the pipe closes when the process ends.
    there.close()
    return here


@contextmanager
def _deaf() -> Iterator[None]:
    """A process that starts inside ignores Ctrl-C from its first instruction on: we are the one who stops it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whichever comes first: nobody is there any more who sends jobs, or who reads what became of them.
    with suppress(EOFError, ConnectionError):
        while True:
            _do(pipe.recv(), pipe)


def _do(job: Job, pipe: Connection) -> None:
    try:
        pipe.send(_Returned(job.work(pipe.send)))
    except ConnectionError:
        raise
    except Exception:  # noqa: BLE001 - whatever it is, it is raised where the job was started
        pipe.send(_Raised(traceback.format_exc()))


def _received(pipe: Connection, process: BaseProcess) -> Any:
    try:
        return pipe.recv()
    except (EOFError, ConnectionError):
        process.join()
        return _Raised(f"its process ended with exit code {process.exitcode}")


def _stop(processes: Sequence[BaseProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
