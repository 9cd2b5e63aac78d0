"""Requests, a clock that only moves when somebody sleeps, and a server that sends whatever bytes it is told to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from apportion.judges.exchange import Message, Request


def ask(tag: str = "", *, text: str = "3 + 4?", max_tokens: int = 10, **fields: object) -> Request:
    return Request((Message("user", text),), model="judge", tag=tag, max_tokens=max_tokens, **fields)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


def reply(body: bytes, *, status: str = "200 OK", kind: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


@asynccontextmanager
async def serving(send: Callable[[bytes], list[bytes | float | None]]) -> AsyncIterator[str]:
    """Answers each call with what `send(head and body)` lists: bytes, seconds to wait, None to hang up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
                for part in send(head + await reader.readexactly(length)):
                    if part is None:
                        return
                    if isinstance(part, float):
                        await asyncio.sleep(part)
                    else:
                        writer.write(part)
                        await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
