"""Asking many requests; each ends exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeAlias

from apportion.judges.exchange import Request, Response, Transport, TransportError
from apportion.judges.transport.base import at_least

__all__ = ["Outcome", "ask_all", "ask_each"]

Outcome: TypeAlias = Response | TransportError


async def ask_each(
    transport: Transport, requests: Iterable[Request], take: Callable[[int, Outcome], None], *, at_once: int = 256
) -> None:
    """Calls `take(index, outcome)` once for every request, in the order in which answers come.

    Args:
        transport: asked for each; its own limits hold.
        requests: taken one by one, so that they need not all be in memory.
        take: what is done with an answer or a `TransportError`.
        at_once: requests that are on their way, waiting ones included; above the transport's concurrency.

    Raises:
        Exception: what is not a `TransportError` (the endpoint is down for good, a disk is full, a bug) ends all.
    """
    at_least("at_once", at_once, 1, whole=True)
    numbered = enumerate(requests)

    async def work() -> None:
        for index, request in numbered:
            try:
                outcome: Outcome = await transport.ask(request)
            except TransportError as error:
                outcome = error
            take(index, outcome)

    workers = [asyncio.create_task(work()) for _ in range(at_once)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def ask_all(transport: Transport, requests: Iterable[Request], *, at_once: int = 256) -> list[Outcome]:
    """The outcomes of all requests, in their order; see `ask_each`.

    Example:
        >>> from apportion.judges.exchange import Message
        >>> from apportion.judges.transport import Mock
        >>> said = Mock(["7", TransportError("timeout", "no answer within 1 s")])
        >>> ask = [Request((Message("user", "3 + 4?"),), model="m", tag=f"sample {k}") for k in range(2)]
        >>> asyncio.run(ask_all(said, ask, at_once=1))
        [Response(text='7', finish='stop', input_tokens=None, output_tokens=None, model='m', cached=False),
         TransportError('timeout: no answer within 1 s')]
    """
    found: dict[int, Outcome] = {}
    await ask_each(transport, requests, found.__setitem__, at_once=at_once)
    return [found[index] for index in range(len(found))]
