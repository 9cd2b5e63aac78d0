"""How many calls at once, and how many per minute."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from apportion.judges.exchange import Request, Response, Transport, TransportError
from apportion.judges.transport.base import Failure, Wrapper, at_least
from apportion.judges.transport.sizes import tokens_expected
from apportion.judges.transport.window import Window

__all__ = ["Limits"]


class Limits(Wrapper):
    """Holds calls back until they are allowed; the wait is no part of a call's timeout.

    In any minute at most `requests_per_minute` calls begin, and calls of at most `tokens_per_minute` tokens: what is
    expected of them (bytes / 4 and the longest answer) until the server has counted.

    Attributes:
        in_flight, most_in_flight: calls now, and the most there ever were.

    Args:
        inner: what is asked.
        concurrency: the most calls at once, >= 1.
        requests_per_minute: None: any number.
        tokens_per_minute: None: any number. A request that expects more fails as "refused".
        before: (seconds ago, tokens) of calls of a run that this one goes on from, oldest first: they count too.

    Raises:
        InvalidArgument: a limit below 1.

    Example:
        >>> from apportion.judges.exchange import Message, Request
        >>> from apportion.judges.transport import Mock, ask_all
        >>> mock = Mock(lambda request: request.tag, delay_s=0.001)
        >>> ask = [Request((Message("user", "?"),), model="m", tag=f"sample {k}") for k in range(9)]
        >>> answers = asyncio.run(ask_all(Limits(mock, concurrency=2), ask))
        >>> [answer.text for answer in answers][:2], mock.most_in_flight
        (['sample 0', 'sample 1'], 2)
    """

    def __init__(
        self,
        inner: Transport,
        *,
        concurrency: int = 16,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        before: Sequence[tuple[float, int]] = (),
    ) -> None:
        super().__init__(inner)
        at_least("concurrency", concurrency, 1, whole=True)
        at_least("requests_per_minute", requests_per_minute, 1)
        at_least("tokens_per_minute", tokens_per_minute, 1)
        self._slots = asyncio.Semaphore(concurrency)
        self._calls: Window | None = None
        if requests_per_minute is not None:
            self._calls = Window(requests_per_minute, before=[(ago, 1) for ago, _ in before])
        self._tokens = None if tokens_per_minute is None else Window(tokens_per_minute, before=before)
        self._most_tokens = tokens_per_minute
        self.in_flight = self.most_in_flight = 0

    async def ask(self, request: Request) -> Response:
        """The answer, once the call is allowed."""
        expected = tokens_expected(request)
        if self._most_tokens is not None and expected > self._most_tokens:
            raise TransportError("refused", f"{expected} tokens expected, the limit is {self._most_tokens:g} a minute")
        async with self._slots:
            if self._calls is not None:
                await self._calls.take(1)
            entry = None if self._tokens is None else await self._tokens.take(expected)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            try:
                response = await self._inner.ask(request)
            except Failure as failure:
                if self._tokens is not None and entry is not None and failure.charged == "no":
                    self._tokens.correct(entry, 0.0)
                raise
            finally:
                self.in_flight -= 1
            counted = response.input_tokens, response.output_tokens
            if self._tokens is not None and entry is not None and counted[0] is not None and counted[1] is not None:
                self._tokens.correct(entry, counted[0] + counted[1])
            return response
