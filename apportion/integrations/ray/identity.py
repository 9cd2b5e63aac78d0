"""What a run is: the recipe, its settings, and the content of every file it reads. Two runs are one when all agree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["differences", "file_digest", "files_of"]


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_of(recipe: str, parameters: Mapping[str, Any]) -> dict[str, str]:
    """The digest of the recipe's file and of every setting that names a file; what those import is not looked at."""
    named = {"recipe": recipe if recipe.endswith(".py") else None, **parameters}
    paths = {name: Path(value) for name, value in named.items() if isinstance(value, (str, Path)) and str(value)}
    return {name: file_digest(path) for name, path in paths.items() if path.is_file()}


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """In words, every entry that differs.

    Example:
        >>> differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3, "d": 0}})
        ['a.c: 3, was 2', 'a.d: 0, was absent']
    """
    old, new = dict(_flat(before)), dict(_flat(now))
    absent = "absent"
    return [
        f"{name}: {_short(new.get(name, absent))}, was {_short(old.get(name, absent))}"
        for name in {**old, **new}
        if name not in old or name not in new or old[name] != new[name]
    ]


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, entry in value.items():
        if isinstance(entry, Mapping) and entry:
            yield from _flat(entry, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", entry


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:23]}…"
