"""JSON as a verifier reads it: strictly parsed, never repaired, defaults filled in, compared by value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from apportion.rewards.schema import resolve
from apportion.rewards.verifiers.answer import spoken

__all__ = ["Arrays", "NotJson", "equal", "filled", "json_text", "parse"]

Arrays: TypeAlias = Literal["ordered", "unordered"]

_FENCE = "```"
_LONGEST = 1_000_000
_DEEPEST = 50


class NotJson(ValueError):
    """A text that is not JSON, and where it stops being so."""


def json_text(text: str) -> str | None:
    r"""Where JSON stands in a reply: the last fenced block, else the whole of it; thinking is left out.

    Example:
        >>> json_text('Here:\n```json\n{"a": 1}\n```\nDone.'), json_text(' {"a": 1} ')
        ('{"a": 1}', '{"a": 1}')
    """
    said = spoken(text)
    stop = said.rfind(_FENCE)
    start = said.rfind(_FENCE, 0, max(stop, 0))
    if start < 0:
        return said.strip() or None
    label, _, body = said[start + len(_FENCE) : stop].partition("\n")
    return (body if label.strip().isalnum() or not label.strip() else label + body).strip() or None


def parse(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        NotJson: it is none. A key that stands twice, NaN and infinities are no JSON, and nothing is repaired.

    Example:
        >>> parse('{"a": 1, "a": 2}')
        Traceback (most recent call last):
            ...
        apportion.rewards.verifiers.json_values.NotJson: the key 'a' stands twice
    """
    if len(text) > _LONGEST:
        raise NotJson(f"longer than {_LONGEST} characters")
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} at character {error.pos}") from None
    except NotJson:
        raise
    except RecursionError:
        raise NotJson("nested too deeply") from None
    except ValueError:
        raise NotJson("a number with too many digits") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise NotJson(f"the key {key[:40]!r} stands twice")
        found[key] = value
    return found


def _constant(name: str) -> Any:
    raise NotJson(f"{name} is no JSON number")


def filled(value: Any, schema: object, *, root: object = None, depth: int = 0) -> Any:
    """A value with the defaults of its schema where properties are left out.

    Example:
        >>> filled({"a": 1}, {"properties": {"b": {"default": 0}}})
        {'a': 1, 'b': 0}
    """
    root = schema if root is None else root
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return value
    if "$ref" in schema:
        return filled(value, resolve(schema["$ref"], root), root=root, depth=depth + 1)
    if isinstance(value, Mapping):
        properties = schema.get("properties", {})
        defaults = {
            name: inner["default"]
            for name, inner in properties.items()
            if isinstance(inner, Mapping) and "default" in inner
        }
        given = {
            name: filled(item, properties[name], root=root, depth=depth + 1) if name in properties else item
            for name, item in value.items()
        }
        return {**given, **{name: default for name, default in defaults.items() if name not in given}}
    if _is_array(value) and "items" in schema:
        return [filled(item, schema["items"], root=root, depth=depth + 1) for item in value]
    return value


def equal(gold: Any, given: Any, *, arrays: Arrays = "ordered", depth: int = 0) -> bool:
    """Equality of JSON values: 1 equals 1.0, neither equals True, key order is nothing.

    Example:
        >>> equal({"a": [1, 2]}, {"a": [2.0, 1]}), equal([1, 2], [2.0, 1], arrays="unordered"), equal(1, True)
        (False, True, False)
    """
    if depth > _DEEPEST or isinstance(gold, bool) != isinstance(given, bool):
        return False
    if isinstance(gold, Mapping):
        return (
            isinstance(given, Mapping)
            and gold.keys() == given.keys()
            and all(equal(item, given[key], arrays=arrays, depth=depth + 1) for key, item in gold.items())
        )
    if _is_array(gold):
        if not _is_array(given) or len(gold) != len(given):
            return False
        if arrays == "ordered":
            return all(equal(one, two, depth=depth + 1) for one, two in zip(gold, given, strict=True))
        left = list(given)
        for item in gold:
            # Equality is an equivalence, so whichever equal item is taken, the rest can still be matched.
            at = next((at for at, one in enumerate(left) if equal(item, one, arrays=arrays, depth=depth + 1)), None)
            if at is None:
                return False
            left.pop(at)
        return True
    return bool(gold == given)


def _is_array(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))
