"""Workers: a limit that holds in every thread, and a pool that survives what it was made to run."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from apportion.errors import InvalidArgument
from apportion.rewards.verifiers import pool
from apportion.rewards.verifiers.pool import WorkerError, Workers, WorkerTimeout, shared_workers

SUM = {"gold": "2x", "answer": "x+x"}
TOWER = {"gold": "9", "answer": "7^{7^{7^{7}}}"}


@pytest.fixture(scope="module")
def one() -> Iterator[Workers]:
    workers = Workers(size=1)
    yield workers
    workers.close()


def test_the_only_worker_is_replaced_after_a_timeout(one: Workers) -> None:
    assert one.ask(SUM, timeout=20)["status"] == "right"
    started = time.monotonic()
    with pytest.raises(WorkerTimeout, match=r"no result within 0\.2 s"):
        one.ask(TOWER, timeout=0.2)
    assert time.monotonic() - started < 5
    assert one.ask(SUM, timeout=20)["status"] == "right"


def test_many_threads_each_get_their_own_answer(one: Workers) -> None:
    found: dict[int, str] = {}

    def work(at: int) -> None:
        found[at] = one.ask({"gold": str(at % 3), "answer": f"{at}-{at - 1}"}, timeout=20)["status"]

    threads = [threading.Thread(target=work, args=(at,)) for at in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert found == {at: "right" if at % 3 == 1 else "wrong" for at in range(12)}


def test_a_worker_that_died_is_noticed_and_replaced(one: Workers) -> None:
    one.ask(SUM, timeout=20)
    worker = one._free.get()
    assert worker is not None
    one._free.put(worker)
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait()
    assert one.ask(SUM, timeout=20)["status"] == "right"


def test_a_worker_that_dies_over_its_work_is_an_error_and_not_an_answer(one: Workers) -> None:
    one.ask(SUM, timeout=20)
    worker = one._free.get()
    assert worker is not None
    one._free.put(worker)
    threading.Timer(0.2, worker.process.kill).start()
    with pytest.raises(WorkerError, match="died"):
        one.ask(TOWER, timeout=30)
    assert one.ask(SUM, timeout=20)["status"] == "right"


def test_an_error_in_the_work_is_told_as_such(one: Workers) -> None:
    wrong: dict[str, Any] = {"gold": None, "answer": "1"}
    assert one.ask(wrong, timeout=20)["status"] == "error"
    assert one.ask(SUM, timeout=20)["status"] == "right"


def test_a_closed_pool_starts_again() -> None:
    workers = Workers()
    workers.close()
    assert workers.ask(SUM, timeout=20)["status"] == "right"
    workers.close()


def test_a_worker_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_MODULE", "apportion.no_such_module")
    with pytest.raises(WorkerError, match=r"did not start: .*No module named apportion\.no_such_module"):
        Workers().ask(SUM, timeout=20)


def test_one_pool_per_process() -> None:
    assert shared_workers() is shared_workers()


def test_a_pool_needs_a_worker() -> None:
    with pytest.raises(InvalidArgument, match="size=0"):
        Workers(size=0)
