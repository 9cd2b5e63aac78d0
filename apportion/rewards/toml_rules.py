r"""Rules of conduct as a TOML file: short, read by people who do not write Python, and checked to the last key.

    [tools]                                  # optional; which tools change something
    definitions = "tools.json"
    reads = ["dry_run"]

    [events]                                 # see toml_events.py
    confirmation = { said = "user", matches = '(?i)\byes\b' }
    write = { mutating = true }

    [rules.confirm]
    why = "the user says yes before anything is written, each time"
    before = { first = "confirmation", then = "write", since = "write" }

Each rule has exactly one of the kinds below and becomes what the Python function of that name makes.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apportion.errors import InvalidArgument
from apportion.rewards.rules import Rule, at_most, before, never_after, no_repeat, only_between, within
from apportion.rewards.toml_events import Events, known_keys, located
from apportion.rewards.tool_effects import ToolEffects, tool_effects

__all__ = ["rules_from_toml"]

_COMMON = ("penalty", "credit", "max_credits", "why")


@dataclass(frozen=True)
class _Kind:
    """How a kind of rule is written: its own keys, those of them that are events, and what makes it."""

    make: Callable[..., Rule]
    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    events: tuple[str, ...] = ("first", "then", "start", "action", "stop", "since")
    paired: bool = True


def _never(action: Any, **options: Any) -> Rule:
    return Rule(violates=action, **options)


_KINDS: Mapping[str, _Kind] = {
    "before": _Kind(before, ("first", "then"), ("same", "since", "counting")),
    "within": _Kind(within, ("turns", "first", "then"), ("same",)),
    "only_between": _Kind(only_between, ("start", "action", "stop")),
    "never_after": _Kind(never_after, ("first", "then"), paired=False),
    "at_most": _Kind(at_most, ("times", "action"), ("since",), paired=False),
    "no_repeat": _Kind(no_repeat, (), ("action", "turns"), paired=False),
    "never": _Kind(_never, ("action",), paired=False),
}


def rules_from_toml(path: str | Path) -> list[Rule]:
    r"""The rules of a TOML file.

    Kinds and their keys, events in capitals:

        before       = { first = E, then = E, same?, since = E?, counting? }     within = { turns, first, then, same? }
        only_between = { start = E, action = E, stop = E }                       never_after = { first = E, then = E }
        at_most      = { times, action = E, since = E? }                         no_repeat = { action = E?, turns? }
        never        = { action = E }

    Beside its kind a rule may have `penalty`, `credit`, `max_credits` and `why`. `never_after`, `at_most`, `no_repeat`
    and `never` need `fulfils` (an event, the compliant action) or `unpaired` (why there is none). A rule without a kind
    has `fulfils` alone, and only pays.

    Args:
        path: the file; `definitions` in it is relative to its folder.

    Returns:
        At least one rule, in the order of the file.

    Raises:
        InvalidArgument: no such file or no TOML, an unknown key (with the closest one there is), a value of the wrong
            kind: the message names the file, the rule, the key and the value. Also whatever `Rule` refuses.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "mine.toml")
        >>> _ = file.write_text('''
        ... [rules.read_first]
        ... before = { first = { call = "read" }, then = { call = "edit" }, same = "path" }
        ... ''')
        >>> [rule.violation_words for rule in rules_from_toml(file)]
        ['call of edit and not (an answered call of read with the same path)']
        >>> _ = file.write_text('[rules.read_first]\nbefor = { first = "a", then = "b" }')
        >>> rules_from_toml(file)
        Traceback (most recent call last):
            ...
        apportion.errors.InvalidArgument: mine.toml: rules.read_first.befor={'first': 'a', 'then': 'b'}: expected ...
    """
    file = Path(path)
    if not file.is_file():
        raise InvalidArgument("rules", str(path), "a TOML file that exists")
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument("rules", str(path), f"a TOML file ({error})") from None
    known_keys(content, file.name, ("tools", "events", "rules"), needed=("rules",))
    tables = _tables(content, "events", file.name)
    events = Events(file.name, tables, _effects(content.get("tools", {}), file))
    events.check()
    rules = [_rule(name, table, events) for name, table in _tables(content, "rules", file.name).items()]
    if not rules:
        raise InvalidArgument(f"{file.name}: rules", {}, "at least one rule, such as [rules.confirm]")
    return rules


def _tables(content: Mapping[str, Any], key: str, file: str) -> Mapping[str, Any]:
    found = content.get(key, {})
    if not isinstance(found, Mapping):
        raise InvalidArgument(f"{file}: {key}", found, f"tables with names of their own, such as [{key}.mine]")
    return found


def _effects(table: object, file: Path) -> ToolEffects:
    where = f"{file.name}: tools"
    given = dict(known_keys(table, where, ("definitions", "changes", "reads", "undeclared")))
    source = given.pop("definitions", None)
    for key in ("changes", "reads"):
        if not isinstance(given.get(key, []), list):
            raise InvalidArgument(f"{where}.{key}", given[key], "a list of tool names")
    return located(where, lambda: tool_effects(_definitions(source, file, where), **given))


def _definitions(source: object, file: Path, where: str) -> list[Any]:
    if source is None:
        return []
    place = file.parent / source if isinstance(source, str) else None
    if place is None or not place.is_file():
        raise InvalidArgument(f"{where}.definitions", source, "a JSON file with a list of tool definitions")
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{where}.definitions", source, f"a JSON file ({error})") from None
    if not isinstance(found, list):
        raise InvalidArgument(f"{where}.definitions", source, "a JSON file with a list of tool definitions")
    return found


def _rule(name: str, table: object, events: Events) -> Rule:
    where = f"{events.file}: rules.{name}"
    options = (*_KINDS, "fulfils", "unpaired", *_COMMON)
    given = known_keys(table, where, options)
    kinds = [key for key in _KINDS if key in given]
    if len(kinds) > 1 or (not kinds and "fulfils" not in given):
        raise InvalidArgument(
            where, kinds, f"exactly one of {', '.join(_KINDS)}; or fulfils alone, to pay for an action"
        )
    for key in ("why", "unpaired"):
        if not isinstance(given.get(key, "text"), str):
            raise InvalidArgument(f"{where}.{key}", given[key], "text")
    rest: dict[str, Any] = {key: given[key] for key in (*_COMMON, "unpaired") if key in given}
    if "fulfils" in given:
        rest["fulfils"] = events.get(given["fulfils"], f"{where}.fulfils")
    if not kinds:
        return located(where, lambda: Rule(name=name, **rest))
    kind = _KINDS[kinds[0]]
    unfit = [key for key in ("fulfils", "unpaired") if key in given and kind.paired]
    if unfit:
        raise InvalidArgument(
            f"{where}.{unfit[0]}", given[unfit[0]], f"nothing: {kinds[0]} pays for the allowed action"
        )
    inner = f"{where}.{kinds[0]}"
    own = known_keys(given[kinds[0]], inner, (*kind.needed, *kind.optional), needed=kind.needed)
    made = {key: events.get(value, f"{inner}.{key}") if key in kind.events else value for key, value in own.items()}
    return located(where, lambda: kind.make(**made, name=name, **rest))
