"""Actions written as plain text: ReAct labels, and fenced shell commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from apportion.integrations.strict_json import BadJson, decode
from apportion.rollouts import Action

__all__ = ["looks_like_react", "react_calls", "shell_blocks", "shell_command"]

# Anchored to line starts and possessive throughout, so that no text makes them look at a character twice.
_LABEL = re.compile(
    r"^[ \t]*+(Action[ \t]*+Input|Action|Observation|Thought|Final[ \t]++Answer)[ \t]*+(?:\d{1,4}[ \t]*+)?:",
    re.MULTILINE,
)
_FENCE = re.compile(r"^[ \t]*+(`{3,}+)[ \t]*+([^`\n]*+)$", re.MULTILINE)
_BRACKETED = re.compile(r"([^\s\[\]]++)\[(.*)\]", re.DOTALL)
_SHELLS = frozenset({"bash", "sh", "shell"})


class _Section(NamedTuple):
    label: str
    start: int
    stop: int


def _sections(text: str) -> Iterator[_Section]:
    label, start = "", 0
    for match in _LABEL.finditer(text):
        yield _Section(label, start, match.start())
        label, start = "".join(match[1].split()), match.end()
    yield _Section(label, start, len(text))


def looks_like_react(text: str) -> bool:
    """True when a text has an "Action Input:" line, or an "Action:" line of the form name[text]."""
    return any(
        label == "ActionInput" or (label == "Action" and _BRACKETED.fullmatch(text[start:stop].strip()) is not None)
        for label, start, stop in _sections(text)
    )


def react_calls(text: str) -> Iterator[Action]:
    r"""The actions of a ReAct text: a name with its input, or name[text]. Labels may be numbered ("Action 2:").

    An input that starts with a brace is JSON and must be an object; any other input is `{"input": text}`.

    Example:
        >>> [call.arguments for call in react_calls('Action: f\nAction Input: {"a": 1}\nAction: g[x]')]
        [{'a': 1}, {'input': 'x'}]
    """
    action: _Section | None = None
    for section in _sections(text):
        if section.label == "ActionInput":
            yield _with_input(text, action, section)
            action = None
            continue
        if action is not None:
            yield _without_input(text, action)
        action = section if section.label == "Action" else None
    if action is not None:
        yield _without_input(text, action)


def _without_input(text: str, action: _Section) -> Action:
    written = text[action.start : action.stop].strip()
    match = _BRACKETED.fullmatch(written)
    if match:
        return Action(match[1], {"input": match[2]}, written, "react")
    return Action(None, {}, written, "react", None, f"an action without input at character {action.start}")


def _with_input(text: str, action: _Section | None, section: _Section) -> Action:
    body = text[section.start : section.stop].strip()
    if action is None:
        return Action(None, {}, body, "react", None, f"an input without an action at character {section.start}")
    name, raw = text[action.start : action.stop].strip(), text[action.start : section.stop].strip()
    if not name or "\n" in name:
        return Action(None, {}, raw, "react", None, f"an action without a name of one line at character {action.start}")
    if not body.startswith("{"):
        return Action(name, {"input": body}, raw, "react")
    try:
        arguments, end = decode(text[: section.stop], text.index("{", section.start))
        if text[end : section.stop].strip():
            raise BadJson("text after the input", end)
    except BadJson as error:
        return Action(None, {}, raw, "react", None, str(error))
    return Action(name, arguments, raw, "react")


def shell_blocks(text: str, *, fences: Literal["shell only", "any"]) -> Iterator[Action]:
    r"""The fenced commands of a text; one block is one action, however many lines it has.

    Args:
        text: what the policy wrote.
        fences: "shell only" takes fences marked bash, sh or shell; "any" also those without a language.

    Example:
        >>> [call.arguments["command"] for call in shell_blocks("So:\n```bash\nls -a\n```", fences="shell only")]
        ['ls -a']
    """
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = match
        elif len(match[1]) >= len(opened[1]) and not match[2].strip():
            if _is_shell(opened[2], fences):
                yield shell_command(text[opened.end() : match.start()], raw=text[opened.start() : match.end()])
            opened = None
    if opened is not None and _is_shell(opened[2], fences):
        error = f"the fence opened at character {opened.start()} is never closed"
        yield Action(None, {}, text[opened.start() :], "shell", None, error)


def _is_shell(info: str, fences: Literal["shell only", "any"]) -> bool:
    words = info.split(maxsplit=1)
    return words[0].lower() in _SHELLS if words else fences == "any"


def shell_command(command: str, *, raw: str | None = None) -> Action:
    r"""A command as an action, named after its first word.

    Example:
        >>> shell_command("ls -a\n")
        Action(name='ls', arguments={'command': 'ls -a'}, raw='ls -a\n', syntax='shell', call_id=None, error=None)
    """
    written = command if raw is None else raw
    words = command.split(maxsplit=1)
    if not words:
        return Action(None, {}, written, "shell", None, "the command is empty")
    return Action(words[0], {"command": command.strip("\r\n")}, written, "shell")
