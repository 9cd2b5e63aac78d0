"""A file of every call that began and every answer that came, from which a killed run goes on."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import deque
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.judges.exchange import Response
from apportion.judges.transport.base import NotStored

__all__ = ["Journal", "Sync"]

Sync: TypeAlias = Literal["each", "system"]

_FORMAT = 1
_RECENT_S = 60.0


class Journal:
    """JSON lines, only ever appended to; one process writes at a time.

        {"journal": 1, "scope": ...}
        {"asked": digest, "at": seconds since 1970, "tokens": expected}
        {"answered": digest, "response": {...}}
        {"ended": digest, "why": ...}              (a call that brought no answer)

    A last line that a kill tore is cut off; any other line that cannot be read is an error. Only where the answers
    stand is held in memory.

    Attributes:
        answers: how many there are.
        unfinished: calls of earlier runs that began and have no end: in flight when the run was killed.
        repeated: of these, how many were asked again now.
        input_tokens, output_tokens: of all its answers.
        recent: (seconds ago, tokens expected) of the calls of earlier runs that began in the last minute.

    Args:
        path: the file; made where it is missing.
        scope: the identity of the server whose answers these are.
        sync: "each": an answer is on the disk before it is used; "system": the system writes it when it likes, which
            survives a killed process, but not a power cut.

    Raises:
        InvalidArgument: a file that is no journal, that is another server's or in use by another process.
        NotStored: a full disk.
    """

    def __init__(self, path: str | os.PathLike[str], *, scope: str, sync: Sync = "system") -> None:
        if sync not in get_args(Sync):
            raise InvalidArgument("sync", sync, f"one of {', '.join(get_args(Sync))}")
        self.path = Path(path)
        self._sync = sync
        self._at: dict[bytes, int] = {}
        self._open: set[bytes] = set()
        self._began: deque[tuple[float, int]] = deque()
        self.repeated = self.input_tokens = self.output_tokens = 0
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._lock()
            self._end = self._read(scope)
            if not self._end:
                self._write({"journal": _FORMAT, "scope": scope})
        except BaseException:
            os.close(self._file)
            raise
        self.unfinished = len(self._open)
        now = time.time()
        self.recent = [(max(0.0, now - at), tokens) for at, tokens in self._began]

    @property
    def answers(self) -> int:
        """How many answers there are."""
        return len(self._at)

    def _lock(self) -> None:
        import fcntl  # only POSIX has it

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidArgument("path", str(self.path), "a journal that no other process writes") from None

    def _read(self, scope: str) -> int:
        end = 0
        with open(self.path, "rb") as lines:
            size = os.fstat(lines.fileno()).st_size
            for number, line in enumerate(lines, start=1):
                try:
                    if not line.endswith(b"\n"):
                        raise ValueError
                    self._take(json.loads(line), end, number, scope)
                except InvalidArgument:
                    raise
                except (ValueError, KeyError, TypeError):
                    # What a kill or a power cut leaves can only stand at the end.
                    if number > 1 and end + len(line) == size:
                        break
                    if number == 1 and b"\n" not in line and b'{"journal"'.startswith(line[:10].rstrip(b"\0")):
                        break
                    raise InvalidArgument("path", str(self.path), f"a journal; line {number} is not of one") from None
                end += len(line)
        os.ftruncate(self._file, end)
        return end

    def _take(self, record: dict[str, Any], at: int, number: int, scope: str) -> None:
        if number == 1:
            if record["journal"] != _FORMAT or record["scope"] != scope:
                raise InvalidArgument("scope", scope, f"what {self.path} was written for: {record['scope']!r}")
        elif "asked" in record:
            self._open.add(bytes.fromhex(record["asked"]))
            self._began.append((float(record["at"]), int(record["tokens"])))
            while self._began[0][0] < self._began[-1][0] - _RECENT_S:
                self._began.popleft()
        elif "ended" in record:
            self._open.discard(bytes.fromhex(record["ended"]))
        else:
            self._keep(bytes.fromhex(record["answered"]), Response(**record["response"]), at)

    def _keep(self, digest: bytes, response: Response, at: int) -> None:
        self._at[digest] = at
        self._open.discard(digest)
        self.input_tokens += response.input_tokens or 0
        self.output_tokens += response.output_tokens or 0

    def _write(self, record: dict[str, Any]) -> None:
        line = memoryview(json.dumps(record, allow_nan=False).encode() + b"\n")
        done = 0
        try:
            while done < len(line):
                done += os.write(self._file, line[done:])
        except OSError as error:
            # Half a line in the middle would spoil what follows.
            os.ftruncate(self._file, self._end)
            raise NotStored(f"{self.path}: {error}") from error
        self._end += done

    def find(self, digest: str) -> Response | None:
        """The answer that is stored under a digest."""
        at = self._at.get(bytes.fromhex(digest))
        if at is None:
            return None
        with open(self.path, "rb") as lines:
            lines.seek(at)
            return replace(Response(**json.loads(lines.readline())["response"]), cached=True)

    def asked(self, digest: str, tokens: int) -> None:
        """A call begins, of so many tokens as far as one can tell."""
        key = bytes.fromhex(digest)
        if key in self._open:
            self._open.discard(key)
            self.repeated += 1
        self._write({"asked": digest, "at": round(time.time(), 3), "tokens": tokens})

    def ended(self, digest: str, why: str) -> None:
        """A call brought no answer."""
        self._write({"ended": digest, "why": why})

    async def answered(self, digest: str, response: Response) -> None:
        """An answer came; it may be used once this returns."""
        at = self._end
        self._write({"answered": digest, "response": asdict(response)})
        self._keep(bytes.fromhex(digest), response, at)
        if self._sync == "each":
            await asyncio.to_thread(os.fsync, self._file)

    def close(self) -> None:
        """Closes the file, on the disk first."""
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1
