"""`apportion show`: the ledger of a credit file, turn by turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from apportion.integrations.files import write
from apportion.rollouts import Trajectory, Turn
from tests.cli.conftest import Run


@pytest.fixture
def credit(tmp_path: Path, run: Run) -> Path:
    """Credit under RLVP: the first rollout passed and broke a rule in its second turn, the second one failed."""

    def turns(second: int) -> list[Turn]:
        return [
            Turn(span=(0, 3), observation="\x1b[31mred", columns={"violations": 0, "fulfilments": 0}),
            Turn(span=(3, 4), columns={"violations": second, "fulfilments": 0}),
        ]

    rows = [
        Trajectory(
            id=name,
            group="q",
            response_ids=[1, 2, 3, 4],
            policy=[1, 1, 0, 1],
            turns=turns(broken),
            columns={"reward": reward},
        )
        for name, broken, reward in (("good", 1, 1.0), ("bad", 0, 0.0))
    ]
    rollouts, out = tmp_path / "rollouts.jsonl", tmp_path / "credit.jsonl"
    write(rows, rollouts)
    done = run("score", rollouts, "-r", "rlvp", "-p", "variant=c2", "-o", out, "-q")
    assert done.exit_code == 0, done.output
    return out


def test_every_turn_says_its_credit_and_the_causes(credit: Path, run: Run) -> None:
    page = run("show", credit, "--rollout", "good").output
    assert "token-sum" in page
    first, second = (line for line in page.splitlines() if line.strip().startswith(("1 ", "2 ")))
    # Outcome: (1 - 0.5) / 6 tokens; one of them stands in a turn that broke a rule.
    assert "+0.0833" in first
    assert "outcome +0.0833" in first
    assert "-0.167" in second
    assert "outcome +0.0833, violations -0.25" in second
    assert "bad" not in page


def test_json_holds_the_same_numbers_and_every_verdict(credit: Path, run: Run) -> None:
    found = json.loads(run("show", credit, "--group", "q", "--json").output)
    assert [one["id"] for one in found["rollouts"]] == ["good", "bad"]
    turn = found["rollouts"][0]["turns"][1]
    assert turn["tokens"] == 1
    assert turn["advantage"] == pytest.approx(0.5 / 6 - 0.25)
    assert turn["terms"] == {"outcome": pytest.approx(0.5 / 6), "violations": -0.25, "fulfilments": 0.0}
    assert turn["verdicts"]["violations"]["value"] == 1.0
    assert found["rollouts"][0]["verdicts"]["outcome"]["value"] == 1.0


def test_without_a_name_the_largest_credit_comes_first(credit: Path, run: Run) -> None:
    found = json.loads(run("show", credit, "-n", "1", "--json").output)
    assert [one["id"] for one in found["rollouts"]] == ["good"]


@pytest.mark.parametrize(("option", "value"), [("--rollout", "nobody"), ("--group", "nothing")])
def test_an_absent_name_is_an_error(credit: Path, run: Run, option: str, value: str) -> None:
    done = run("show", credit, option, value)
    assert done.exit_code == 2
    assert value in done.output


def test_what_is_no_credit_file_is_refused(rollouts: Callable[..., Path], run: Run) -> None:
    done = run("show", rollouts({"q": [1.0]}))
    assert done.exit_code == 3
    assert "credit" in done.output


def test_codes_are_shown_in_words_and_hostile_text_cannot_steer_the_terminal(tmp_path: Path, run: Run) -> None:
    rows = [
        Trajectory(
            id=f"r{i}",
            group="q",
            turns=[Turn(observation="\x1b[2Jhall"), Turn(observation="end")],
            columns={"reward": float(i)},
        )
        for i in range(2)
    ]
    rollouts, out = tmp_path / "rollouts.jsonl", tmp_path / "credit.jsonl"
    write(rows, rollouts)
    assert run("score", rollouts, "-r", "gigpo", "-o", out, "-q").exit_code == 0
    page = run("show", out, "-n", "1").output
    assert "hall" in page
    assert "e+1" not in page
    assert "\x1b" not in page
    assert "turn  tokens" not in page


def test_a_turn_outside_the_loss_says_so(tmp_path: Path, run: Run) -> None:
    rows = [
        Trajectory(
            id=f"r{i}",
            group="q",
            response_ids=[1, 2, 3],
            policy=[1, 0, 1],
            own=[0, 0, 1],
            columns={"reward": float(i)},
        )
        for i in range(2)
    ]
    rollouts, out = tmp_path / "rollouts.jsonl", tmp_path / "credit.jsonl"
    write(rows, rollouts)
    assert run("score", rollouts, "-r", "dr_grpo", "-o", out, "-q").exit_code == 0
    assert "not in the loss" in run("show", out, "-n", "1").output
