"""Processes of the demo: order, how many at once, crashes, and that none is left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from apportion.cli.demo_processes import Job, JobCrashed, run_jobs
from apportion.errors import InvalidArgument

Emit = Callable[[Any], None]


class Notes:
    """Everything that was told, in order."""

    def __init__(self, *, stop_at: str = "") -> None:
        self.told: list[tuple[str, str]] = []
        self.pids: dict[str, int] = {}
        self.stop_at = stop_at

    def start(self, job: str) -> None:
        self.told.append(("start", job))

    def message(self, job: str, message: int) -> None:
        self.pids[job] = message
        if job == self.stop_at:
            raise KeyboardInterrupt

    def end(self, job: str) -> None:
        self.told.append(("end", job))


def answer(emit: Emit, *, value: int) -> int:
    emit(os.getpid())
    return value * 2


def fail(emit: Emit) -> None:
    raise RuntimeError("no luck")


def die(emit: Emit) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(emit: Emit) -> None:
    emit(os.getpid())
    time.sleep(60)


def unpicklable(emit: Emit) -> Any:
    return lambda: None


def interrupt_us(emit: Emit) -> str:
    """What Ctrl-C in a terminal does to every process of the group."""
    os.kill(os.getpid(), signal.SIGINT)
    return "still here"


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_results_come_back_and_jobs_wait_for_others() -> None:
    notes = Notes()
    jobs = [
        Job(name="a", work=partial(answer, value=1)),
        Job(name="b", work=partial(answer, value=2), after=("a",)),
        Job(name="c", work=partial(answer, value=3), after=("b",)),
    ]
    assert run_jobs(jobs, at_once=2, watcher=notes) == {"a": 2, "b": 4, "c": 6}
    assert notes.told == [(what, job) for job in "abc" for what in ("start", "end")]
    assert os.getpid() not in notes.pids.values()


def test_no_more_than_allowed_run_at_once_and_all_that_may() -> None:
    notes = Notes()
    jobs = [Job(name=name, work=partial(answer, value=0)) for name in "abcd"]
    run_jobs(jobs, at_once=2, watcher=notes)
    running, most = 0, 0
    for what, _ in notes.told:
        running += 1 if what == "start" else -1
        most = max(most, running)
    assert most == 2
    assert notes.told[:2] == [("start", "a"), ("start", "b")]
    assert 1 <= len(set(notes.pids.values())) <= 2
    assert all(gone(pid) for pid in notes.pids.values())


@pytest.mark.parametrize(
    ("work", "report"),
    [(fail, "RuntimeError: no luck"), (die, "exit code -9"), (unpicklable, "pickle")],
)
def test_a_crash_is_reported_and_stops_the_others(work: Callable[[Emit], Any], report: str) -> None:
    notes = Notes()
    jobs = [Job(name="bad", work=work), Job(name="other", work=sleep), Job(name="late", work=sleep)]
    with pytest.raises(JobCrashed) as caught:
        run_jobs(jobs, at_once=2, watcher=notes)
    assert caught.value.job == "bad"
    assert report in caught.value.report
    assert ("start", "late") not in notes.told
    assert all(gone(pid) for pid in notes.pids.values())


def test_an_interrupt_here_leaves_no_process() -> None:
    notes = Notes(stop_at="b")
    with pytest.raises(KeyboardInterrupt):
        run_jobs([Job(name="a", work=sleep), Job(name="b", work=sleep)], at_once=2, watcher=notes)
    assert notes.pids
    assert all(gone(pid) for pid in notes.pids.values())


def test_the_processes_leave_ctrl_c_to_us() -> None:
    assert run_jobs([Job(name="a", work=interrupt_us)], at_once=1, watcher=Notes()) == {"a": "still here"}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("after", ["a", "b", "absent"])
def test_jobs_wait_only_for_earlier_ones(after: str) -> None:
    jobs = [Job(name="a", work=fail, after=(after,)), Job(name="b", work=fail)]
    with pytest.raises(InvalidArgument, match="'a'"):
        run_jobs(jobs, at_once=1, watcher=Notes())
