"""A recording that answers without a server, and only what was recorded."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from apportion.errors import InvalidArgument, MissingInput, shorten
from apportion.judges.exchange import Message, Request, Response, Transport, TransportError
from apportion.judges.transport.base import Wrapper

__all__ = ["Cassette", "Recording"]


def _request(record: dict[str, Any]) -> Request:
    return Request(**{**record, "messages": tuple(Message(**one) for one in record["messages"])})


class Cassette:
    """Plays JSON lines of `{"request": ..., "response": ...}` or `{"request": ..., "error": [kind, detail]}`.

    Attributes:
        unused: digests that nobody asked for yet.

    Args:
        path: what `Recording` wrote.

    Raises:
        InvalidArgument: a line that is not a recording, or two for one request.
        MissingInput: when asking what was not recorded. It is no `TransportError`: a test must not take it for one.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.identity = f"cassette {self.path.name}"
        self._plays: dict[str, Response | TransportError] = {}
        with open(self.path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    record = json.loads(line)
                    request = _request(record["request"])
                    said = Response(**record["response"]) if "response" in record else TransportError(*record["error"])
                except (ValueError, KeyError, TypeError) as error:
                    bad = f"recordings; line {number}: {shorten(str(error))}"
                    raise InvalidArgument("path", str(path), bad) from None
                if self._plays.setdefault(request.digest(), said) is not said:
                    raise InvalidArgument("path", str(path), f"one recording per request; line {number} is a second")
        self.unused = set(self._plays)

    async def ask(self, request: Request) -> Response:
        """What was recorded."""
        digest = request.digest()
        said = self._plays.get(digest)
        if said is None:
            shown = f"{digest[:12]} {shorten(request.messages[-1].content)}"
            raise MissingInput(str(self.path), "a recorded answer", "record it with Recording(server, path)", [shown])
        self.unused.discard(digest)
        if isinstance(said, TransportError):
            raise TransportError(said.kind, said.detail)
        return said

    async def aclose(self) -> None:
        """Nothing to let go of."""


class Recording(Wrapper):
    """Writes a cassette while a server answers. The file holds the prompts in full, but no key.

    Args:
        inner: the server.
        path: a file that does not exist yet.

    Raises:
        FileExistsError: it exists.
    """

    def __init__(self, inner: Transport, path: str | os.PathLike[str]) -> None:
        super().__init__(inner)
        self._file = open(path, "x", encoding="utf-8")  # noqa: SIM115 - closed by aclose
        self._written: set[str] = set()

    def _write(self, request: Request, record: dict[str, Any]) -> None:
        if request.digest() not in self._written:
            self._written.add(request.digest())
            self._file.write(json.dumps({"request": asdict(request), **record}) + "\n")
            self._file.flush()

    async def ask(self, request: Request) -> Response:
        """The server's answer; the first one to each request is recorded."""
        try:
            response = await self._inner.ask(request)
        except TransportError as error:
            self._write(request, {"error": [error.kind, error.detail]})
            raise
        self._write(request, {"response": asdict(response)})
        return response

    async def aclose(self) -> None:
        """Closes the file and what is wrapped."""
        self._file.close()
        await super().aclose()
