"""Files of the user's: Python that defines `recipe`, and rules in Python or TOML."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from apportion.errors import InvalidArgument
from apportion.rewards import Rule, rules_from_toml

__all__ = ["defined_in", "load_rules"]


def defined_in(path: str | Path, name: str, *, argument: str) -> Any:
    """Run a Python file of the user's and return what it defines under `name`.

    Raises:
        InvalidArgument: no such file, or it does not define `name`. What the file itself raises is not caught.
    """
    file = Path(path)
    spec = importlib.util.spec_from_file_location(f"apportion_{argument}_{file.stem}", file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise InvalidArgument(argument, str(path), f"a Python file that exists and defines `{name}`")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise InvalidArgument(argument, str(path), f"a file that defines `{name}`")
    return getattr(module, name)


def load_rules(path: str | Path) -> list[Rule]:
    """The rules of a file, for `apportion.rewards.path`: TOML (ending in .toml), or Python that defines a list `rules`.

    Raises:
        InvalidArgument: as `defined_in` and `rules_from_toml`, or `rules` is not a list of rules.
    """
    if str(path).endswith(".toml"):
        return rules_from_toml(path)
    found = defined_in(path, "rules", argument="rules")
    if not isinstance(found, (list, tuple)) or not found or not all(isinstance(rule, Rule) for rule in found):
        raise InvalidArgument("rules", str(path), "a file whose `rules` is a list of apportion.rewards.Rule")
    return list(found)
