"""Answers kept on disk between runs, shared by the processes of a machine."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import TypeVar

from apportion.errors import InvalidArgument
from apportion.judges.exchange import Request, Response, Transport
from apportion.judges.transport.base import NotStored, Wrapper, at_least
from apportion.judges.transport.once import Once

__all__ = ["Cache"]

T = TypeVar("T")

# Writers of several processes take turns; the size is kept by the database itself.
_TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, response TEXT NOT NULL, used REAL NOT NULL);
CREATE INDEX IF NOT EXISTS by_use ON answers (used);
CREATE TABLE IF NOT EXISTS total (one INTEGER PRIMARY KEY CHECK (one = 1), bytes INTEGER NOT NULL);
INSERT OR IGNORE INTO total VALUES (1, 0);
CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON answers
  BEGIN UPDATE total SET bytes = bytes + length(new.key) + length(new.response); END;
CREATE TRIGGER IF NOT EXISTS dropped AFTER DELETE ON answers
  BEGIN UPDATE total SET bytes = bytes - length(old.key) - length(old.response); END;
"""


class Cache(Wrapper):
    """Asks only what nobody asked this server before, in any run.

        key = SHA-256(scope, request.digest())

    so every field of the request counts, and k samples stay k answers by their tags. Failures are not kept. Beyond the
    limit the answers that were used longest ago go first.

    Attributes:
        hits: requests that were answered from the disk.

    Args:
        inner: what is asked otherwise.
        path: a SQLite file; made where it is missing. Not on a network file system.
        scope: identity of the server; see `Endpoint.identity`.
        limit_bytes: of keys and answers; the file takes somewhat more.
        busy_s: seconds to wait for another process that writes.

    Raises:
        InvalidArgument: a file that is no cache, a negative limit.
        NotStored: when asking, a full disk, or another process that writes for longer than `busy_s`.

    Example:
        >>> import tempfile
        >>> from apportion.judges.exchange import Message, Request
        >>> from apportion.judges.transport import Mock, ask_all
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cache = Cache(Mock(["7"]), f"{folder}/answers.sqlite", scope="mock")
        ...     answers = asyncio.run(ask_all(cache, [Request((Message("user", "3 + 4?"),), model="m")] * 2))
        ...     asyncio.run(cache.aclose())
        >>> [(answer.text, answer.cached) for answer in answers]
        [('7', False), ('7', True)]
    """

    def __init__(
        self,
        inner: Transport,
        path: str | os.PathLike[str],
        *,
        scope: str,
        limit_bytes: int = 2**30,
        busy_s: float = 30.0,
    ) -> None:
        super().__init__(inner)
        at_least("limit_bytes", limit_bytes, 0, whole=True)
        self._scope, self._path = scope, os.fspath(path)
        self._limit = limit_bytes
        self._once = Once()
        self._database = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
        try:
            self._database.executescript(_TABLES)
        except sqlite3.DatabaseError as error:
            self._database.close()
            raise InvalidArgument("path", os.fspath(path), f"a SQLite file to keep answers in: {error}") from None
        # One thread: the event loop never waits for the disk, and statements never overlap.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="apportion-cache")
        self.hits = 0

    async def _on_disk(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.OperationalError as error:
            raise NotStored(f"{self._path}: {error}") from error

    def _find(self, key: str) -> Response | None:
        query = "UPDATE answers SET used = ? WHERE key = ? RETURNING response"
        row = self._database.execute(query, (time.time(), key)).fetchall()
        return replace(Response(**json.loads(row[0][0])), cached=True) if row else None

    def _keep(self, key: str, response: Response) -> None:
        run = self._database.execute
        text = json.dumps(asdict(replace(response, cached=False)))
        run("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", (key, text, time.time()))
        while run("SELECT bytes FROM total").fetchone()[0] > self._limit:
            run("DELETE FROM answers WHERE key IN (SELECT key FROM answers ORDER BY used LIMIT 32)")

    async def ask(self, request: Request) -> Response:
        """The kept answer, or a new one."""
        key = hashlib.sha256(json.dumps([self._scope, request.digest()]).encode()).hexdigest()
        async with self._once.of(key):
            kept = await self._on_disk(lambda: self._find(key))
            if kept is not None:
                self.hits += 1
                return kept
            response = await self._inner.ask(request)
            await self._on_disk(lambda: self._keep(key, response))
            return response

    async def aclose(self) -> None:
        """Closes what is wrapped, then the file."""
        try:
            await super().aclose()
        finally:
            await self._on_disk(self._database.close)
            self._thread.shutdown()
