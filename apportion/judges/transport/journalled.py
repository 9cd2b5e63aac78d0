"""Two ends of a journal: one reads before anything else is done, one writes next to the server."""

from __future__ import annotations

import asyncio

from apportion.judges.exchange import Request, Response, Transport, TransportError
from apportion.judges.transport.base import Wrapper
from apportion.judges.transport.journal import Journal
from apportion.judges.transport.once import Once
from apportion.judges.transport.sizes import tokens_expected

__all__ = ["Journalled", "Resumed"]


class Resumed(Wrapper):
    """Answers from the journal what it holds. Outermost, so that a stored answer waits for no limit.

    Equal requests at the same moment are asked one after the other: the second finds the answer of the first.

    Attributes:
        found: requests that the journal answered.

    Args:
        inner: what is asked otherwise; somewhere in it a `Journalled` writes.
        journal: closed with this transport.
    """

    def __init__(self, inner: Transport, journal: Journal) -> None:
        super().__init__(inner)
        self._journal = journal
        self._once = Once()
        self.found = 0

    async def ask(self, request: Request) -> Response:
        """The stored answer, or a new one."""
        digest = request.digest()
        async with self._once.of(digest):
            stored = self._journal.find(digest)
            if stored is not None:
                self.found += 1
                return stored
            return await self._inner.ask(request)

    async def aclose(self) -> None:
        """Closes what is wrapped, then the journal."""
        try:
            await super().aclose()
        finally:
            self._journal.close()


class Journalled(Wrapper):
    """Writes every call and every answer down. Inside retries and limits: what is open in the file is in flight.

    Args:
        inner: what is asked, with its timeout.
        journal: where it is written; an answer that cannot be written is not used: `NotStored` is raised.
    """

    def __init__(self, inner: Transport, journal: Journal) -> None:
        super().__init__(inner)
        self._journal = journal

    async def ask(self, request: Request) -> Response:
        """The answer, which is in the journal."""
        digest = request.digest()
        self._journal.asked(digest, tokens_expected(request))
        try:
            response = await self._inner.ask(request)
        except TransportError as error:
            self._journal.ended(digest, error.kind)
            raise
        except asyncio.CancelledError:
            self._journal.ended(digest, "cancelled")
            raise
        await self._journal.answered(digest, response)
        return response
