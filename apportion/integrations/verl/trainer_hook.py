"""Registers `CreditTrainer` when veRL's trainers are imported, and not before: most processes never do."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from apportion.integrations.verl import plugin

__all__ = ["TRAINER", "watch"]

TRAINER = "apportion_sync"
# The last of veRL's trainers that its package imports.
_AFTER = "verl.trainer.ppo.v1.trainer_sync"


class _Watch(MetaPathFinder):
    """Finds one module as the others do, and registers after it has run."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != _AFTER:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            _register()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def watch() -> None:
    """Register now where veRL's trainers are there already, else as soon as they are."""
    if _AFTER in sys.modules:
        _register()
    elif not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())


def _register() -> None:
    try:
        import_module("apportion.integrations.verl.trainer")
    except Exception:  # noqa: BLE001 - a run with another trainer must not end here; plugin.status() shows it
        plugin._FAILURES[TRAINER] = traceback.format_exc()
