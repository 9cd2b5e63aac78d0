"""`call_match`: whether the tool calls of a rollout are those of the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from apportion.rewards import _arguments
from apportion.rewards.schema import check_schema
from apportion.rewards.tool_call import declared
from apportion.rewards.verifiers.base import Need, Verifier
from apportion.rewards.verifiers.json_values import NotJson, equal, filled, parse
from apportion.rollouts import Action, Trajectory
from apportion.verdicts import Failed, Scored, Verdict

__all__ = ["CallMatch", "call_match"]

Order: TypeAlias = Literal["parallel", "sequence"]
Form: TypeAlias = Literal["values", "alternatives"]
Turns: TypeAlias = Literal["all", "last"]

# BFCL writes "" among the alternatives of an argument that may be left out.
_OPTIONAL = ""
_SHOWN = 3


@dataclass(frozen=True)
class Wanted:
    """One call of the reference: for each argument the values that are right."""

    name: str
    arguments: Mapping[str, Sequence[Any]]
    optional: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CallMatch(Verifier):
    """See `call_match`."""

    needs: ClassVar[tuple[Need, ...]] = ("turns", "reference")
    order: Order
    form: Form
    turns: Turns
    tools: Mapping[str, Any]

    def __call__(self, trajectory: Trajectory) -> Verdict:
        """The verdict on the calls of a trajectory."""
        if trajectory.reference is None:
            return Failed("no reference answer")
        looked_at = trajectory.turns[-1:] if self.turns == "last" else trajectory.turns
        return self.verify(gold=trajectory.reference, calls=[call for turn in looked_at for call in turn.actions])

    def verify(self, *, gold: object, calls: Sequence[Action]) -> Verdict:
        """The verdict on a list of calls."""
        wanted = self._wanted(gold)
        if isinstance(wanted, str):
            return Failed(f"gold_unparsable: {wanted}")
        for call in calls:
            if call.error is not None or call.name is None:
                words = _arguments.brief(call.error or "no name", 120)
                return Scored(0.0, f"malformed_call: {words} in {_arguments.excerpt(call.raw, 80)}")
        if not calls and wanted:
            return Scored(0.0, f"no_call: {len(wanted)} wanted")
        if len(calls) != len(wanted):
            return Scored(0.0, f"wrong_answer: {len(calls)} calls ({_shown(calls)}), not {len(wanted)}")
        fits = [[self._fits(want, call) for call in calls] for want in wanted]
        if self.order == "sequence":
            right = [row[at] for at, row in enumerate(fits)]
            missed = right.index(False) if False in right else None
        else:
            missed = _unmatched(fits)
        if missed is None:
            return Scored(1.0, f"right_answer: {len(calls)} calls" if calls else "right_answer: no call, as wanted")
        place = f"call {missed + 1}" if self.order == "sequence" else "any call"
        return Scored(0.0, f"wrong_answer: {place} of {_shown(calls)} is not {_described(wanted[missed])}")

    def _wanted(self, gold: object) -> list[Wanted] | str:
        if isinstance(gold, str):
            try:
                gold = parse(gold)
            except NotJson as reason:
                return str(reason)
        if isinstance(gold, Mapping):
            gold = [gold]
        if not isinstance(gold, Sequence) or isinstance(gold, str):
            return f"{_arguments.excerpt(gold, 80)} is no list of calls"
        wanted = [self._one(call) for call in gold]
        return next((call for call in wanted if isinstance(call, str)), None) or [
            call for call in wanted if isinstance(call, Wanted)
        ]

    def _one(self, call: object) -> Wanted | str:
        fault = f"{_arguments.excerpt(call, 80)} is no call"
        if not isinstance(call, Mapping):
            return fault
        if self.form == "alternatives":
            if len(call) != 1:
                return f"{fault} written as {{name: {{argument: [right values]}}}}"
            ((name, arguments),) = call.items()
            if not isinstance(arguments, Mapping) or not all(isinstance(a, list) and a for a in arguments.values()):
                return f"{fault} written as {{name: {{argument: [right values]}}}}"
            optional = frozenset(key for key, options in arguments.items() if _OPTIONAL in options)
            return Wanted(str(name), arguments, optional)
        name, arguments = call.get("name"), call.get("arguments", {})
        if isinstance(arguments, str):
            try:
                arguments = parse(arguments)
            except NotJson:
                return fault
        if not isinstance(name, str) or not isinstance(arguments, Mapping):
            return f"{fault} with name and arguments"
        return Wanted(name, {key: [value] for key, value in self._complete(name, arguments).items()})

    def _fits(self, want: Wanted, call: Action) -> bool:
        if call.name != want.name or not isinstance(call.arguments, Mapping):
            return False
        given, defaults = self._complete(want.name, call.arguments), self._complete(want.name, {})
        if any(key not in given and key not in want.optional for key in want.arguments):
            return False
        for key, value in given.items():
            # What may be left out was left out: its default is then none of the alternatives' business.
            if key not in call.arguments and key in want.optional:
                continue
            right = want.arguments.get(key, [defaults[key]] if key in defaults else [])
            if not any(equal(option, value) for option in right):
                return False
        return True

    def _complete(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        complete: Mapping[str, Any] = filled(arguments, self.tools.get(name))
        return complete


def call_match(
    *,
    order: Order,
    form: Form = "values",
    turns: Turns = "all",
    tools: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
) -> CallMatch:
    """For `outcome`: the tool calls are those of the reference, no more and no less.

        parallel:  multiset of calls = multiset of the reference
        sequence:  list of calls = list of the reference

    A call that does not parse is `malformed_call` and never repaired; a rollout without a call is `no_call`, which is
    right when the reference is an empty list.

    Args:
        order: "parallel" for calls whose order is nothing, "sequence" for calls that build on each other. There is no
            default: comparing one kind as the other is wrong either way.
        form: how the reference is written. "values": a list of {"name": ..., "arguments": {...}}. "alternatives": as
            in BFCL, a list of {name: {argument: [right values]}}, where "" among them allows to leave it out.
        turns: whether the calls of all turns count, or of the last one.
        tools: schemas as `tool_calls` takes them; an argument that is left out has its default, on both sides.

    Returns:
        A verifier that gives 1, or 0 with `wrong_answer`, `malformed_call` or `no_call`; `Failed` with
        `gold_unparsable` when the reference is no list of calls.

    Raises:
        InvalidArgument: an unknown option, a tool definition without a name, a schema keyword that is not checked.

    Example:
        >>> check = call_match(order="parallel")
        >>> gold = [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {"x": 2}}]
        >>> check.verify(gold=gold, calls=[Action("g", {"x": 2}), Action("f", {"x": 1})]).value
        1.0
        >>> call_match(order="sequence").verify(gold=gold, calls=[Action("g", {"x": 2}), Action("f", {"x": 1})])
        Scored(value=0.0, evidence="wrong_answer: call 1 of g({'x': 2}), f({'x': 1}) is not f({'x': [1]})")
    """
    _arguments.choice("order", order, get_args(Order))
    _arguments.choice("form", form, get_args(Form))
    _arguments.choice("turns", turns, get_args(Turns))
    schemas = declared(tools) if tools is not None else {}
    for name, schema in schemas.items():
        check_schema(schema, f"tools[{name!r}]")
    return CallMatch(order, form, turns, schemas)


def _unmatched(fits: Sequence[Sequence[bool]]) -> int | None:
    """A row that no one-to-one assignment of columns can serve, or `None`; alternatives may overlap, so try paths."""
    taken: dict[int, int] = {}

    def assign(row: int, seen: set[int]) -> bool:
        for column, fit in enumerate(fits[row]):
            if fit and column not in seen:
                seen.add(column)
                if column not in taken or assign(taken[column], seen):
                    taken[column] = row
                    return True
        return False

    return next((row for row in range(len(fits)) if not assign(row, set())), None)


def _shown(calls: Sequence[Action]) -> str:
    listed = [
        _arguments.brief(f"{call.name}({_arguments.excerpt(call.arguments, 60)})", 100) for call in calls[:_SHOWN]
    ]
    return ", ".join([*listed, f"and {len(calls) - _SHOWN} more"] if len(calls) > _SHOWN else listed)


def _described(want: Wanted) -> str:
    return f"{want.name}({_arguments.excerpt(dict(want.arguments), 80)})"
