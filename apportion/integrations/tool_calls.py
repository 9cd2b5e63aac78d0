"""Calls written as JSON: the field `tool_calls` of a chat message, and `<tool_call>` tags in its text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from apportion.integrations.strict_json import MAX_DEPTH, BadJson, decode, too_deep
from apportion.rollouts import Action

__all__ = ["CLOSING_TAG", "OPENING_TAG", "hermes_calls", "openai_call"]

OPENING_TAG, CLOSING_TAG = "<tool_call>", "</tool_call>"
_SPACE = re.compile(r"\s*+")


def openai_call(call: Any) -> Action:
    """One entry of `tool_calls` (or the older `function_call`); `raw` is the entry as JSON.

    Example:
        >>> openai_call({"id": "c1", "function": {"name": "add", "arguments": '{"a": 1}'}}).arguments
        {'a': 1}
        >>> openai_call({"id": "c1", "function": {"name": "add", "arguments": '{"a": 1'}}).error
        "arguments of 'add': Expecting ',' delimiter at character 7"
    """
    call_id = call.get("id") if isinstance(call, Mapping) else None
    call_id = call_id if isinstance(call_id, str) else None
    raw = _as_json(call)
    try:
        name, arguments = _name_and_arguments(call)
    except BadCall as error:
        return Action(None, {}, raw, "openai", call_id, str(error))
    return Action(name, arguments, raw, "openai", call_id)


class BadCall(ValueError):
    """Why a call cannot be used."""


def _name_and_arguments(call: Any) -> tuple[str, Mapping[str, Any]]:
    body = call.get("function", call) if isinstance(call, Mapping) else call
    if not isinstance(body, Mapping):
        raise BadCall(f"the call is {type(body).__name__}, not an object with a name and arguments")
    name, arguments = body.get("name"), body.get("arguments")
    if not isinstance(name, str) or not name:
        raise BadCall("the call has no name")
    if isinstance(arguments, str):
        try:
            arguments = _whole(arguments)
        except BadJson as error:
            raise BadCall(f"arguments of {name[:80]!r}: {error}") from None
    if not isinstance(arguments, Mapping):
        raise BadCall(f"arguments of {name[:80]!r} are {type(arguments).__name__}, not an object")
    if too_deep([arguments]):
        raise BadCall(f"arguments of {name[:80]!r} are nested deeper than {MAX_DEPTH} levels")
    return name, arguments


def _whole(text: str) -> Any:
    value, end = decode(text, _after_space(text, 0))
    end = _after_space(text, end)
    if end < len(text):
        raise BadJson("text after the JSON", end)
    return value


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__} that is not JSON>"


def hermes_calls(text: str) -> Iterator[Action]:
    """The `<tool_call>` blocks of a text, good and bad; a tag may stand inside a JSON string without ending its block.

    Example:
        >>> [call.error for call in hermes_calls('<tool_call>{"name": "f", "arguments": {}}')]
        ["the call of 'f' is not followed by </tool_call> at character 41"]
    """
    place = 0
    while True:
        opening = text.find(OPENING_TAG, place)
        stray = text.find(CLOSING_TAG, place, opening if opening >= 0 else len(text))
        if stray >= 0:
            place = stray + len(CLOSING_TAG)
            error = f"{CLOSING_TAG} without {OPENING_TAG} at character {stray}"
            yield Action(None, {}, CLOSING_TAG, "hermes", None, error)
            continue
        if opening < 0:
            return
        try:
            name, arguments, call_id, place = _hermes_call(text, opening + len(OPENING_TAG))
        except BadJson as bad:
            place = _end_of_bad_call(text, opening + len(OPENING_TAG))
            yield Action(None, {}, text[opening:place], "hermes", None, str(bad))
        else:
            yield Action(name, arguments, text[opening:place], "hermes", call_id)


def _hermes_call(text: str, start: int) -> tuple[str, dict[str, Any], str | None, int]:
    start = _after_space(text, start)
    value, end = decode(text, start)
    if not isinstance(value, dict):
        raise BadJson("the call is not an object with a name and arguments", start)
    name, arguments, call_id = value.get("name"), value.get("arguments"), value.get("id")
    if not isinstance(name, str) or not name:
        raise BadJson("the call has no name", start)
    if not isinstance(arguments, dict):
        found = f"{type(arguments).__name__} for arguments, not an object" if "arguments" in value else "no arguments"
        raise BadJson(f"the call of {name[:80]!r} has {found}", start)
    end = _after_space(text, end)
    if not text.startswith(CLOSING_TAG, end):
        raise BadJson(f"the call of {name[:80]!r} is not followed by {CLOSING_TAG}", end)
    return name, arguments, call_id if isinstance(call_id, str) else None, end + len(CLOSING_TAG)


def _end_of_bad_call(text: str, start: int) -> int:
    close, reopen = text.find(CLOSING_TAG, start), text.find(OPENING_TAG, start)
    if close >= 0 and (reopen < 0 or close < reopen):
        return close + len(CLOSING_TAG)
    return reopen if reopen >= 0 else len(text)


def _after_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place
