"""Work that may never return, done in processes that can be killed: the time limit is real, in every thread.

    parent (any thread)  -- one line of JSON -->  child
                         <-- one line of JSON --  child, or silence: killed, and replaced when next needed

A thread cannot be stopped and a signal only reaches the main thread; a process can always be ended. Children are
started as fresh interpreters, so neither threads nor a GPU in the parent matter, and scripts need no `__main__` guard.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from typing import Any

from apportion.rewards import _arguments

__all__ = ["WorkerError", "WorkerTimeout", "Workers", "shared_workers"]

_START = 120.0
_MODULE = "apportion.rewards.verifiers.worker"


class WorkerTimeout(Exception):
    """The work was not done in time; its process is gone."""


class WorkerError(Exception):
    """The work ended in an error that says nothing about the answer: its process died, or ran out of memory."""


class _Worker:
    """One child process and the thread that reads what it says."""

    def __init__(self) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        # One thread each: they share the cores, and every thread of a numerical library reserves memory.
        env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with tempfile.TemporaryFile() as complaints:
            self.process = subprocess.Popen(
                [sys.executable, "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env=env,
                encoding="utf-8",
            )
            self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
            threading.Thread(target=self._read, daemon=True).start()
            # Loading the libraries is not part of anybody's time limit.
            if self._next(_START) != "ready":
                self.close()
                complaints.seek(0)
                last = complaints.read().decode(errors="replace").strip().rsplit("\n", 1)[-1]
                raise WorkerError(f"the worker process did not start: {last[-300:] or 'it said nothing'}")

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self.process.stdout:
                self.lines.put(line.rstrip("\n"))
        self.lines.put("")

    def _next(self, timeout: float) -> str | None:
        try:
            return self.lines.get(timeout=timeout)
        except queue.Empty:
            return None

    def ask(self, request: str, timeout: float) -> str:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            raise WorkerError("the worker process is gone") from None
        line = self._next(timeout)
        if line is None:
            raise WorkerTimeout(f"timeout: no result within {timeout:g} s")
        if not line:
            raise WorkerError("the worker process died")
        return line

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError, ValueError):
                    pipe.close()


class Workers:
    """At most `size` child processes, started when needed and kept; safe to use from any number of threads.

    Args:
        size: how many pieces of work are under way at a time; others wait, and waiting does not use up their time.

    Raises:
        InvalidArgument: a size below 1.
    """

    def __init__(self, *, size: int = 1) -> None:
        self.size = _arguments.whole("size", size, at_least=1)
        self._free: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(size):
            self._free.put(None)

    def ask(self, request: dict[str, Any], *, timeout: float) -> dict[str, Any]:
        """The answer of a child.

        Args:
            request: plain data for `worker.answer`.
            timeout: seconds that the work itself may take.

        Returns:
            What the child answered, as plain data.

        Raises:
            WorkerTimeout: it took too long. The child was killed; the next request gets a new one.
            WorkerError: the child died over it, for want of memory for example.
        """
        worker = self._free.get()
        try:
            if worker is not None and worker.process.poll() is not None:
                worker.close()
                worker = None
            if worker is None:
                worker = _Worker()
            answer: dict[str, Any] = json.loads(worker.ask(json.dumps({"limit": timeout, "work": request}), timeout))
        except BaseException:
            # Also on KeyboardInterrupt: an answer that nobody read would be taken for the next one's.
            if worker is not None:
                worker.close()
            self._free.put(None)
            raise
        self._free.put(worker)
        return answer

    def close(self) -> None:
        """Ends the idle children; the pool can still be used and starts new ones."""
        idle = []
        with contextlib.suppress(queue.Empty):
            while True:
                idle.append(self._free.get_nowait())
        for worker in idle:
            if worker is not None:
                worker.close()
            self._free.put(None)


_shared: dict[int, Workers] = {}
_lock = threading.Lock()


def shared_workers() -> Workers:
    """The pool of this process; a forked process gets its own, since pipes cannot be shared."""
    with _lock:
        pool = _shared.get(os.getpid())
        if pool is None:
            pool = _shared[os.getpid()] = Workers(size=max(1, min(4, os.cpu_count() or 1)))
        return pool


@atexit.register
def _close() -> None:
    # A forked process ends only what it started itself.
    pool = _shared.get(os.getpid())
    if pool is not None:
        pool.close()


def _forked() -> None:
    global _lock
    # Another thread of the parent may have held the lock, and does not exist here.
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
