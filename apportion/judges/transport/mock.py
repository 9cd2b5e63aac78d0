"""A model that says what a script says: for tests, and for trying a policy against failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from apportion.errors import InvalidArgument
from apportion.judges.exchange import Request, Response
from apportion.judges.transport.base import at_least

__all__ = ["Mock", "Said"]

Said: TypeAlias = str | Response | BaseException


class Mock:
    """Answers as scripted; an exception in the script is raised.

    Attributes:
        asked: the requests that came, in order.
        in_flight, most_in_flight: requests being answered now, and the most there ever were.

    Args:
        script: a function of the request, or what is said to the first, second, ... request.
        delay_s: seconds before each answer, or a function of the request.
        identity: what stored answers are kept under.

    Raises:
        InvalidArgument: a script that is neither; when asking, one that has ended.

    Example:
        >>> import asyncio
        >>> from apportion.judges.exchange import Message, Request
        >>> asyncio.run(Mock(["7"]).ask(Request((Message("user", "3 + 4?"),), model="mock"))).text
        '7'
    """

    def __init__(
        self,
        script: Callable[[Request], Said] | Iterable[Said],
        *,
        delay_s: float | Callable[[Request], float] = 0.0,
        identity: str = "mock",
    ) -> None:
        if isinstance(script, str) or not (callable(script) or isinstance(script, Iterable)):
            raise InvalidArgument("script", script, "a function of the request, or a sequence of what is said")
        if not callable(delay_s):
            at_least("delay_s", delay_s, 0)
        self._next = script if callable(script) else _in_order(iter(script))
        self._delay = delay_s
        self.identity = identity
        self.asked: list[Request] = []
        self.in_flight = self.most_in_flight = 0

    async def ask(self, request: Request) -> Response:
        """What the script says next."""
        self.asked.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            said = self._next(request)
            await asyncio.sleep(self._delay(request) if callable(self._delay) else self._delay)
        finally:
            self.in_flight -= 1
        if isinstance(said, BaseException):
            raise said
        return said if isinstance(said, Response) else Response(said, model=request.model)

    async def aclose(self) -> None:
        """Nothing to let go of."""


def _in_order(script: Iterator[Said]) -> Callable[[Request], Said]:
    def say(request: Request) -> Said:
        for said in script:
            return said
        raise InvalidArgument("script", request.tag or request.digest()[:12], "something to say to this request too")

    return say
