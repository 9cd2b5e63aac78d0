"""The public surface: reviewed, resolvable, and free to import."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import apportion

# The modules that one import brings in, third-party names only.
THIRD_PARTY = """
import sys
before = set(sys.modules)
import apportion
dir(apportion), apportion.__version__
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(new - set(sys.stdlib_module_names)))
"""


def typed_imports() -> dict[str, str]:
    """Name -> module, as type checkers read it from `if TYPE_CHECKING:`."""
    body = ast.parse(Path(apportion.__file__).read_text(encoding="utf-8")).body
    guarded = [node for node in body if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING"]
    rows = [row for block in guarded for row in block.body if isinstance(row, ast.ImportFrom)]
    return {alias.asname or "": row.module or "" for row in rows for alias in row.names}


def test_public_names_are_all() -> None:
    assert apportion.__all__ == sorted({*apportion._EXPORTS, "__version__"})
    assert dir(apportion) == apportion.__all__


@pytest.mark.parametrize("name", apportion.__all__)
def test_name_resolves(name: str) -> None:
    assert getattr(apportion, name) is not None


@pytest.mark.parametrize(("name", "module"), apportion._EXPORTS.items())
def test_name_is_public_where_it_is_defined(name: str, module: str) -> None:
    home = importlib.import_module(module)
    assert name in home.__all__
    assert getattr(apportion, name) is getattr(home, name)
    assert getattr(getattr(home, name), "__module__", module) == module


def test_type_checkers_see_the_same_names() -> None:
    assert typed_imports() == apportion._EXPORTS


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'apportion' has no attribute 'advantage_of_nothing'"):
        _ = apportion.advantage_of_nothing


def test_import_brings_in_nothing_but_itself() -> None:
    run = subprocess.run([sys.executable, "-c", THIRD_PARTY], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["apportion"]
