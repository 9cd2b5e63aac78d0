"""The part of JSON Schema that tools declare their parameters in; anything else is refused, never ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.patterns import Pattern
from apportion.rewards.structured import canonical, same_value

# Deeper values are refused: a hostile one must not exhaust the stack. Nor may one that alternatives look at again and
# again exhaust the time: so many pairs of a value and a schema are looked at.
_DEEPEST = 50
_MOST = 50_000

_ANNOTATIONS = frozenset(
    {"$schema", "$id", "$comment", "title", "description", "default", "examples", "format", "deprecated", "readOnly",
     "writeOnly", "strict", "$defs", "definitions", "nullable"}
)  # fmt: skip
_CHECKED = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "minimum", "maximum",
     "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "pattern",
     "anyOf", "oneOf", "allOf", "$ref"}
)  # fmt: skip


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, Sequence) and not isinstance(value, str),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": _is_number,
    "integer": lambda value: value.is_integer() if isinstance(value, float) else _is_number(value),
}
_BOUNDS: Mapping[str, tuple[Callable[[Any], bool], Callable[[Any, Any], bool], str]] = {
    "minimum": (_is_number, lambda value, bound: value >= bound, "below"),
    "maximum": (_is_number, lambda value, bound: value <= bound, "above"),
    "exclusiveMinimum": (_is_number, lambda value, bound: value > bound, "not above"),
    "exclusiveMaximum": (_is_number, lambda value, bound: value < bound, "not below"),
    "minLength": (_TYPES["string"], lambda value, bound: len(value) >= bound, "shorter than"),
    "maxLength": (_TYPES["string"], lambda value, bound: len(value) <= bound, "longer than"),
    "minItems": (_TYPES["array"], lambda value, bound: len(value) >= bound, "fewer than"),
    "maxItems": (_TYPES["array"], lambda value, bound: len(value) <= bound, "more than"),
}


def check_schema(schema: object, where: str) -> None:
    """Raises `InvalidArgument` for a schema that `problems` could not judge completely.

    Example:
        >>> check_schema({"type": "object", "if": {}}, "tool")
        Traceback (most recent call last):
            ...
        apportion.errors.InvalidArgument: tool=['if']: expected only keywords that are checked: ...
    """
    _check(schema, where, schema, 0)


def _check(schema: object, where: str, root: object, depth: int) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        raise InvalidArgument(where, schema, "a JSON schema (a mapping)")
    unknown = sorted(set(schema) - _ANNOTATIONS - _CHECKED)
    if unknown:
        raise InvalidArgument(where, unknown, f"only keywords that are checked: {', '.join(sorted(_CHECKED))}")
    kind = schema.get("type", ())
    if not all(
        isinstance(one, str) and one in _TYPES for one in ([kind] if not isinstance(kind, list | tuple) else kind)
    ):
        raise InvalidArgument(f"{where}.type", kind, f"one or more of {', '.join(_TYPES)}")
    for keyword in _BOUNDS:
        if keyword in schema and not _is_number(schema[keyword]):
            raise InvalidArgument(f"{where}.{keyword}", schema[keyword], "a number")
    for keyword in ("enum", "required", "anyOf", "oneOf", "allOf"):
        if not _TYPES["array"](schema.get(keyword, [])):
            raise InvalidArgument(f"{where}.{keyword}", schema[keyword], "a list")
    if not all(isinstance(name, str) for name in schema.get("required", ())):
        raise InvalidArgument(f"{where}.required", schema["required"], "a list of names")
    for keyword in ("properties", "$defs", "definitions"):
        if not isinstance(schema.get(keyword, {}), Mapping):
            raise InvalidArgument(f"{where}.{keyword}", schema[keyword], "a mapping")
    if "pattern" in schema:
        Pattern(schema["pattern"])
    if "$ref" in schema and resolve(schema["$ref"], root) is None:
        raise InvalidArgument(f"{where}.$ref", schema["$ref"], "a definition of the same schema: '#/$defs/Name'")
    if _returns(schema, root, ()):
        raise InvalidArgument(where, sorted(schema), "references that lead into the value, and not back to their start")
    for keyword in ("properties", "$defs", "definitions"):
        for name, inner in dict(schema.get(keyword, {})).items():
            _check(inner, f"{where}.{name}", root, depth + 1)
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            _check(schema[keyword], f"{where}.{keyword}", root, depth + 1)
    for keyword in ("anyOf", "oneOf", "allOf"):
        for index, inner in enumerate(schema.get(keyword, ())):
            _check(inner, f"{where}.{keyword}[{index}]", root, depth + 1)


def _returns(schema: object, root: object, seen: tuple[int, ...]) -> bool:
    """Whether a schema applies itself to the very value that it is applied to."""
    if not isinstance(schema, Mapping):
        return False
    if id(schema) in seen or len(seen) > _DEEPEST:
        return True
    applied = [inner for keyword in ("anyOf", "oneOf", "allOf") for inner in schema.get(keyword, ())]
    if "$ref" in schema:
        applied.append(resolve(schema["$ref"], root))
    return any(_returns(inner, root, (*seen, id(schema))) for inner in applied)


def problems(
    value: object,
    schema: object,
    *,
    root: object = None,
    where: str = "",
    depth: int = 0,
    steps: Iterator[int] | None = None,
) -> Iterator[str]:
    """What is wrong with a value, one sentence each; nothing when it is valid.

    A required property that has a default may be left out.

    Example:
        >>> list(problems({"n": "3"}, {"properties": {"n": {"type": "integer"}}, "required": ["n", "path"]}))
        ['path is missing', 'n is str, not integer']
    """
    root = schema if root is None else root
    steps = count() if steps is None else steps
    here = where or "the value"
    if next(steps) > _MOST:
        yield f"{here} takes more than {_MOST} steps to check"
        return
    if isinstance(schema, bool):
        if not schema:
            yield f"{here} must not be given"
        return
    if depth > _DEEPEST:
        yield f"{here} is nested deeper than {_DEEPEST} levels"
        return
    if not isinstance(schema, Mapping):
        yield f"{here} is declared by something that is no schema"
        return
    if "$ref" in schema:
        yield from problems(value, resolve(schema["$ref"], root), root=root, where=where, depth=depth + 1, steps=steps)
    types = _types(schema)
    nullable = value is None and schema.get("nullable") is True
    if types and not nullable and not any(_TYPES[kind](value) for kind in types):
        yield f"{here} is {type(value).__name__}, not {' or '.join(types)}"
        return
    yield from _plain(value, schema, here)
    yield from _alternatives(value, schema, root, where, here, depth, steps)
    if _TYPES["object"](value):
        yield from _object(value, schema, root, where, depth, steps)
    elif isinstance(value, Sequence) and not isinstance(value, str) and "items" in schema:
        for index, item in enumerate(value):
            yield from problems(
                item, schema["items"], root=root, where=f"{where}[{index}]", depth=depth + 1, steps=steps
            )


def _plain(value: Any, schema: Mapping[str, Any], here: str) -> Iterator[str]:
    if "enum" in schema and not any(same_value(value, option) for option in schema["enum"]):
        yield f"{here} is {_arguments.excerpt(value, 60)}, not one of {_arguments.excerpt(list(schema['enum']), 120)}"
    if "const" in schema and not same_value(value, schema["const"]):
        yield f"{here} is {_arguments.excerpt(value, 60)}, not {_arguments.excerpt(schema['const'], 60)}"
    for keyword, (applies, holds, words) in _BOUNDS.items():
        if keyword in schema and applies(value) and not holds(value, schema[keyword]):
            yield f"{here} is {words} {schema[keyword]}"
    if "pattern" in schema and isinstance(value, str) and not Pattern(schema["pattern"]).found_in(value):
        yield f"{here} does not match {_arguments.excerpt(schema['pattern'], 60)}"
    if schema.get("uniqueItems") is True and _TYPES["array"](value):
        whole = [int(item) if isinstance(item, float) and item.is_integer() else item for item in value]
        kinds = {canonical(item) for item in whole}
        if len(kinds) < len(value):
            yield f"{here} repeats an item"


def _alternatives(
    value: object,
    schema: Mapping[str, Any],
    root: object,
    where: str,
    here: str,
    depth: int,
    steps: Iterator[int],
) -> Iterator[str]:
    def fits(inner: object) -> bool:
        return next(problems(value, inner, root=root, where=where, depth=depth + 1, steps=steps), None) is None

    for inner in schema.get("allOf", ()):
        yield from problems(value, inner, root=root, where=where, depth=depth + 1, steps=steps)
    if "anyOf" in schema and not any(fits(inner) for inner in schema["anyOf"]):
        yield f"{here} fits none of the alternatives"
    if "oneOf" in schema:
        fitting = sum(fits(inner) for inner in schema["oneOf"])
        if fitting != 1:
            yield f"{here} fits {fitting} of the alternatives, not exactly one"


def _object(
    value: Any, schema: Mapping[str, Any], root: object, where: str, depth: int, steps: Iterator[int]
) -> Iterator[str]:
    properties = schema.get("properties", {})

    def inside(name: str) -> str:
        return f"{where}.{_arguments.brief(str(name), 60)}".lstrip(".")

    for name in schema.get("required", ()):
        declared = properties.get(name, {})
        if name not in value and not (isinstance(declared, Mapping) and "default" in declared):
            yield f"{inside(name)} is missing"
    # What holds nothing first: it mostly tells the alternatives apart before they look into what nests.
    for name, item in sorted(value.items(), key=lambda entry: isinstance(entry[1], Mapping | list | tuple)):
        if name in properties:
            yield from problems(item, properties[name], root=root, where=inside(name), depth=depth + 1, steps=steps)
        elif schema.get("additionalProperties") is False:
            yield f"{inside(name)} is unknown"
        elif "additionalProperties" in schema:
            yield from problems(
                item, schema["additionalProperties"], root=root, where=inside(name), depth=depth + 1, steps=steps
            )


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else tuple(kind)


def resolve(reference: object, root: object) -> object:
    """What a `$ref` of a schema points at inside it; `None` when it points nowhere.

    Example:
        >>> resolve("#/$defs/Leg", {"$defs": {"Leg": {"type": "string"}}})
        {'type': 'string'}
    """
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found = root
    for key in reference[2:].split("/"):
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return found
