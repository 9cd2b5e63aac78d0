"""`apportion demo --score-only` and the rollouts it ships."""

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from apportion.batch import Batch
from apportion.cli.demo_rollouts import ROLLOUTS, rollouts
from apportion.cli.demo_tour import RULES
from apportion.integrations.files import read, write
from apportion.recipe import Credit
from apportion.recipes import load
from apportion.report.diagnostics import audit
from apportion.rewards import observe
from apportion.rollouts import Level, Trajectory

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def shipped() -> Sequence[Trajectory]:
    return list(read(ROLLOUTS))


def test_the_shipped_file_is_what_the_script_makes(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    write(rollouts(), path)
    assert path.read_bytes() == ROLLOUTS.read_bytes()


def test_they_are_token_exact_and_turn_structured(shipped: Sequence[Trajectory]) -> None:
    for trajectory in shipped:
        assert trajectory.has_tokens
        assert trajectory.n_turns == len(trajectory.turns) > 0
        assert all(turn.text and turn.actions for turn in trajectory.turns)
        assert trajectory.behaviour_logps is not None
        assert np.isfinite(trajectory.behaviour_logps).all()


def test_they_hold_every_case_worth_showing(shipped: Sequence[Trajectory]) -> None:
    found = audit(shipped)
    assert {kind: n for kind, n in found.kinds.items() if n} == {
        "mixed": 3,
        "all-pass": 1,
        "all-fail": 1,
        "singleton": 1,
    }
    assert found.status == {"terminated": 19, "truncated": 1, "aborted": 1}
    assert not [finding for finding in found.findings if finding.severity == "error"]


def credit(shipped: Sequence[Trajectory], name: str, **settings: object) -> Credit:
    recipe = load(name, **settings)
    made, _ = recipe.assign(Batch.pack(shipped), observe(recipe.observers, shipped))
    return made


def per_turn(made: Credit, id: str) -> list[float]:
    turns = made.batch.pool(made.advantages.values, Level.TOKEN, Level.TURN, "mean")
    rows = made.batch.owner(Level.TURN, Level.TRAJECTORY) == made.batch.ids.index(id)
    found: list[float] = turns[rows].tolist()
    return found


def test_the_same_outcome_hides_different_turns(shipped: Sequence[Trajectory]) -> None:
    grpo = credit(shipped, "grpo")
    rlvp = credit(shipped, "rlvp", rules=str(RULES), variant="c2")
    careful, careless = (per_turn(grpo, f"old-logs/{i}") for i in (0, 1))
    assert len({round(value, 12) for value in careful + careless}) == 1
    listing, copy, _, delete, *_ = per_turn(rlvp, "old-logs/0")
    assert delete > listing > 0
    assert copy == pytest.approx(listing)
    listing, delete, _, _ = per_turn(rlvp, "old-logs/1")
    assert delete < 0 < listing


def test_a_group_without_a_pass_still_teaches_rlvp(shipped: Sequence[Trajectory]) -> None:
    rlvp = credit(shipped, "rlvp", rules=str(RULES), variant="c2")
    assert not any(per_turn(credit(shipped, "grpo"), "temp-files/0"))
    assert per_turn(rlvp, "temp-files/0")[0] < 0 < per_turn(rlvp, "temp-files/1")[2]


@pytest.mark.parametrize("columns", [80, 120])
def test_the_page(run: Run, columns: int) -> None:
    result = run("demo", "--score-only", columns=columns)
    assert result.exit_code == 0, result.output
    for words in ("ledger of old-logs", "ledger of temp-files", "grpo", "rlvp", "+ delete", "x delete", "audit"):
        assert words in result.stdout
    assert "…" not in result.stdout
    wide = [line for line in result.stdout.splitlines() if len(line) > columns]
    assert all(str(ROLLOUTS) in line for line in wide)


def test_every_line_of_the_ledger_sums(run: Run) -> None:
    number = r"(·|[+-]\d+\.\d\d)"
    lines = re.findall(
        rf"  {number} +{number} +{number} +{number} +[ █]*│", run("demo", "--score-only", columns=120).stdout
    )
    assert len(lines) > 20
    for line in lines:
        outcome, broken, kept, total = (0.0 if cell == "·" else float(cell) for cell in line)
        assert outcome + broken + kept == pytest.approx(total, abs=0.0151)


def test_it_ends_with_three_commands(run: Run) -> None:
    lines = run("demo", "--score-only").stdout.splitlines()
    assert [line.split()[:2] for line in lines[lines.index("next") + 1 :]] == [
        ["apportion", "audit"],
        ["apportion", "score"],
        ["apportion", "recipes"],
    ]


def test_another_group_can_be_looked_at(run: Run) -> None:
    assert "ledger of screenshots" in run("demo", "--score-only", "--group", "screenshots").stdout
    unknown = run("demo", "--score-only", "--group", "absent")
    assert unknown.exit_code == 2
    assert "old-logs" in unknown.stderr


def test_the_rollouts_survive_the_commands_that_the_demo_names(run: Run, tmp_path: Path) -> None:
    assert run("audit", ROLLOUTS).exit_code == 0
    for recipe in (["grpo"], ["rlvp", "-p", f"rules={RULES}"]):
        assert run("score", ROLLOUTS, "-r", *recipe, "-o", tmp_path / "credit.jsonl").exit_code == 0
    assert run("recipes", "rlvp").exit_code == 0


def test_a_rollout_has_no_field_that_the_file_loses(shipped: Sequence[Trajectory]) -> None:
    for made, found in zip(rollouts(), shipped, strict=True):
        for field in fields(Trajectory):
            one, other = getattr(made, field.name), getattr(found, field.name)
            assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other, field.name
