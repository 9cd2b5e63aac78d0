"""`apportion recipes`: every recipe says what it is, what it needs and what may be set."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from apportion.cli.recipes import _arguments
from apportion.recipes import names

Run = Callable[..., Result]


def test_every_recipe_is_listed_with_paper_needs_and_settings(run: Run) -> None:
    listed = json.loads(run("recipes", "--json").stdout)
    assert [entry["name"] for entry in listed] == names()
    for entry in listed:
        assert entry["about"], entry["name"]
        assert entry["paper"], entry["name"]
        assert entry["needs"], entry["name"]
        assert all(setting["kind"] for setting in entry["settings"]), entry["name"]


def test_the_page_has_every_name(run: Run) -> None:
    shown = run("recipes").stdout
    for name in names():
        assert f"\n  {name}  " in shown


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("columns", [80, 120])
def test_a_recipe_in_detail(run: Run, name: str, columns: int) -> None:
    result = run("recipes", name, columns=columns)
    assert result.exit_code == 0
    for setting in json.loads(run("recipes", name, "--json").stdout)["settings"]:
        assert f"  {setting['name']}=" in result.stdout
    assert f"--recipe {name}" in result.stdout
    # A command that is broken in two cannot be pasted.
    assert max(len(line) for line in result.stdout.splitlines() if not line.startswith("  apportion ")) <= columns


def test_settings_carry_their_documentation(run: Run) -> None:
    settings = {s["name"]: s for s in json.loads(run("recipes", "rlvp", "--json").stdout)["settings"]}
    assert (settings["penalty"]["default"], settings["penalty"]["kind"]) == (0.25, "a number")
    assert "violation" in settings["penalty"]["about"]
    assert settings["variant"]["kind"] == "c1 | c2 | c3 | c4"


def test_a_recipe_of_the_users_own(run: Run, recipe_file: Path) -> None:
    found = json.loads(run("recipes", recipe_file, "--json").stdout)
    assert found["about"] == "Mine: centred."
    assert [setting["name"] for setting in found["settings"]] == ["reward", "weight"]


def test_a_recipe_that_needs_a_setting_is_described_all_the_same(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def recipe(*, weight: float):\n    'Needs a weight.'\n")
    result = run("recipes", path)
    assert result.exit_code == 0
    assert "a number, required" in result.stdout


def test_an_unknown_recipe_lists_the_known(run: Run) -> None:
    result = run("recipes", "grppo")
    assert result.exit_code == 2
    assert "grpo" in result.stderr


def test_arguments_are_read_out_of_a_docstring() -> None:
    doc = "Line.\n\nArgs:\n    a: first\n        goes on.\n    b: second.\n\nRaises:\n    c: no."
    assert _arguments(doc) == {"a": "first goes on.", "b": "second."}
    assert _arguments("Line.") == {}
