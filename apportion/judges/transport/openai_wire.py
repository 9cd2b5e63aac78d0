"""The chat-completions format: a `Request` as JSON, a reply as a `Response`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from apportion.errors import shorten
from apportion.judges.exchange import Finish, Request, Response
from apportion.judges.transport.base import Failure

__all__ = ["LimitField", "Structured", "body_of", "response_of"]

Structured: TypeAlias = Literal["json_schema", "vllm", "sglang", "ignored"]
LimitField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]

_FINISH: Mapping[object, Finish] = {"stop": "stop", "length": "length", "content_filter": "refused"}
_MOST_TOKENS = 2**40


def body_of(request: Request, *, structured: Structured, limit_field: LimitField) -> dict[str, Any]:
    """The JSON that is posted.

    Example:
        >>> from apportion.judges.exchange import Message, Request
        >>> ask = Request((Message("user", "2 + 2 = 4?"),), model="judge", max_tokens=4, choices=("yes", "no"))
        >>> body_of(ask, structured="vllm", limit_field="max_tokens")["structured_outputs"]
        {'choice': ['yes', 'no']}
        >>> sorted(body_of(ask, structured="json_schema", limit_field="max_tokens"))
        ['max_tokens', 'messages', 'model', 'temperature']
    """
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [{"role": one.role, "content": one.content} for one in request.messages],
        "temperature": request.temperature,
        limit_field: request.max_tokens,
    }
    if request.seed is not None:
        body["seed"] = request.seed
    if request.schema is not None and structured != "ignored":
        form = {"name": "answer", "schema": dict(request.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    if request.choices is not None and structured == "vllm":
        body["structured_outputs"] = {"choice": list(request.choices)}
    if request.choices is not None and structured == "sglang":
        body["regex"] = "(" + "|".join(map(re.escape, request.choices)) + ")"
    return body


def response_of(reply: Mapping[str, Any]) -> Response:
    """The first choice of a reply; what is not of the format is no answer.

    Raises:
        Failure: "bad-reply" naming what is missing or of another type.

    Example:
        >>> response_of({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "model": "judge"})
        Response(text='yes', finish='stop', input_tokens=None, output_tokens=None, model='judge', cached=False)
    """
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Failure("bad-reply", f"no choices in it: {shorten(dict(reply))}")
    message, reason = choices[0].get("message"), choices[0].get("finish_reason")
    if not isinstance(message, dict):
        raise Failure("bad-reply", f"a choice without a message: {shorten(choices[0])}")
    text, refusal = message.get("content"), message.get("refusal")
    if text is not None and not isinstance(text, str):
        raise Failure("bad-reply", f"content that is not text: {shorten(text)}")
    finish = _FINISH.get(reason, "other") if isinstance(reason, str) else "other"
    usage, model = reply.get("usage"), reply.get("model")
    counts = usage if isinstance(usage, dict) else {}
    return Response(
        # A lone surrogate from a \\u escape could not be written to any file.
        text=(text or "").encode("utf-8", "replace").decode("utf-8"),
        finish="refused" if isinstance(refusal, str) and refusal else finish,
        input_tokens=_count(counts.get("prompt_tokens")),
        output_tokens=_count(counts.get("completion_tokens")),
        model=shorten(model, 200).strip("'") if isinstance(model, str) else "",
    )


def _count(value: object) -> int | None:
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if usable and isinstance(value, int) else None
