"""Reading what an HTTP server sends, which may be anything: limits first, then meaning."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from apportion.errors import shorten
from apportion.judges.exchange import ErrorKind
from apportion.judges.transport.base import Failure

__all__ = ["beginning", "failure_of", "json_object", "read", "retry_after"]

# What is read of a body that explains an error.
_EXPLAINED = 4096


async def read(reply: Any, *, limit: int) -> bytes:
    """The body of a streamed httpx reply, at most `limit` bytes.

    Raises:
        Failure: "bad-reply" for a longer body, or a compressed one, which could unpack to any size.
    """
    coding = reply.headers.get("content-encoding", "identity")
    if coding != "identity":
        raise Failure("bad-reply", "a compressed body, which was not asked for")
    declared = reply.headers.get("content-length", "")
    if declared.isascii() and declared.isdecimal() and (len(declared) > 15 or int(declared) > limit):
        raise Failure("bad-reply", f"a body of {declared[:15]} bytes; the limit is {limit}")
    body = bytearray()
    async for part in reply.aiter_raw():
        body += part
        if len(body) > limit:
            raise Failure("bad-reply", f"a body of more than {limit} bytes")
    return bytes(body)


async def beginning(reply: Any) -> bytes:
    """The first bytes of a body that explains an error, as they come."""
    body = bytearray()
    async for part in reply.aiter_raw():
        body += part
        if len(body) >= _EXPLAINED:
            break
    return bytes(body[:_EXPLAINED])


def json_object(body: bytes, content_type: str) -> dict[str, Any]:
    """The JSON object that a body holds.

    Raises:
        Failure: "bad-reply" for another content type, text that is not JSON (NaN and infinities are not), too deep a
            nesting, or JSON that is not an object.

    Example:
        >>> json_object(b'{"a": 1}', "application/json; charset=utf-8")
        {'a': 1}
        >>> json_object(b'{"a": NaN}', "application/json")
        Traceback (most recent call last):
            ...
        apportion.judges.transport.base.Failure: bad-reply: not JSON: NaN is no JSON number
    """
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise Failure("bad-reply", f"content type {shorten(content_type, 80)}, not application/json")
    try:
        found = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Failure("bad-reply", f"not JSON: {shorten(str(error), 120).strip(chr(39))}") from None
    if not isinstance(found, dict):
        raise Failure("bad-reply", f"JSON, but no object: {shorten(found)}")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def failure_of(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """What a status other than 200 means for the caller.

    Example:
        >>> failure_of(429, {"retry-after": "2"}, b"slow down").kind, failure_of(503, {}, b"").kind
        ('rate-limited', 'unavailable')
        >>> failure_of(401, {}, b"no key").kind, failure_of(302, {}, b"").kind
        ('refused', 'bad-reply')
    """
    kind: ErrorKind = "bad-reply"
    if status in (408, 504):
        kind = "timeout"
    elif status == 429:
        kind = "rate-limited"
    elif status >= 500:
        kind = "unavailable"
    elif status >= 400:
        kind = "refused"
    detail = f"HTTP {status}: {shorten(body.decode('utf-8', 'replace'), 300)}"
    unseen = kind in ("rate-limited", "refused") or status == 503
    return Failure(kind, detail, retry_after=retry_after(headers), charged="no" if unseen else "perhaps")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or a date; None where it makes no sense.

    Example:
        >>> retry_after({"retry-after": "1.5"}), retry_after({"retry-after": "-inf"}), retry_after({})
        (1.5, None, None)
    """
    text = headers.get("retry-after", "").strip()
    if not text or len(text) > 64:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
        except (ValueError, OverflowError):
            return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
