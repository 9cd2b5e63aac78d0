"""Transports that live on a loop of their own, so that they outlast the loops of their callers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from apportion.judges.exchange import Request, Response, Transport
from apportion.judges.transport.base import Wrapper

__all__ = ["Home", "Hosted"]

T = TypeVar("T")


class Home:
    """An event loop in a thread; it starts when first used."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts `work` over there; cancelling the future cancels it."""
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="apportion-judge", daemon=True)
                self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Ends the thread; using it again starts another."""
        with self._starting:
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


class Hosted(Wrapper):
    """May be asked from any event loop, one after the other or at the same time.

    Connections, locks and limits belong to the loop on which they were first used, but observing runs a new loop for
    every batch of rollouts: here they all live on one.

    Args:
        inner: what is asked, on a loop in a thread of its own, and by nobody else.

    Example:
        >>> from apportion.judges.exchange import Message
        >>> from apportion.judges.transport import Mock
        >>> judge = Hosted(Mock(["7", "8"]))
        >>> [asyncio.run(judge.ask(Request((Message("user", "?"),), model="m"))).text for _ in range(2)]
        ['7', '8']
    """

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._home = Home()

    async def ask(self, request: Request) -> Response:
        """The answer of what is wrapped."""
        return await asyncio.wrap_future(self._home.begin(self._inner.ask(request)))

    async def aclose(self) -> None:
        """Closes what is wrapped, and ends the thread."""
        await asyncio.wrap_future(self._home.begin(self._inner.aclose()))
        await asyncio.to_thread(self._home.close)
