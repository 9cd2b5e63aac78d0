"""The native row: every field of a `Trajectory`, and nothing else. Schema in docs/rollout_format.md.

Fields at their default are left out, free data lives under "columns", and a field that this version does not know is
refused: a misspelt "behaviour_logps" that quietly became a free column would train without them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast

import numpy as np

from apportion.errors import InvalidArgument
from apportion.integrations.files.fields import (
    FieldProblem,
    flag,
    floats,
    identifier,
    integer,
    integers,
    mapping,
    number,
    text,
)
from apportion.integrations.strict_json import MAX_DEPTH, too_deep
from apportion.rollouts import Action, Status, Trajectory, Turn

__all__ = ["SCHEMA_VERSION", "TOKEN_FIELDS", "VERSION_KEY", "from_row", "to_line", "to_row"]

SCHEMA_VERSION = 1
VERSION_KEY = "apportion"

TOKEN_FIELDS = ("prompt_ids", "response_ids", "policy", "own", "behaviour_logps", "policy_version")
_FIELDS = (
    "id",
    "group",
    "step",
    *TOKEN_FIELDS,
    "token_columns",
    "status",
    "error",
    "reference",
    "turns",
    "messages",
    "columns",
)
_TURN_FIELDS = ("text", "actions", "observation", "span", "reward", "executed", "columns")
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_ACTION_FIELDS = ("name", "arguments", "raw", "syntax", "call_id", "error")


def to_row(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as a row; token fields stay arrays.

    Raises:
        InvalidArgument: not a trajectory, a turn's reward that is not finite, free data nested too deep to read back.

    Example:
        >>> to_row(Trajectory(id="a", group="g", response_ids=[5, 6], policy=[1, 0], columns={"reward": 1.0}))
        {'apportion': 1, 'id': 'a', 'group': 'g', 'response_ids': array([5, 6]), 'policy': array([ True, False]),
         'columns': {'reward': 1.0}}
    """
    if not isinstance(trajectory, Trajectory):
        raise InvalidArgument("trajectories", trajectory, "Trajectory objects")
    row: dict[str, Any] = {VERSION_KEY: SCHEMA_VERSION, "id": trajectory.id, "group": trajectory.group}
    row |= _given(trajectory, ("step",))
    row |= _given(trajectory, TOKEN_FIELDS)
    if trajectory.has_tokens:
        if np.asarray(trajectory.prompt_ids).size == 0:
            row.pop("prompt_ids", None)
        if np.array_equal(row["own"], row["policy"]):
            del row["own"]
        if row["policy"].all():
            del row["policy"]
    if trajectory.status != "terminated":
        row["status"] = trajectory.status
    row |= _given(trajectory, ("error", "reference"))
    if trajectory.turns:
        row["turns"] = [_turn_row(turn, trajectory.id) for turn in trajectory.turns]
    row |= {name: value for name in ("token_columns", "messages", "columns") if (value := getattr(trajectory, name))}
    deep = [name for name in ("reference", "turns", "messages", "columns") if too_deep([row.get(name)])]
    if deep:
        where = f"trajectory {trajectory.id!r}"
        raise InvalidArgument(
            ", ".join(deep), where, f"at most {MAX_DEPTH} levels of lists and objects, as readers accept"
        )
    return row


def _given(source: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(source, name)) is not None}


def _turn_row(turn: Turn, where: str) -> dict[str, Any]:
    if turn.reward is not None and not np.isfinite(turn.reward):
        raise InvalidArgument("reward", turn.reward, f"a finite number or None for a turn of trajectory {where!r}")
    row: dict[str, Any] = {name: value for name in ("text", "observation") if (value := getattr(turn, name))}
    if turn.actions:
        row["actions"] = [_action_row(action) for action in turn.actions]
    row |= _given(turn, ("span", "reward"))
    if not turn.executed:
        row["executed"] = False
    if turn.columns:
        row["columns"] = turn.columns
    return row


def _action_row(action: Action) -> dict[str, Any]:
    row = _given(action, ("name", "call_id", "error"))
    return row | {name: value for name in ("arguments", "raw", "syntax") if (value := getattr(action, name))}


def to_line(row: Mapping[str, Any]) -> bytes:
    """A row as one line of JSON in UTF-8, line end included.

    Raises:
        InvalidArgument: a value that JSON has no form for; names the trajectory.
    """
    line = as_json(row, where=f"trajectory {row['id']!r}") + "\n"
    try:
        return line.encode("utf-8")
    except UnicodeEncodeError:
        # Half of a surrogate pair, as cut-off model output has it, exists in JSON only as an escape.
        return _HALF_PAIR.sub(lambda match: f"\\u{ord(match[0]):04x}", line).encode("utf-8")


def as_json(value: Any, *, where: str) -> str:
    """Compact JSON; NumPy scalars and arrays become numbers and lists."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument("trajectories", where, f"free data that JSON can hold ({error})") from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isnan(value).any():
        # JSON has no NaN; null is what readers take for it.
        return [None if np.isnan(one) else one for one in value.tolist()]
    if isinstance(value, np.ndarray):
        return (value.astype(np.int8) if value.dtype == np.bool_ else value).tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"found {type(value).__name__}")


def _settled(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are given: null means the same as leaving one out."""
    return {name: value for name, value in row.items() if value is not None}


def from_row(row: Mapping[str, Any]) -> Iterator[Trajectory]:
    """The trajectory of a native row; `FieldProblem` or `InvalidArgument` says which field is wrong."""
    version = row.get(VERSION_KEY)
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise _wrong_version(version)
    _refuse_unknown(row, (VERSION_KEY, *_FIELDS), "")
    row = _settled(row)
    lacking = next((name for name in ("id", "group") if name not in row), None)
    if lacking:
        raise FieldProblem(lacking, "absent", "every native row needs an id and a group")
    yield Trajectory(
        id=identifier(row["id"], "id"),
        group=identifier(row["group"], "group"),
        step=_optional(row, "step", integer),
        prompt_ids=_optional(row, "prompt_ids", integers),
        response_ids=_optional(row, "response_ids", integers),
        policy=_optional(row, "policy", integers),
        own=_optional(row, "own", integers),
        behaviour_logps=_optional(row, "behaviour_logps", floats),
        policy_version=_optional(row, "policy_version", integers),
        token_columns={
            name: floats(values, f"token_columns[{name!r}]")
            for name, values in mapping(row.get("token_columns", {}), "token_columns").items()
        },
        status=cast(Status, row.get("status", "terminated")),
        error=_optional(row, "error", text),
        reference=row.get("reference"),
        turns=tuple(_turn(turn, f"turns[{k}]") for k, turn in enumerate(_listed(row, "turns", ""))),
        messages=tuple(mapping(item, f"messages[{k}]") for k, item in enumerate(_listed(row, "messages", ""))),
        columns=mapping(row.get("columns", {}), "columns"),
    )


def _wrong_version(version: Any) -> FieldProblem:
    if version is None:
        remedy = f'start each native row with "{VERSION_KEY}": {SCHEMA_VERSION}, or name the format that the file has'
        return FieldProblem(VERSION_KEY, "absent, so this is not a native row", remedy)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        problem = (
            f"schema version {str(version)[:20]} is newer than {SCHEMA_VERSION}, the newest that this version reads"
        )
        return FieldProblem(VERSION_KEY, problem, "upgrade apportion")
    return FieldProblem(VERSION_KEY, f"{str(version)[:40]!r} is not a schema version", f"use {SCHEMA_VERSION}")


# What trainers call the same things, so that a near spelling is not suggested in its place.
_ALIASES: Mapping[str, str] = {
    "completion_ids": "response_ids",
    "responses": "response_ids",
    "completion_mask": "policy",
    "response_mask": "policy",
    "logprobs": "behaviour_logps",
    "rollout_log_probs": "behaviour_logps",
    "uid": "group",
}


def _refuse_unknown(row: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    unknown = next((name for name in row if name not in known), None)
    if unknown is None:
        return
    near = _ALIASES.get(unknown) or next(iter(get_close_matches(unknown[:80], known, n=1)), None)
    remedy = f"did you mean {near!r}? " if near in known else ""
    raise FieldProblem(f"{where}{unknown[:80]}", "unknown field", f'{remedy}free data belongs under "columns"')


def _optional(row: Mapping[str, Any], name: str, convert: Callable[[Any, str], Any], where: str = "") -> Any:
    value = row.get(name)
    return None if value is None else convert(value, where + name)


def _listed(row: Mapping[str, Any], name: str, where: str) -> list[Any]:
    value = row.get(name, [])
    if isinstance(value, list):
        return value
    raise FieldProblem(where + name, f"{type(value).__name__} is not a list", "give a list")


def _turn(data: Any, where: str) -> Turn:
    row = mapping(data, where)
    where += "."
    _refuse_unknown(row, _TURN_FIELDS, where)
    row = _settled(row)
    span = _optional(row, "span", integers, where)
    if span is not None and span.size != 2:
        raise FieldProblem(f"{where}span", f"{span.size} numbers", "give [start, stop) as two numbers")
    return Turn(
        text=text(row.get("text", ""), f"{where}text"),
        actions=tuple(_action(item, f"{where}actions[{k}]") for k, item in enumerate(_listed(row, "actions", where))),
        observation=text(row.get("observation", ""), f"{where}observation"),
        span=None if span is None else (int(span[0]), int(span[1])),
        reward=number(row.get("reward"), f"{where}reward"),
        executed=flag(row.get("executed", True), f"{where}executed"),
        columns=mapping(row.get("columns", {}), f"{where}columns"),
    )


def _action(data: Any, where: str) -> Action:
    row = mapping(data, where)
    where += "."
    _refuse_unknown(row, _ACTION_FIELDS, where)
    row = _settled(row)
    return Action(
        name=_optional(row, "name", text, where),
        arguments=mapping(row.get("arguments", {}), f"{where}arguments"),
        raw=text(row.get("raw", ""), f"{where}raw"),
        syntax=text(row.get("syntax", ""), f"{where}syntax"),
        call_id=_optional(row, "call_id", text, where),
        error=_optional(row, "error", text, where),
    )
