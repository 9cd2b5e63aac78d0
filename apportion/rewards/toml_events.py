r"""The events of a TOML rule file, as predicates: which call, with which arguments, or who said what.

    [events]
    write        = { call = ["book", "cancel"] }              # one of these tools; "*" for any
    big_write    = { call = "book", args = { seats = { above = 4 }, "payment.kind" = "gift" } }
    change       = { mutating = true }                        # any tool that changes something, see [tools]
    confirmation = { said = "user", matches = '(?i)\byes\b' }    # or a list of patterns; or contains = "text"
    known_user   = { earlier = { call = "get_user" }, same = "user_id" }  # also times, within, since, counting
    again        = { repeated = true }                        # the same call with the same arguments as before
    open_ticket  = { state = "ticket.status", equals = "open" }
    either       = { any = ["write", { call = "refund" }] }   # also all = [...] and not = ...

Wherever an event is expected, its name or such a table does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import reduce
from operator import and_, or_
from typing import Any, TypeVar

from apportion.errors import InvalidArgument
from apportion.rewards.happened import happened
from apportion.rewards.mutating import mutating
from apportion.rewards.predicates import Predicate
from apportion.rewards.said import said
from apportion.rewards.structured import any_action, argument, called, state
from apportion.rewards.temporal import repeated
from apportion.rewards.tool_effects import ToolEffects

__all__ = ["Events", "known_keys", "located", "named"]

T = TypeVar("T")

_TESTS = ("equals", "one_of", "contains", "matches", "above", "below")
# By the key that says what kind of event it is: the other keys it may have.
_KINDS: Mapping[str, tuple[str, ...]] = {
    "call": ("args",),
    "mutating": ("args",),
    "said": ("matches", "contains"),
    "state": _TESTS,
    "repeated": ("turns",),
    "earlier": ("times", "within", "since", "same", "counting"),
    "any": (),
    "all": (),
    "not": (),
}
_AN_EVENT = "the name of an event of this file, or a table such as { call = 'tool' }"


def located(where: str, make: Callable[[], T]) -> T:
    """What `make` returns; the argument that it refuses is located in the file."""
    try:
        return make()
    except InvalidArgument as error:
        if error.argument.startswith(where.partition(":")[0] + ":"):
            raise
        raise InvalidArgument(f"{where}.{error.argument}", error.value, error.expected) from None


def named(value: str, options: Sequence[str]) -> str:
    """The options in words, the closest one first.

    Example:
        >>> named("frist", ["first", "then"]), named("x", ["first", "then"])
        ("'first'? One of first, then", 'one of first, then')
    """
    listed = ", ".join(options) or "nothing"
    close = get_close_matches(value, options, n=1)
    return f"{close[0]!r}? One of {listed}" if close else f"one of {listed}"


def known_keys(table: object, where: str, options: Sequence[str], *, needed: Sequence[str] = ()) -> Mapping[str, Any]:
    """`table`, with no key but the options and all of those that are needed."""
    if not isinstance(table, Mapping):
        raise InvalidArgument(where, table, f"a table with {', '.join(options)}")
    for key in table:
        if key not in options:
            raise InvalidArgument(f"{where}.{key}", table[key], f"another key: {named(key, options)}")
    absent = [key for key in needed if key not in table]
    if absent:
        raise InvalidArgument(where, dict(table), f"also {' and '.join(absent)}")
    return table


@dataclass(eq=False)
class Events:
    """The events of one file, made when they are asked for.

    Attributes:
        file: its name, for the errors.
        tables: by name, as they stand in the file.
        effects: which tools change something.
    """

    file: str
    tables: Mapping[str, Any]
    effects: ToolEffects
    _made: dict[str, Predicate] = field(default_factory=dict)
    _making: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Make all of them, so that a fault is found in those that no rule uses, too."""
        for name in self.tables:
            self.get(name, f"{self.file}: events.{name}")

    def get(self, event: object, where: str) -> Predicate:
        """The predicate for an event's name or table."""
        if isinstance(event, str):
            return self._by_name(event, where)
        if not isinstance(event, Mapping):
            raise InvalidArgument(where, event, _AN_EVENT)
        kinds = [kind for kind in _KINDS if kind in event]
        if len(kinds) != 1:
            unknown = next((key for key in event if key not in _KINDS), "")
            closest = named(str(unknown), tuple(_KINDS))
            raise InvalidArgument(where, dict(event), f"exactly one kind of event, {closest}")
        known_keys(event, where, (kinds[0], *_KINDS[kinds[0]]))
        return located(where, lambda: self._made_from(event, kinds[0], where))

    def _by_name(self, name: str, where: str) -> Predicate:
        if name not in self.tables:
            raise InvalidArgument(where, name, f"{named(name, tuple(self.tables))}; a tool is {{ call = {name!r} }}")
        if name in self._making:
            raise InvalidArgument(
                where, name, f"an event that does not lead back to itself ({' -> '.join(self._making)})"
            )
        if name not in self._made:
            self._making.append(name)
            try:
                made = self.get(self.tables[name], f"{self.file}: events.{name}")
            finally:
                self._making.pop()
            self._made[name] = made.worded(name.replace("_", " "))
        return self._made[name]

    def _made_from(self, event: Mapping[str, Any], kind: str, where: str) -> Predicate:
        value = event[kind]
        if kind in ("call", "mutating"):
            return reduce(and_, [self._calls(kind, value, where), *_arguments(event.get("args", {}), f"{where}.args")])
        if kind == "said":
            return said(value, matches=_several(event.get("matches"), where), contains=event.get("contains"))
        if kind == "state":
            return state(value, **{key: event[key] for key in _TESTS if key in event})
        if kind == "repeated":
            return _only_true(value, f"{where}.repeated", repeated(within=event.get("turns")))
        if kind == "earlier":
            options = {key: event[key] for key in ("times", "within", "same", "counting") if key in event}
            since = self.get(event["since"], f"{where}.since") if "since" in event else None
            return happened(self.get(value, f"{where}.earlier"), since=since, **options)
        if kind == "not":
            return ~self.get(value, f"{where}.not")
        if not isinstance(value, list) or not value:
            raise InvalidArgument(f"{where}.{kind}", value, "a list of events")
        parts = [self.get(part, f"{where}.{kind}[{at}]") for at, part in enumerate(value)]
        return reduce(or_ if kind == "any" else and_, parts)

    def _calls(self, kind: str, value: object, where: str) -> Predicate:
        if kind == "mutating":
            return _only_true(value, f"{where}.mutating", mutating(self.effects))
        if value == "*":
            return any_action()
        return called(*value) if isinstance(value, list) else called(value)  # type: ignore[arg-type]


def _arguments(args: object, where: str) -> list[Predicate]:
    if not isinstance(args, Mapping):
        raise InvalidArgument(where, args, "a table of arguments, e.g. { path = { matches = '[.]py$' }, force = true }")
    return [_argument(path, test, f"{where}.{path}") for path, test in args.items()]


def _argument(path: str, test: object, where: str) -> Predicate:
    if not isinstance(test, Mapping):
        return located(where, lambda: argument(path, equals=test))
    options = ("present", *_TESTS)
    unknown = [key for key in test if key not in options]
    if unknown or len(test) != 1:
        hint = f"an argument inside another one is written in quotes: '{path}.{unknown[0]}'" if unknown else "one test"
        raise InvalidArgument(where, dict(test), f"{named(str(next(iter(unknown), '')), options)}; {hint}")
    if "present" in test:
        return located(where, lambda: _only_true(test["present"], "present", argument(path)))
    return located(where, lambda: argument(path, **test))


def _only_true(value: object, where: str, made: Predicate) -> Predicate:
    if value is not True:
        raise InvalidArgument(where, value, "true; for its opposite, not = { ... }")
    return made


def _several(patterns: object, where: str) -> Any:
    if isinstance(patterns, list) and not all(isinstance(pattern, str) for pattern in patterns):
        raise InvalidArgument(f"{where}.matches", patterns, "a regular expression, or a list of them")
    return patterns
