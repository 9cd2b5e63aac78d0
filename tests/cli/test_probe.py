"""`apportion probe`, end to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from apportion.integrations.files import write
from apportion.rollouts import Action, Trajectory, Turn

Run = Callable[..., Result]
Make = Callable[..., Path]

RULES = """
[rules.read_first]
before = { first = { call = "read" }, then = { call = "edit" } }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rollouts.jsonl"
    calls = {"restored": (["read", "edit"], ["edit"]), "lost": (["edit"], ["edit"])}
    rows = [
        Trajectory(
            id=f"{group}/{at}",
            group=group,
            turns=tuple(Turn(actions=(Action(name),)) for name in names),
            columns={"reward": 0.0, "trial": at},
        )
        for group, attempts in calls.items()
        for at, names in enumerate(attempts)
    ]
    write(rows, path)
    return path


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    return path


def lines(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_a_page_with_the_number_behind_each_advice(run: Run, source: Path, rules: Path) -> None:
    page = lines(run("probe", source, "--rules", rules, columns=80))
    assert "4 rollouts in 2 groups (2 all-fail); 2 dead, 1 of them with a signal that" in page
    assert "fulfilments 1 of 2 50% 1–99% – likely, sample more" in page
    assert "violations 1 of 2 50% 1–99% – penalty, no gate" in page
    assert "turns 1 of 2 50% 1–99% – size is no reason" in page
    assert "lost all-fail not reachable" in page
    assert "restored all-fail fulfilments, violations, rule read_first" in page
    assert "not looked at (--column): trial" in page
    assert page[-1].startswith("apportion score") and "-p rules=" in page[-1]  # noqa: PT018
    assert any("████" in line for line in lines(run("probe", source, "--rules", rules, columns=140)))


def test_without_rules_nothing_restores_it(run: Run, source: Path) -> None:
    page = lines(run("probe", source))
    assert "restored all-fail not reachable" in page
    assert page[-1].endswith("--rules RULES.toml")


def test_columns_and_the_gate(run: Run, source: Path) -> None:
    told = json.loads(run("probe", source, "--column", "trial", "--gate", "0.9", "--json").stdout)
    (trial,) = [signal for signal in told["signals"] if signal["name"] == "trial"]
    assert (trial["varies"], trial["share"], trial["advice"]) == (2, 1.0, "likely")
    assert (told["dead"], told["gate"], told["skipped"]) == (2, 0.9, [])


def test_what_goes_wrong_has_the_exit_codes_of_the_others(run: Run, source: Path, rules: Path, tmp_path: Path) -> None:
    assert run("probe", tmp_path / "absent.jsonl").exit_code == 2
    assert run("probe", source, "--gate", "2").exit_code == 2
    assert run("probe", source, "--rules", tmp_path / "absent.toml").exit_code == 2
    result = run("probe", source, "--column", "absent")
    assert (result.exit_code, "'absent'" in result.stderr) == (3, True)
    rules.write_text("[rules.r]\nbefor = {}")
    result = run("probe", source, "--rules", rules)
    assert (result.exit_code, "'before'?" in result.stderr) == (2, True)
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n")
    assert run("probe", bad).exit_code == 3


def test_quiet_is_quiet_and_rows_left_out_are_counted(run: Run, source: Path) -> None:
    assert run("probe", source, "--quiet").output == ""
    with source.open("a") as file:
        file.write("{}\n")
    assert any("1 row left out" in line for line in lines(run("probe", source)))
    assert run("probe", source, "--on-error", "stop").exit_code == 3


def test_hostile_rollouts_cannot_reach_the_terminal(run: Run, hostile_file: Path) -> None:
    result = run("probe", hostile_file)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert "\u202e" not in result.output
