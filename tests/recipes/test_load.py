"""Recipes from files: what a file must define, and what its function must return."""

from __future__ import annotations

from pathlib import Path

import pytest

from apportion.errors import InvalidArgument
from apportion.recipes import load


def test_a_function_must_return_a_recipe(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def recipe(): pass\n")
    with pytest.raises(InvalidArgument, match=r"recipe=None: expected a Recipe from the function in '.*mine.py'"):
        load(path)


def test_settings_without_a_default_are_asked_for_by_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import apportion as ap\ndef recipe(*, rules: str, k: int): return ap.load('grpo')\n")
    with pytest.raises(InvalidArgument, match="expected also k, without a default"):
        load(path, rules="a.py")
    assert load(path, rules="a.py", k=2).name == "grpo"


def test_a_ready_recipe_has_no_settings(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import apportion as ap\nrecipe = ap.load('grpo')\n")
    assert load(path).name == "grpo"
    with pytest.raises(InvalidArgument, match="it has none"):
        load(path, k=2)
