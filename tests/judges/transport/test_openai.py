"""The client against a local server that means well, and one that does not."""

import asyncio
import json
import logging
import ssl
import tracemalloc
from collections.abc import Callable

import pytest

from apportion import InvalidArgument
from apportion.judges.exchange import Request, Response, TransportError
from apportion.judges.transport import Failure, OpenAITransport, Timeout
from apportion.judges.transport.http_reply import json_object, retry_after
from apportion.judges.transport.openai_wire import body_of, response_of
from tests.judges.transport.said import ask, reply, serving

# Reading all certificates of a machine takes longer than these tests.
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
GOOD = {
    "model": "judge-1",
    "choices": [{"message": {"content": "7"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 11, "completion_tokens": 2},
}


def said(parts: list[bytes | float | None], request: Request | None = None, **settings: object) -> Response:
    async def run() -> Response:
        async with (
            serving(lambda _: parts) as address,
            OpenAITransport(address, tls=TLS, **settings) as client,
        ):
            return await Timeout(client, seconds=5).ask(request or ask())

    return asyncio.run(run())


def failed(parts: list[bytes | float | None], **settings: object) -> TransportError:
    with pytest.raises(TransportError) as caught:
        said(parts, **settings)
    return caught.value


def test_answer_usage_and_model() -> None:
    assert said([reply(json.dumps(GOOD).encode())]) == Response("7", "stop", 11, 2, "judge-1")


def test_what_is_posted() -> None:
    seen: list[bytes] = []

    async def run() -> None:
        def send(sent: bytes) -> list[bytes]:
            seen.append(sent)
            return [reply(json.dumps(GOOD).encode())]

        async with serving(send) as address, OpenAITransport(address, tls=TLS) as client:
            await client.ask(ask(schema={"type": "integer"}, seed=3, temperature=0.5))

    asyncio.run(run())
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1")
    assert b"authorization" not in head.lower()
    assert json.loads(body) == {
        "model": "judge",
        "messages": [{"role": "user", "content": "3 + 4?"}],
        "temperature": 0.5,
        "max_tokens": 10,
        "seed": 3,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "integer"}, "strict": True},
        },
    }


@pytest.mark.parametrize(
    ("structured", "more"),
    [
        ("json_schema", {}),
        ("ignored", {}),
        ("vllm", {"structured_outputs": {"choice": ["a.b", "c"]}}),
        ("sglang", {"regex": r"(a\.b|c)"}),
    ],
)
def test_choices_per_server(structured: str, more: dict[str, object]) -> None:
    body = body_of(ask(choices=("a.b", "c")), structured=structured, limit_field="max_completion_tokens")
    assert body.pop("max_completion_tokens") == 10
    assert {key: body[key] for key in body if key not in ("model", "messages", "temperature")} == more
    assert "response_format" not in body_of(ask(schema={}), structured="ignored", limit_field="max_tokens")


@pytest.mark.parametrize(
    ("choice", "finish", "text"),
    [
        ({"message": {"content": "7"}, "finish_reason": "length"}, "length", "7"),
        ({"message": {"content": None}, "finish_reason": "content_filter"}, "refused", ""),
        ({"message": {"content": None, "refusal": "no"}, "finish_reason": "stop"}, "refused", ""),
        ({"message": {"content": "7"}, "finish_reason": "tool_calls"}, "other", "7"),
        ({"message": {"content": "7"}, "finish_reason": None}, "other", "7"),
        ({"message": {"content": "7"}, "finish_reason": ["stop"]}, "other", "7"),
        ({"message": {"content": "\ud800"}, "finish_reason": "stop"}, "stop", "?"),
    ],
)
def test_finish(choice: dict[str, object], finish: str, text: str) -> None:
    response = response_of({"choices": [choice]})
    assert (response.finish, response.text) == (finish, text)


@pytest.mark.parametrize("count", [None, True, -1, 1.5, "7", 2**80, [3]])
def test_senseless_usage_is_unknown(count: object) -> None:
    assert response_of({**GOOD, "usage": {"prompt_tokens": count, "completion_tokens": 2}}).input_tokens is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": []},
        {"choices": {"0": {}}},
        {"choices": ["7"]},
        {"choices": [{}]},
        {"choices": [{"message": "7"}]},
        {"choices": [{"message": {"content": ["7"]}}]},
        {"choices": [{"message": {"content": 7}}]},
    ],
)
def test_what_is_not_of_the_format(body: dict[str, object]) -> None:
    with pytest.raises(Failure, match="bad-reply"):
        response_of(body)


@pytest.mark.parametrize(
    ("status", "kind", "charged"),
    [
        ("400 Bad", "refused", "no"),
        ("401 No", "refused", "no"),
        ("408 Slow", "timeout", "perhaps"),
        ("429 Busy", "rate-limited", "no"),
        ("500 Oops", "unavailable", "perhaps"),
        ("503 Down", "unavailable", "no"),
        ("504 Slow", "timeout", "perhaps"),
        ("302 Elsewhere", "bad-reply", "perhaps"),
        ("204 Nothing", "bad-reply", "perhaps"),
    ],
)
def test_statuses(status: str, kind: str, charged: str) -> None:
    error = failed([reply(b"" if "204" in status else b"why", status=status, more="retry-after: 3\r\n")])
    assert isinstance(error, Failure)
    assert (error.kind, error.charged, error.retry_after) == (kind, charged, 3.0)


HOSTILE: dict[str, tuple[Callable[[], list[bytes | float | None]], str]] = {
    "huge, declared": (lambda: [b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n{"], "bad-reply"),
    "huge, chunked": (
        lambda: [
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
            *([b"10000\r\n" + b" " * 65536 + b"\r\n"] * 8),
        ],
        "bad-reply",
    ),
    "web page": (lambda: [reply(b"<html>", kind="text/html")], "bad-reply"),
    "no type": (lambda: [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"], "bad-reply"),
    "no JSON": (lambda: [reply(b'{"choices": [')], "bad-reply"),
    "NaN": (lambda: [reply(b'{"choices": NaN}')], "bad-reply"),
    "no UTF-8": (lambda: [reply(b'{"\xff": 1}')], "bad-reply"),
    "a list": (lambda: [reply(b"[]")], "bad-reply"),
    "long number": (lambda: [reply(b'{"a": ' + b"9" * 9000 + b"}")], "bad-reply"),
    "deep": (lambda: [reply(b'{"a":' * 60_000)], "bad-reply"),
    "packed": (lambda: [reply(b"\x1f\x8b", more="content-encoding: gzip\r\n")], "bad-reply"),
    "hangs up": (lambda: [None], "unavailable"),
    "hangs up in the middle": (lambda: [reply(b"{}")[:-1], None], "unavailable"),
    "not HTTP": (lambda: [b"SSH-2.0-server\r\n\r\n", None], "unavailable"),
    "endless header": (lambda: [b"HTTP/1.1 200 OK\r\nx: ", *([b"y" * 65536] * 8), None], "unavailable"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_servers(name: str) -> None:
    parts, kind = HOSTILE[name]
    error = failed(parts(), response_bytes=300_000)
    assert error.kind == kind
    assert len(str(error)) < 700


def test_a_huge_body_is_not_read() -> None:
    tracemalloc.start()
    try:
        failed([b"HTTP/1.1 500 No\r\n\r\n", *([b"x" * 65536] * 500), None])
        assert tracemalloc.get_traced_memory()[1] < 20e6  # of 33 MB that it would have sent
    finally:
        tracemalloc.stop()


def test_a_server_that_drips_ends_at_the_timeout() -> None:
    async def run() -> None:
        drip: list[bytes | float | None] = [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"]
        async with (
            serving(lambda _: drip + [b" ", 0.02] * 200) as address,
            OpenAITransport(address, silence_s=1, tls=TLS) as client,
        ):
            await Timeout(client, seconds=0.2).ask(ask())

    with pytest.raises(Failure, match=r"timeout: no answer within 0\.2 s"):
        asyncio.run(run())


def test_a_silent_server() -> None:
    assert failed([2.0], silence_s=0.1).kind == "timeout"


def test_nobody_listens() -> None:
    with pytest.raises(Failure, match="unavailable: no connection") as caught:
        asyncio.run(OpenAITransport("http://127.0.0.1:1/v1", tls=TLS).ask(ask()))
    assert caught.value.charged == "no"


def test_the_key_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-secret")
    caplog.set_level(logging.DEBUG)
    seen: list[bytes] = []

    async def run() -> None:
        def send(sent: bytes) -> list[bytes]:
            seen.append(sent)
            return [reply(b"wrong key: " + b"x" * 280 + b"sk-secret", status="401 No")]

        async with serving(send) as address, OpenAITransport(address, key_variable="JUDGE_KEY", tls=TLS) as client:
            assert "secret" not in client.identity + repr(client)
            await client.ask(ask())

    with pytest.raises(Failure) as caught:
        asyncio.run(run())
    assert b"Bearer sk-secret" in seen[0]
    assert "sk-" not in str(caught.value)
    assert "secret" not in caplog.text


@pytest.mark.parametrize("key", ["", " ", "sk-secret\n", "sk-sécret"])
def test_a_key_that_cannot_stand_in_a_header_is_not_quoted(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", key)
    with pytest.raises(InvalidArgument, match="key_variable='JUDGE_KEY'") as caught:
        OpenAITransport("http://127.0.0.1/v1", key_variable="JUDGE_KEY", tls=TLS)
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"base_url": "127.0.0.1:8000"},
        {"base_url": "ftp://host/v1"},
        {"base_url": "http://user:pw@host/v1"},
        {"base_url": "http://host/v1?key=pw"},
        {"structured": "guided"},
        {"limit_field": "max"},
        {"silence_s": float("nan")},
        {"connections": 0},
        {"response_bytes": 1.5},
        {"key_variable": "APPORTION_NO_SUCH_VARIABLE"},
    ],
)
def test_bad_settings(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        OpenAITransport(**{"base_url": "http://127.0.0.1/v1", **settings})
    assert "pw" not in str(caught.value)


def test_one_answer_per_request() -> None:
    with pytest.raises(InvalidArgument, match="n=2"):
        asyncio.run(OpenAITransport("http://127.0.0.1:1/v1", tls=TLS).ask(ask(n=2)))


@pytest.mark.parametrize("text", ["", "soon", "nan", "inf", "-1", "9" * 99, "Mon, 99 Foo 2026 00:00:00 GMT"])
def test_senseless_retry_after(text: str) -> None:
    assert retry_after({"retry-after": text}) is None


def test_retry_after_as_a_date() -> None:
    assert retry_after({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}) == 0.0


def test_content_type_with_parameters() -> None:
    assert json_object(b"{}", "Application/JSON ; charset=utf-8") == {}
