"""The trainers that the library is compared with. An absent one is an error: what nobody runs proves nothing."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest

SWITCH = "APPORTION_WITHOUT_TRAINERS"


def trainer(module: str, *, extra: str) -> Any:
    """The module; without it the tests of the calling file fail, or are skipped where the switch says so."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if os.environ.get(SWITCH) == "1":
            pytest.skip(f"{module} is not installed and {SWITCH}=1", allow_module_level=True)
        pytest.fail(
            f"{module} cannot be imported ({error}). Install it with: pip install 'apportion[{extra}]', "
            f"or set {SWITCH}=1 to leave the comparison out",
            pytrace=False,
        )
