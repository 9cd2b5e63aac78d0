"""Tool calls and commands, read exactly as the policy wrote them.

    openai   {"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]}, or "function_call"
    hermes   <tool_call>{"name": "f", "arguments": {}}</tool_call>    (Hermes, Qwen)
    react    Action: f / Action Input: {...}, or Action: f[text]
    shell    a fenced block marked bash, sh or shell

Three things that a reward must tell apart stay apart: no call is `()`, a good call is an `Action`, and a call that does
not parse is an `Action` with an `error`. Nothing is repaired: a repaired call is not what the policy wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.integrations.text_actions import looks_like_react, react_calls, shell_blocks, shell_command
from apportion.integrations.tool_calls import CLOSING_TAG, OPENING_TAG, hermes_calls, openai_call
from apportion.rollouts import Action

__all__ = ["Syntax", "content_text", "parse_actions", "shell_command"]

Syntax: TypeAlias = Literal["auto", "openai", "hermes", "react", "shell"]

# What one message may cost: every parser is linear in the text, and at most this many calls are reported.
MAX_ACTIONS = 256
MAX_CHARACTERS = 4_000_000


def parse_actions(source: str | Mapping[str, Any], syntax: Syntax = "auto") -> tuple[Action, ...]:
    """The actions in a text or a chat message, in the order they were written.

    Args:
        source: what the policy wrote, as text or as its chat message (`content`, and `tool_calls` where a server
            parsed them).
        syntax: how to read it. "auto" takes a message's `tool_calls` (or `function_call`) when it has any; otherwise
            the text is Hermes if it holds a tool-call tag, ReAct if it has an "Action Input:" line or an
            "Action: name[...]" line, shell if it has a fence marked bash, sh or shell, and holds no action in any other
            case. Named, "react" also reports an action without input, and "shell" also takes fences without a language.

    Returns:
        One `Action` per call; `()` when there is none. A call that does not parse has `name=None` and an `error` that
        says what is wrong and at which character of the text; what follows it is still read. At most `MAX_ACTIONS`
        calls are read from one message, and texts over `MAX_CHARACTERS` are not searched; either is an action with an
        error too.

    Raises:
        InvalidArgument: `source` is neither text nor a mapping, or `syntax` is unknown. What the policy wrote never
            raises.

    Example:
        >>> parse_actions('<tool_call>{"name": "f", "arguments": {"a": {"b": [1]}}}</tool_call>')[0].arguments
        {'a': {'b': [1]}}
        >>> parse_actions('<tool_call>{"name": "f", "arguments": {"a": 1}</tool_call>')[0].error
        "Expecting ',' delimiter at character 46"
        >>> parse_actions("The answer is 4.")
        ()
    """
    if syntax not in get_args(Syntax):
        raise InvalidArgument("syntax", syntax, f"one of {', '.join(get_args(Syntax))}")
    if not isinstance(source, str | Mapping):
        raise InvalidArgument("source", source, "text, or a chat message as a mapping")
    found = _in_message(source, syntax) if isinstance(source, Mapping) else _in_text(source, syntax)
    actions = tuple(islice(found, MAX_ACTIONS + 1))
    if len(actions) <= MAX_ACTIONS:
        return actions
    rest = Action(None, syntax=actions[0].syntax, error=f"more than {MAX_ACTIONS} actions; the rest was not read")
    return (*actions[:MAX_ACTIONS], rest)


def content_text(content: Any) -> str:
    """The text of a message's `content`: a string, nothing, or a list of parts (others than text are named).

    Example:
        >>> content_text([{"type": "text", "text": "see "}, {"type": "image_url", "image_url": "..."}])
        'see [image_url]'
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(_part_text(part) for part in content)


def _part_text(part: Any) -> str:
    if not isinstance(part, Mapping):
        return part if isinstance(part, str) else ""
    text = part.get("text")
    return text if isinstance(text, str) else f"[{str(part.get('type', 'part'))[:40]}]"


def _in_message(message: Mapping[str, Any], syntax: Syntax) -> Iterator[Action]:
    calls, legacy = message.get("tool_calls"), message.get("function_call")
    if syntax in ("auto", "openai") and (calls or legacy):
        listed = calls if isinstance(calls, list) else [calls] if calls else []
        return map(openai_call, [*listed, legacy] if legacy else listed)
    return _in_text(content_text(message.get("content")), syntax)


def _in_text(text: str, syntax: Syntax) -> Iterator[Action]:
    if syntax == "openai":
        return iter(())
    if len(text) > MAX_CHARACTERS:
        name = "" if syntax == "auto" else syntax
        error = f"{len(text)} characters, more than the {MAX_CHARACTERS} that are searched for actions"
        return iter([Action(None, syntax=name, error=error)])
    if syntax == "hermes" or (syntax == "auto" and (OPENING_TAG in text or CLOSING_TAG in text)):
        return hermes_calls(text)
    if syntax == "react" or (syntax == "auto" and looks_like_react(text)):
        return react_calls(text)
    return shell_blocks(text, fences="any" if syntax == "shell" else "shell only")
