"""What calls of a tool do: known from its definition, declared by hand, or guessed from a verb.

Whether a call changes something is known, in this order, from

- `changes` and `reads`, which you declare;
- a definition: `mutating: true`, or the annotations `readOnlyHint` and `destructiveHint` of an MCP tool;
- the verb in its name (`get_user`, `cancel_order`), a guess that the evidence calls one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments

__all__ = ["Effect", "ToolEffects", "Undeclared", "tool_effects"]

Undeclared: TypeAlias = Literal["guess", "unknown"]

_READS = frozenset(
    [
        "calculate",
        "check",
        "compare",
        "compute",
        "count",
        "describe",
        "diff",
        "explain",
        "fetch",
        "find",
        "get",
        "grep",
        "inspect",
        "list",
        "lookup",
        "ls",
        "ping",
        "query",
        "read",
        "retrieve",
        "search",
        "show",
        "stat",
        "summarise",
        "summarize",
        "think",
        "validate",
        "verify",
        "view",
    ]
)
_CHANGES = frozenset(
    [
        "add",
        "append",
        "apply",
        "approve",
        "assign",
        "ban",
        "block",
        "book",
        "buy",
        "cancel",
        "charge",
        "clear",
        "commit",
        "create",
        "deactivate",
        "delete",
        "deploy",
        "disable",
        "drop",
        "edit",
        "enable",
        "erase",
        "insert",
        "install",
        "invite",
        "kill",
        "merge",
        "modify",
        "move",
        "overwrite",
        "patch",
        "pay",
        "post",
        "publish",
        "purchase",
        "push",
        "put",
        "refund",
        "register",
        "reject",
        "remove",
        "rename",
        "replace",
        "reserve",
        "reset",
        "revoke",
        "save",
        "schedule",
        "send",
        "set",
        "submit",
        "subscribe",
        "transfer",
        "uninstall",
        "unsubscribe",
        "update",
        "upload",
        "upsert",
        "withdraw",
        "write",
    ]
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True, slots=True)
class Effect:
    """What is known about a tool.

    Attributes:
        changes: whether a call of it changes something; None when nobody knows.
        why: how that is known, in words.
    """

    changes: bool | None
    why: str


@dataclass(frozen=True)
class ToolEffects:
    """See `tool_effects`.

    Attributes:
        known: by tool name, what was declared.
        undeclared: what a tool counts as that nobody declared.
    """

    known: Mapping[str, Effect]
    undeclared: Undeclared

    def of(self, tool: str | None) -> Effect:
        """What is known about one tool.

        Example:
            >>> tool_effects().of("cancelOrder"), tool_effects().of("bash").changes
            (Effect(changes=True, why="guessed from the verb 'cancel'"), None)
        """
        if tool is None:
            return Effect(None, "the call names no tool")
        if tool in self.known:
            return self.known[tool]
        if self.undeclared == "unknown":
            return Effect(None, "not declared")
        return _guessed(tool)


def tool_effects(
    tools: Sequence[Mapping[str, Any]] = (),
    *,
    changes: Sequence[str] = (),
    reads: Sequence[str] = (),
    undeclared: Undeclared = "guess",
) -> ToolEffects:
    """What calls of each tool do, from definitions as chat APIs and MCP servers give them.

    Args:
        tools: definitions; each may say `mutating` (true or false) or carry `annotations` with `readOnlyHint` and
            `destructiveHint`. Hints are what the tool's author claims: declare what you do not trust.
        changes: tools that change something, whatever their definition says.
        reads: tools that change nothing, whatever their definition says.
        undeclared: for all others "guess" from the verb that the name begins or else ends with, or "unknown".

    Returns:
        The effects by tool name.

    Raises:
        InvalidArgument: a definition without a name or with contradicting or ill-typed declarations, a tool in both
            `changes` and `reads`, an unknown `undeclared`.

    Example:
        >>> tools = [{"name": "buy", "annotations": {"readOnlyHint": True}}, {"function": {"name": "look"}}]
        >>> effects = tool_effects(tools, changes=["shell"])
        >>> [effects.of(name).changes for name in ("buy", "shell", "get_user", "look")]
        [False, True, False, None]

    Source: the finding, arXiv 2512.07850; the verbs are our own.
    """
    _arguments.choice("undeclared", undeclared, get_args(Undeclared))
    both = sorted(set(changes) & set(reads))
    if both:
        raise InvalidArgument("reads", both, "tools that are not also in changes")
    if not isinstance(tools, list | tuple):
        raise InvalidArgument("tools", tools, "a list of tool definitions")
    known: dict[str, Effect] = {}
    for index, definition in enumerate(tools):
        name, effect = _read(definition, f"tools[{index}]")
        if name in known and known[name] != effect:
            raise InvalidArgument(f"tools[{index}]", name, "a name of its own, or the same declaration again")
        if effect is not None:
            known[name] = effect
    for argument, names in (("changes", changes), ("reads", reads)):
        if isinstance(names, str):
            raise InvalidArgument(argument, names, "a list of tool names")
        for name in names:
            known[_arguments.text(argument, name)] = Effect(argument == "changes", "declared")
    return ToolEffects(known, undeclared)


def _guessed(tool: str) -> Effect:
    words = [word.lower() for word in _WORD.findall(tool[:200])]
    for word in (words[0], words[-1]) if words else ():
        if word in _CHANGES or word in _READS:
            return Effect(word in _CHANGES, f"guessed from the verb {word!r}")
    return Effect(None, "not declared, and its name says nothing")


def _read(definition: object, where: str) -> tuple[str, Effect | None]:
    whole = definition if isinstance(definition, Mapping) else {}
    inner = whole.get("function")
    function = inner if isinstance(inner, Mapping) else whole
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidArgument(where, definition, "a tool definition with a name")
    said = dict(_declarations([whole, function] if function is not whole else [whole], f"{where} ({name})"))
    if len(set(said.values())) > 1:
        raise InvalidArgument(f"{where} ({name})", said, "declarations that agree; changes= or reads= overrides them")
    return name, next((Effect(changes, f"its definition says {what}") for what, changes in said.items()), None)


def _declarations(levels: Sequence[Mapping[str, Any]], where: str) -> Iterator[tuple[str, bool]]:
    """What a definition says, as (declaration, changes something)."""
    for level in levels:
        if "mutating" in level:
            changes = _flag(level["mutating"], f"{where}.mutating")
            yield f"mutating: {str(changes).lower()}", changes
        hints = level.get("annotations")
        if hints is None:
            continue
        if not isinstance(hints, Mapping):
            raise InvalidArgument(f"{where}.annotations", hints, "a mapping")
        if hints.get("readOnlyHint") is not None:
            reads = _flag(hints["readOnlyHint"], f"{where}.annotations.readOnlyHint")
            yield f"readOnlyHint: {str(reads).lower()}", not reads
        elif hints.get("destructiveHint") is not None:
            # The hint is about how a tool changes things, so it says that it does, whatever its value.
            destroys = _flag(hints["destructiveHint"], f"{where}.annotations.destructiveHint")
            yield f"destructiveHint: {str(destroys).lower()}", True


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(where, value, "true or false")
    return value
