"""`-p key=value`: texts from a command line as the arguments that a recipe's function takes."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from apportion.errors import InvalidArgument

__all__ = ["convert", "described", "kinds", "parameters"]

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


def parameters(make: Callable[..., object], pairs: Iterable[str], *, recipe: str) -> dict[str, Any]:
    """The settings of a recipe.

    Args:
        make: the function whose annotations say what each setting is.
        pairs: texts of the form key=value.
        recipe: its name, for messages.

    Raises:
        InvalidArgument: no "=", a key given twice or unknown (the valid ones are listed), a value of another type.

    Example:
        >>> def made(*, penalty: float = 0.5, top: int | None = None) -> None: ...
        >>> parameters(made, ["penalty=0.25", "top=none"], recipe="made")
        {'penalty': 0.25, 'top': None}
        >>> parameters(made, ["penality=1"], recipe="made")
        Traceback (most recent call last):
            ...
        apportion.errors.InvalidArgument: -p='penality': expected penalty? One of the settings of 'made': penalty, top
    """
    known = [name for name, p in inspect.signature(make).parameters.items() if p.kind is not p.VAR_KEYWORD]
    hints = kinds(make)
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InvalidArgument("-p", pair, "key=value")
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"{close[0]}? " if close else ""
            listed = (
                f"{'One' if close else 'one'} of the settings of {recipe!r}: {', '.join(known)}"
                if known
                else f"none: {recipe!r} has no settings"
            )
            raise InvalidArgument("-p", name, hint + listed)
        if name in found:
            raise InvalidArgument("-p", name, "each setting once")
        found[name] = convert(text, hints.get(name, Any), name=name)
    return found


def kinds(make: Callable[..., object]) -> dict[str, Any]:
    """What each setting is; nothing where the types were imported for type checkers only, and so cannot be looked up.

    Example:
        >>> def made(*, penalty: float = 0.5) -> None: ...
        >>> kinds(made)["penalty"]
        <class 'float'>
    """
    try:
        return get_type_hints(make)
    except NameError:
        return {}


def convert(text: str, annotation: Any, *, name: str) -> Any:
    """A text as a value of the annotated type.

    Example:
        >>> convert("0.5", float | None, name="x"), convert("none", float | None, name="x")
        (0.5, None)
        >>> convert("a,b", tuple[str, ...], name="x"), convert("c3", Literal["c1", "c3"], name="x")
        (('a', 'b'), 'c3')
        >>> convert("much", float, name="penalty")
        Traceback (most recent call last):
            ...
        apportion.errors.InvalidArgument: -p penalty='much': expected a number
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        if type(None) in inner and text.lower() in ("none", "null", ""):
            return None
        return _first(text, [kind for kind in inner if kind is not type(None)], annotation, name)
    if origin is Literal:
        options = {str(option): option for option in inner}
        if text in options:
            return options[text]
    elif annotation is bool:
        if text.lower() in _TRUE + _FALSE:
            return text.lower() in _TRUE
    elif annotation in (int, float, Path):
        try:
            return annotation(text)
        except ValueError:
            pass
    elif annotation is str:
        return text
    elif origin in (list, tuple, Sequence, frozenset, set):
        kind = inner[0] if inner else str
        values = [convert(part.strip(), kind, name=name) for part in text.split(",") if part.strip()]
        return values if origin in (list, Sequence) else origin(values)
    else:
        return _as_json(text, annotation, name)
    raise InvalidArgument(f"-p {name}", text, described(annotation))


def _first(text: str, kinds: Sequence[Any], annotation: Any, name: str) -> Any:
    for kind in kinds:
        try:
            return convert(text, kind, name=name)
        except InvalidArgument:
            continue
    raise InvalidArgument(f"-p {name}", text, described(annotation))


def _as_json(text: str, annotation: Any, name: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if get_origin(annotation) in (dict, Mapping) and not isinstance(value, dict):
        raise InvalidArgument(f"-p {name}", text, described(annotation))
    return value


def described(annotation: Any) -> str:
    """A type in words.

    Example:
        >>> described(int | None), described(Literal["keep", "zero"])
        ('a whole number or none', 'keep | zero')
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(described(kind) for kind in inner)
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin in (list, tuple, Sequence, frozenset, set):
        return f"{described(inner[0]) if inner else 'texts'}, separated by commas"
    if origin in (dict, Mapping):
        return "a JSON object"
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path"}
    return (
        "none" if annotation is type(None) else words.get(annotation, getattr(annotation, "__name__", "JSON or text"))
    )
