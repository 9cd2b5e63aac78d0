"""The effects of one action of a rollout: a shell command, Python code, a patch, or a call of an editor tool."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from apportion.rewards.shell.analyse import analyse, machine_for
from apportion.rewards.shell.effects import Effect
from apportion.rewards.shell.machine import Call
from apportion.rewards.shell.marks import UNKNOWN, clean
from apportion.rewards.shell.parsing import Limits
from apportion.rewards.shell.patches import patched
from apportion.rewards.shell.state import State
from apportion.rollouts import Action

__all__ = ["ToolKind", "action_effects"]

ToolKind: TypeAlias = Literal["shell", "python", "read", "write", "edit", "delete", "move", "patch", "none"]

_PATHS = ("path", "file_path", "filepath", "file", "filename", "file_name", "target_file", "notebook_path", "target")
_FROM = ("source", "src", "old_path", "from", "from_path", "source_path", "path")
_TO = ("destination", "dest", "dst", "new_path", "to", "to_path", "destination_path", "target", "new_name")
_COMMANDS = ("command", "cmd", "script", "commands", "bash_command", "shell_command", "line", "text")
_CODE = ("code", "source_code", "python_code", "script", "cell", "input")
_PATCHES = ("patch", "diff", "input", "patch_text", "changes")
_CONTENTS = ("file_text", "content", "contents", "text", "data", "new_source")
# The first that a tool's name (or its "command") holds decides.
_VERBS: tuple[tuple[str, ToolKind], ...] = (
    (r"apply_?patch|apply_?diff|^patch$", "patch"),
    (r"delete|remove|unlink", "delete"),
    (r"rename|move", "move"),
    (r"str_?replace|edit|insert|append|update|modify|replace|undo", "edit"),
    (r"write|create|save|overwrite|put_?file", "write"),
    (r"view|read|open|cat|show|get_file|goto|scroll", "read"),
    (r"python|jupyter|code_interpreter", "python"),
    (r"bash|shell|terminal|execute|run_?command|exec|console|command|cmd", "shell"),
)
_HEADER = re.compile(r"^\*\*\* (Update|Add|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)


def action_effects(
    action: Action, state: State, *, tools: Mapping[str, ToolKind] | None = None, limits: Limits | None = None
) -> list[Effect]:
    """What an action does; nothing for a tool that is neither declared nor named like one that works on files.

    Args:
        action: a shell action ({"command": text}) or a call of any tool.
        state: what earlier actions left; changed to what this one leaves.
        tools: what tools of other names do.
        limits: as in `analyse`.

    Returns:
        The effects, as `analyse`.

    Raises:
        MissingExtra: as `analyse`.

    Example:
        >>> from apportion.rewards.shell.state import Workspace
        >>> call = Action("str_replace_editor", {"command": "create", "path": "/workspace/conftest.py"})
        >>> [str(effect) for effect in action_effects(call, State(Workspace()))]
        ["create writes /workspace/conftest.py (argument '/workspace/conftest.py')"]
    """
    arguments = action.arguments
    name = action.name or ""
    kind, verb = _kind(action, tools or {})
    if kind == "shell":
        return analyse(_command(arguments), state, limits=limits)
    if kind == "python":
        return analyse(_first(arguments, _CODE) or "", state, language="python", limits=limits)
    call = Call(machine_for(state, limits or Limits()), [verb or name])
    if kind == "patch":
        _patch(call, _first(arguments, _PATCHES))
    elif kind == "move":
        _on_path(call, "delete", _first(arguments, _FROM))
        _on_path(call, "write", _first(arguments, _TO))
    elif kind != "none":
        path = _first(arguments, _PATHS)
        _on_path(call, kind, path)
        if kind == "write" and path is not None:
            state.keep(state.resolve(clean(path)), clean(_first(arguments, _CONTENTS) or UNKNOWN) or UNKNOWN)
        elif kind == "edit" and path is not None and state.resolve(clean(path)) in state.files:
            state.keep(state.resolve(clean(path)), UNKNOWN)
    return call.machine.effects


def _kind(action: Action, tools: Mapping[str, ToolKind]) -> tuple[ToolKind, str]:
    name, arguments = action.name or "", action.arguments
    if name in tools:
        return tools[name], name
    if action.syntax == "shell":
        return "shell", name
    has_path = _first(arguments, _PATHS) is not None
    command = arguments.get("command")
    if has_path and isinstance(command, str) and re.fullmatch(r"\w+", command):
        # An editor whose verb is an argument.
        return _verb(command), command
    kind = _verb(name)
    if kind in ("shell", "python"):
        keys = _COMMANDS if kind == "shell" else _CODE
        fits = any(isinstance(arguments.get(key), str | list) for key in keys)
        if not fits and kind == "shell" and _first(arguments, ("code",)) is not None:
            return "python", name
        return (kind if fits else "none"), name
    if kind == "none" and isinstance(command, str | list):
        return "shell", name
    if kind in ("read", "write", "edit", "delete") and not has_path:
        return "none", name
    return kind, name


def _verb(text: str) -> ToolKind:
    return next((kind for pattern, kind in _VERBS if re.search(pattern, text, re.IGNORECASE)), "none")


def _first(arguments: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((arguments[key] for key in keys if isinstance(arguments.get(key), str)), None)


def _command(arguments: Mapping[str, Any]) -> str:
    for key in _COMMANDS:
        given = arguments.get(key)
        if isinstance(given, str):
            return given
        if isinstance(given, list):
            return shlex.join(map(str, given))
    return ""


def _on_path(call: Call, kind: ToolKind, path: str | None) -> None:
    if path is None:
        call.unknown(f"{call.name} without a path")
        return
    word = clean(path)
    call.machine.place("argument", word)
    if kind == "delete":
        call.emit("delete", word, below=True, last=False)
    elif kind == "read":
        call.emit("read", word)
    else:
        call.emit("write", word, mode="replace" if kind == "write" else "edit")


def _patch(call: Call, text: str | None) -> None:
    names = [name for match in _HEADER.finditer(text or "") for name in match.groups()[1:] if name]
    for name in names or patched(clean(text) if text is not None else None) or []:
        _on_path(call, "edit", name)
    if text is None:
        call.unknown(f"{call.name} of a patch that is not known")
