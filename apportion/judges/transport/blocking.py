"""The same transports for code without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from apportion.judges.exchange import Request, Response, Transport
from apportion.judges.transport.ask_all import Outcome, ask_all
from apportion.judges.transport.hosted import Home

__all__ = ["Blocking"]

T = TypeVar("T")


class Blocking:
    """Runs a transport in a thread with a loop of its own, so that it also works inside a notebook's loop.

    Args:
        transport: asked through this object alone; closed with it.

    Example:
        >>> from apportion.judges.exchange import Message
        >>> from apportion.judges.transport import Mock
        >>> with Blocking(Mock(["7"])) as judge:
        ...     judge.ask(Request((Message("user", "3 + 4?"),), model="m")).text
        '7'
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._home = Home()
        self._open = True

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = self._home.begin(work)
        try:
            return future.result()
        finally:
            future.cancel()

    def ask(self, request: Request) -> Response:
        """The answer, or `TransportError`."""
        return self._run(self._transport.ask(request))

    def ask_all(self, requests: Iterable[Request], *, at_once: int = 256) -> list[Outcome]:
        """As `apportion.judges.transport.ask_all`."""
        return self._run(ask_all(self._transport, requests, at_once=at_once))

    def close(self) -> None:
        """Closes the transport and ends the thread."""
        if self._open:
            self._open = False
            try:
                self._run(self._transport.aclose())
            finally:
                self._home.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
