"""Pluggable rewards and credit assignment for the RL post-training of LLM agents.

Everything named in `__all__` is imported on first use, so `import apportion` itself stays cheap:

    >>> import apportion
    >>> issubclass(apportion.InvalidArgument, apportion.ApportionError)
    True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # What type checkers and editors see; tests/test_exports.py keeps it equal to the table below.
    from apportion.errors import ApportionError as ApportionError
    from apportion.errors import BadRow as BadRow
    from apportion.errors import InvalidArgument as InvalidArgument
    from apportion.errors import LedgerMismatch as LedgerMismatch
    from apportion.errors import MissingExtra as MissingExtra
    from apportion.errors import MissingInput as MissingInput
    from apportion.errors import RecipeRefused as RecipeRefused

__version__ = "0.1.0.dev0"

# The reviewed public surface: name -> the module that defines it.
_EXPORTS = {
    "ApportionError": "apportion.errors",
    "BadRow": "apportion.errors",
    "InvalidArgument": "apportion.errors",
    "LedgerMismatch": "apportion.errors",
    "MissingExtra": "apportion.errors",
    "MissingInput": "apportion.errors",
    "RecipeRefused": "apportion.errors",
}

__all__ = sorted([*_EXPORTS, "__version__"])


def __getattr__(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
