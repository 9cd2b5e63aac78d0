"""A limit on the whole of a call."""

from __future__ import annotations

import asyncio

from apportion.judges.exchange import Request, Response, Transport
from apportion.judges.transport.base import Failure, Wrapper, at_least

__all__ = ["Timeout"]


class Timeout(Wrapper):
    """Gives a call up after `seconds`, also where the server drips one byte at a time.

    Args:
        inner: what is asked.
        seconds: for the whole call, > 0.

    Raises:
        InvalidArgument: a limit that is not a number >= 0.001.

    Example:
        >>> from apportion.judges.exchange import Message, Request
        >>> from apportion.judges.transport import Mock
        >>> late = Timeout(Mock(["7"], delay_s=9), seconds=0.01)
        >>> asyncio.run(late.ask(Request((Message("user", "3 + 4?"),), model="m")))
        Traceback (most recent call last):
            ...
        apportion.judges.transport.base.Failure: timeout: no answer within 0.01 s
    """

    def __init__(self, inner: Transport, *, seconds: float) -> None:
        super().__init__(inner)
        at_least("seconds", seconds, 0.001)
        self._seconds = seconds

    async def ask(self, request: Request) -> Response:
        """The answer, or `Failure` "timeout"."""
        try:
            async with asyncio.timeout(self._seconds) as limit:
                return await self._inner.ask(request)
        except TimeoutError:
            if not limit.expired():
                raise
            raise Failure("timeout", f"no answer within {self._seconds:g} s") from None
