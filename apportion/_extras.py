"""Importing optional dependencies: what is absent says how to install it."""

from __future__ import annotations

import importlib
from types import ModuleType

from apportion.errors import MissingExtra

__all__ = ["require"]


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional dependency.

    Args:
        module: dotted name of the module, e.g. `"pyarrow.parquet"`.
        extra: the extra of apportion that installs it, e.g. `"parquet"`.

    Returns:
        The imported module.

    Raises:
        MissingExtra: the package is not installed; the message is the line that installs it. A package that is
            installed but broken raises its own error, since installing it again would not help.

    Example:
        >>> require("json.decoder", extra="parquet").__name__
        'json.decoder'
        >>> require("no_such_package.part", extra="parquet")
        Traceback (most recent call last):
            ...
        apportion.errors.MissingExtra: no_such_package is not installed; run: pip install 'apportion[parquet]'
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingExtra(package, extra) from error
