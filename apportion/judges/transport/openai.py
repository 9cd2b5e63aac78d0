"""Asking a server that speaks OpenAI's chat completions: vLLM, SGLang, hosted models."""

from __future__ import annotations

import json
import os
import ssl
from types import TracebackType
from typing import Self, get_args
from urllib.parse import urlsplit

from apportion._extras import require
from apportion.errors import InvalidArgument, shorten
from apportion.judges.exchange import Request, Response
from apportion.judges.transport.base import Failure, at_least
from apportion.judges.transport.http_reply import beginning, failure_of, json_object, read
from apportion.judges.transport.openai_wire import LimitField, Structured, body_of, response_of

__all__ = ["OpenAITransport"]


class OpenAITransport:
    """Posts every request to `{base_url}/chat/completions`.

    The key is read from the environment, sent in one header, and stands in no error, digest, file or `repr`. Redirects
    are not followed, compressed bodies are refused.

    Attributes:
        identity: address and way of asking; stored answers are kept under it.

    Args:
        base_url: such as `http://127.0.0.1:8000/v1`; without user, password or query.
        key_variable: name of the environment variable that holds the API key; None: no key is sent.
        structured: what the server can be made to follow. "json_schema": a request's schema, its choices are left to
            the prompt; "vllm", "sglang": its schema and its choices; "ignored": both are left to the prompt.
        limit_field: what the server calls the longest answer; OpenAI's reasoning models want "max_completion_tokens".
        silence_s: seconds without a byte after which a call is given up. A server that drips needs `Timeout` too.
        connections: the most connections held at once.
        response_bytes: the largest reply that is read.
        tls: which certificates are trusted; default: httpx's.

    Raises:
        InvalidArgument: one of these that cannot be used; an environment variable that is empty or absent; when
            asking, more than one answer per request.
        MissingExtra: httpx is not installed.

    Example:
        >>> OpenAITransport("http://127.0.0.1:8000/v1", structured="vllm").identity
        'openai http://127.0.0.1:8000/v1 vllm max_tokens'
    """

    def __init__(
        self,
        base_url: str,
        *,
        key_variable: str | None = None,
        structured: Structured = "json_schema",
        limit_field: LimitField = "max_tokens",
        silence_s: float = 60.0,
        connections: int = 256,
        response_bytes: int = 4 * 2**20,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument("base_url", parts.scheme or "", "an address that starts with http:// or https://")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise InvalidArgument("base_url", parts.hostname, "an address alone: a key belongs into key_variable")
        for name, value, known in (
            ("structured", structured, get_args(Structured)),
            ("limit_field", limit_field, get_args(LimitField)),
        ):
            if value not in known:
                raise InvalidArgument(name, value, f"one of {', '.join(known)}")
        at_least("silence_s", silence_s, 0.001)
        at_least("connections", connections, 1, whole=True)
        at_least("response_bytes", response_bytes, 1, whole=True)
        self._key = "" if key_variable is None else os.environ.get(key_variable, "")
        # What cannot stand in a header would be quoted by the error that says so.
        if key_variable is not None and not (self._key.isascii() and self._key.isprintable() and self._key.strip()):
            expected = "the name of an environment variable that holds a key: printable ASCII, no line end"
            raise InvalidArgument("key_variable", key_variable, expected)
        self._httpx = require("httpx", extra="judges")
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._structured: Structured = structured
        self._limit_field: LimitField = limit_field
        self._largest = response_bytes
        self.identity = f"openai {base_url.rstrip('/')} {structured} {limit_field}"
        headers = {"accept": "application/json", "accept-encoding": "identity", "content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        self._client = self._httpx.AsyncClient(
            headers=headers,
            timeout=self._httpx.Timeout(silence_s, pool=None),
            limits=self._httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            follow_redirects=False,
            verify=True if tls is None else tls,
        )

    async def ask(self, request: Request) -> Response:
        """The server's answer.

        Raises:
            Failure: what went wrong, in the words of `TransportError`.
        """
        if request.n != 1:
            raise InvalidArgument("n", request.n, "1: a response holds one answer; k samples are k requests")
        body = body_of(request, structured=self._structured, limit_field=self._limit_field)
        return await self._post(json.dumps(body, allow_nan=False).encode())

    async def _post(self, body: bytes) -> Response:
        httpx = self._httpx
        try:
            async with self._client.stream("POST", self._url, content=body) as reply:
                if reply.status_code != 200:
                    raise failure_of(reply.status_code, reply.headers, self._without_key(await beginning(reply)))
                content = self._without_key(await read(reply, limit=self._largest))
                return response_of(json_object(content, reply.headers.get("content-type", "")))
        except (httpx.ConnectTimeout, httpx.ConnectError) as error:
            raise Failure(
                "unavailable", f"no connection to {self._url}: {shorten(str(error), 300)}", charged="no"
            ) from None
        except httpx.TimeoutException as error:
            raise Failure("timeout", f"{type(error).__name__}: the server went silent") from None
        except httpx.DecodingError as error:
            raise Failure("bad-reply", f"{type(error).__name__}: {shorten(str(error), 300)}") from None
        except httpx.RequestError as error:
            raise Failure("unavailable", f"{type(error).__name__}: {shorten(str(error), 300)}") from None

    def _without_key(self, body: bytes) -> bytes:
        # Some servers quote the key that they refuse.
        return body.replace(self._key.encode(), b"***") if self._key else body

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
