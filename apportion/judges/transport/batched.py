"""Models in this process answer batches; callers ask one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from apportion.errors import InvalidArgument, shorten
from apportion.judges.exchange import Request, Response, TransportError
from apportion.judges.transport.base import at_least

__all__ = ["Batched", "Generate"]

Generate: TypeAlias = Callable[[Sequence[Request]], Sequence[Response | TransportError]]


class Batched:
    """Collects the requests of a moment and has them answered together, in a thread, one batch at a time.

    Attributes:
        identity: what stored answers are kept under.

    Args:
        generate: one outcome per request, in order. What it raises fails the whole batch as "unavailable".
        identity: which model, and how it is asked.
        batch: the most requests of a batch.
        gather_s: seconds that the first request of a batch waits for others.

    Raises:
        InvalidArgument: a batch below 1; when asking, more than one answer per request.

    Example:
        >>> from apportion.judges.exchange import Message
        >>> from apportion.judges.transport import ask_all
        >>> model = Batched(lambda asked: [Response(f"{len(asked)} at once")] * len(asked), identity="counts")
        >>> ask = [Request((Message("user", "?"),), model="m", tag=f"sample {k}") for k in range(3)]
        >>> {answer.text for answer in asyncio.run(ask_all(model, ask))}
        {'3 at once'}
    """

    def __init__(self, generate: Generate, *, identity: str, batch: int = 64, gather_s: float = 0.005) -> None:
        at_least("batch", batch, 1, whole=True)
        at_least("gather_s", gather_s, 0)
        self.identity = identity
        self._generate = generate
        self._batch = batch
        self._gather_s = gather_s
        self._waiting: list[tuple[Request, asyncio.Future[Response]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def ask(self, request: Request) -> Response:
        """The model's answer."""
        if request.n != 1:
            raise InvalidArgument("n", request.n, "1: a response holds one answer; k samples are k requests")
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        await asyncio.sleep(self._gather_s)
        while self._waiting:
            taken, self._waiting = self._waiting[: self._batch], self._waiting[self._batch :]
            taken = [(request, answer) for request, answer in taken if not answer.done()]
            if not taken:
                continue
            try:
                outcomes = await self._outcomes([request for request, _ in taken])
            except asyncio.CancelledError:
                self._waiting = taken + self._waiting
                raise
            for (_, answer), outcome in zip(taken, outcomes, strict=True):
                if not answer.done():
                    _settle(answer, outcome)

    async def _outcomes(self, requests: Sequence[Request]) -> Sequence[Response | TransportError]:
        try:
            found = await asyncio.to_thread(self._generate, requests)
        except Exception as error:  # noqa: BLE001 - foreign code; what it raises is kept as text
            why = f"{type(error).__name__}: {shorten(str(error), 300)}"
            return [TransportError("unavailable", why) for _ in requests]
        if len(found) == len(requests):
            return found
        return [TransportError("bad-reply", f"{len(found)} answers to {len(requests)} requests") for _ in requests]

    async def aclose(self) -> None:
        """Requests that still wait fail; the model stays its owner's."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        for _, answer in self._waiting:
            if not answer.done():
                _settle(answer, TransportError("unavailable", "the transport was closed"))


def _settle(answer: asyncio.Future[Response], outcome: Response | TransportError) -> None:
    if isinstance(outcome, TransportError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
