"""`apportion score`, end to end."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from apportion.integrations.files import write
from apportion.report.credit_file import read_credit, read_header
from apportion.report.credit_record import placed
from apportion.rollouts import Action, Trajectory, Turn

Run = Callable[..., Result]
Make = Callable[..., Path]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
def test_credit_of_a_group_in_closed_form(run: Run, rollouts: Make, tmp_path: Path, ending: str) -> None:
    source, out = rollouts({"q": [1, 0, 0, 0]}), tmp_path / f"credit.{ending}"
    result = run("score", source, "-r", "grpo", "-o", out)
    assert result.exit_code == 0, result.output
    records = list(read_credit(out))
    assert [record["advantages"]["values"] for record in records] == [1.5, -0.5, -0.5, -0.5]
    assert placed(records[0]) == [1.5, 1.5]
    header = read_header(out)
    assert (header["recipe"]["name"], header["source"]) == ("grpo", str(source))


def test_rewards_alone_get_credit_per_rollout(run: Run, tmp_path: Path) -> None:
    source, out = tmp_path / "rollouts.jsonl", tmp_path / "credit.jsonl"
    write([Trajectory(id=str(i), group="q", columns={"reward": float(i < 1)}) for i in range(4)], source)
    result = run("score", source, "-r", "grpo", "-o", out)
    assert result.exit_code == 0, result.output
    assert "credit per rollout" in result.stdout
    found = [record["advantages"] for record in read_credit(out)]
    assert found == [{"per": "trajectory", "values": value} for value in (1.5, -0.5, -0.5, -0.5)]


def test_scattered_groups_are_scored_whole(run: Run, tmp_path: Path) -> None:
    source, out = tmp_path / "rollouts.jsonl", tmp_path / "credit.jsonl"
    rows = [
        Trajectory(id=f"r{i}", group=f"g{i % 3}", response_ids=[1], columns={"reward": float(i < 3)}) for i in range(12)
    ]
    write(rows, source)
    assert run("score", source, "-r", "dr_grpo", "-o", out).exit_code == 0
    found = {record["id"]: record["advantages"]["values"] for record in read_credit(out)}
    assert found == {f"r{i}": 0.75 if i < 3 else -0.25 for i in range(12)}


def test_settings_arrive(run: Run, rollouts: Make, recipe_file: Path, tmp_path: Path) -> None:
    source, out = rollouts({"q": [1, 0]}), tmp_path / "credit.jsonl"
    result = run("score", source, "-r", recipe_file, "-p", "weight=10", "-o", out)
    assert result.exit_code == 0, result.output
    assert [record["advantages"]["values"] for record in read_credit(out)] == [5.0, -5.0]
    assert read_header(out)["recipe"]["parameters"] == {"weight": 10.0}
    assert "mine(weight=10.0)" in result.stdout
    assert "token-mean" in result.stdout


def test_the_reward_column_can_be_named(run: Run, tmp_path: Path) -> None:
    source, out = tmp_path / "rollouts.jsonl", tmp_path / "credit.jsonl"
    write([Trajectory(id=str(i), group="q", response_ids=[1], columns={"ok": i}) for i in range(2)], source)
    result = run("score", source, "-r", "dr_grpo", "-o", out)
    assert result.exit_code == 3
    assert "'reward'" in result.stderr
    assert "ok" in result.stderr
    assert run("score", source, "-r", "dr_grpo", "--reward-field", "ok", "-o", out).exit_code == 0
    assert [record["advantages"]["values"] for record in read_credit(out)] == [-0.5, 0.5]


def test_text_only_rollouts_get_credit_per_turn(run: Run, tmp_path: Path) -> None:
    source, out = tmp_path / "rollouts.jsonl", tmp_path / "credit.jsonl"
    turns = (Turn(text="a"), Turn(text="b"))
    write([Trajectory(id=str(i), group="q", turns=turns, columns={"reward": i}) for i in range(2)], source)
    result = run("score", source, "-r", "dr_grpo", "-o", out)
    assert result.exit_code == 0
    assert "text only" in result.stdout
    assert placed(next(read_credit(out))) == [-0.5, -0.5]


def test_json_is_all_there_is_on_standard_output(run: Run, rollouts: Make, tmp_path: Path) -> None:
    source, out = rollouts({"q": [1, 0], "dead": [1, 1], "gap": [1, None]}), tmp_path / "credit.jsonl"
    result = run("score", source, "-r", "grpo", "-o", out, "--json")
    found = json.loads(result.stdout)
    assert (found["rollouts"], found["groups"], found["groups_without_credit"]) == (6, 3, 2)
    assert found["rewards"]["outcome"]["missing_share"] == pytest.approx(1 / 6)
    assert found["rewards"]["outcome"]["dead"] == 2
    assert found["terms"]["outcome"]["variance_share"] == 1.0
    assert found["residual"] <= 1e-12
    assert result.stderr == ""


def test_quiet_says_nothing(run: Run, rollouts: Make, tmp_path: Path) -> None:
    result = run("score", rollouts({"q": [1, 0]}), "-r", "grpo", "-o", tmp_path / "credit.jsonl", "-q")
    assert (result.stdout, result.stderr, result.exit_code) == ("", "", 0)


def test_the_summary_names_what_matters(run: Run, rollouts: Make, tmp_path: Path) -> None:
    result = run("score", rollouts({"q": [1, 0], "dead": [1, 1]}), "-r", "grpo", "-o", tmp_path / "credit.jsonl")
    for words in ("grpo", "in 2 groups", "50%", "outcome", "of variance", "residual", "rollouts/s", "apportion audit"):
        assert words in result.stdout


def test_shares_of_terms_that_pull_against_each_other_are_explained(run: Run, rollouts: Make, tmp_path: Path) -> None:
    recipe = tmp_path / "against.py"
    recipe.write_text(
        "from apportion.advantages.group_stat import group_stat\n"
        "from apportion.recipe import Recipe\n"
        "from apportion.rewards import outcome\n"
        "def assign(batch, signals, *, step, state):\n"
        "    return group_stat(signals['more'], scale='none') - 0.5 * group_stat(signals['less'], scale='none')\n"
        "recipe = Recipe(name='against', observers=[outcome(name='more'), outcome(name='less')],\n"
        "                assign_signals=assign, aggregation='token-mean')\n",
        encoding="utf-8",
    )
    told = run("score", rollouts({"q": [1, 0]}), "-r", recipe, "-o", tmp_path / "credit.jsonl")
    assert "200%" in told.stdout
    assert "-100%" in told.stdout
    assert "pull against each other" in told.stdout
    plain = run("score", rollouts({"q": [1, 0]}), "-r", "grpo", "-o", tmp_path / "credit.jsonl")
    assert "pull against each other" not in plain.stdout


@pytest.mark.parametrize("columns", [80, 120])
def test_the_summary_fits_the_terminal(run: Run, rollouts: Make, tmp_path: Path, columns: int) -> None:
    source = rollouts({"q": [1, 0]})
    result = run("score", source, "-r", "rlvp", "-p", "variant=c1", "-o", tmp_path / "credit.jsonl", columns=columns)
    result = run("score", source, "-r", "grpo", "-o", tmp_path / "credit.jsonl", columns=columns)
    wide = [line for line in result.stdout.splitlines() if len(line) > columns]
    assert all(str(tmp_path) in line for line in wide)


@pytest.mark.parametrize("name", ["rollouts.jsonl", "link.jsonl", "./sub/../rollouts.jsonl"])
def test_the_input_is_never_overwritten(run: Run, rollouts: Make, tmp_path: Path, name: str) -> None:
    source = rollouts({"q": [1, 0]})
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.jsonl").symlink_to(source)
    before = source.read_bytes()
    for option in (("-o", tmp_path / name), ("-o", tmp_path / "x.jsonl", "--state", tmp_path / name)):
        result = run("score", source, "-r", "grpo", *option)
        assert result.exit_code == 2
        assert "overwritten" in result.stderr
    assert source.read_bytes() == before


def test_a_run_that_fails_leaves_no_file(run: Run, rollouts: Make, tmp_path: Path) -> None:
    out = tmp_path / "credit.jsonl"
    result = run("score", rollouts({"q": [None, None]}), "-r", "grpo", "-o", out)
    assert result.exit_code == 3
    assert "outcome" in result.stderr
    assert "--failure-limit" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rollouts.jsonl"]


def test_failures_up_to_the_limit_are_counted(run: Run, rollouts: Make, tmp_path: Path) -> None:
    source, out = rollouts({"q": [1, None, None, 0]}), tmp_path / "credit.jsonl"
    assert run("score", source, "-r", "grpo", "-o", out).exit_code == 0
    assert run("score", source, "-r", "grpo", "-o", out, "--failure-limit", "0.4").exit_code == 3
    assert run("score", rollouts({"q": [None]}), "-r", "grpo", "-o", out, "--failure-limit", "1").exit_code == 0
    (record,) = read_credit(out)
    assert record["in_loss"]["values"] is False
    assert "failed" in record["verdicts"]["outcome"]


def test_state_is_saved_and_resumed(run: Run, rollouts: Make, recipe_file: Path, tmp_path: Path) -> None:
    state, out = tmp_path / "state.json", tmp_path / "credit.jsonl"
    for steps in (1, 2):
        source = rollouts({"q": [1, 0]}, step=steps)
        assert run("score", source, "-r", recipe_file, "-o", out, "--state", state).exit_code == 0
        assert json.loads(state.read_text())["state"] == {"steps": steps}
    result = run("score", source, "-r", "grpo", "-o", out, "--state", state)
    assert result.exit_code == 2
    assert "'mine'" in result.stderr


def test_a_state_that_could_not_be_saved_is_refused_before_anything_is_scored(
    run: Run, rollouts: Make, recipe_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "credit.jsonl"
    state = tmp_path / "absent" / "state.json"
    result = run("score", rollouts({"q": [1, 0]}), "-r", recipe_file, "-o", out, "--state", state)
    assert result.exit_code == 2
    assert "a folder that exists" in result.stderr
    assert not out.exists()


def test_limit_takes_whole_groups(run: Run, rollouts: Make, tmp_path: Path) -> None:
    source, out = rollouts({"a": [1, 0, 0], "b": [1, 0], "c": [1]}), tmp_path / "credit.jsonl"
    assert run("score", source, "-r", "grpo", "-o", out, "--limit", "2").exit_code == 0
    assert [record["id"] for record in read_credit(out)] == ["a/0", "a/1", "a/2", "b/0", "b/1"]


def test_bad_rows_stop_or_are_listed(run: Run, rollouts: Make, tmp_path: Path) -> None:
    source, out = rollouts({"q": [1, 0]}), tmp_path / "credit.jsonl"
    source.write_text(source.read_text() + '{"apportion": 1, "id": 7}\n')
    stopped = run("score", source, "-r", "grpo", "-o", out)
    assert stopped.exit_code == 3
    assert ":3: field 'group'" in stopped.stderr
    skipped = run("score", source, "-r", "grpo", "-o", out, "--on-error", "skip")
    assert skipped.exit_code == 0
    assert "1 row" in skipped.stdout
    assert ":3: field 'group'" in skipped.stdout.replace("\n", "")
    assert len(list(read_credit(out))) == 2


def test_a_file_of_nothing_but_bad_rows_is_bad_input(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "rollouts.jsonl"
    source.write_text('{"apportion": 1, "id": 7}\n')
    result = run("score", source, "-r", "grpo", "-o", tmp_path / "credit.jsonl", "--on-error", "skip")
    assert result.exit_code == 3
    assert "field 'group'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-r", "grppo"], "grpo"),
        (["-r", "grpo", "-p", "dialekt=verl"], "dialect"),
        (["-r", "rlvp", "-p", "penalty=much"], "a number"),
        (["-r", "rlvp", "-p", "credit=0"], "inaction"),
        (["-r", "grpo", "-o", "credit.csv"], ".parquet"),
        (["-r", "grpo", "-o", "absent/credit.jsonl"], "No such file"),
        (["-r", "absent.py"], "exists"),
        (["-r", "grpo", "--format", "xml"], "xml"),
        (["-r", "grpo", "--limit", "0"], "limit"),
    ],
)
def test_bad_usage_is_exit_code_2(
    run: Run, rollouts: Make, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    out = [] if "-o" in arguments else ["-o", tmp_path / "credit.jsonl"]
    result = run("score", rollouts({"q": [1, 0]}), *arguments, *out)
    assert result.exit_code == 2, result.output
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


def test_token_and_text_rollouts_together_are_bad_input(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "rollouts.jsonl"
    write(
        [
            Trajectory(id="a", group="q", response_ids=[1], columns={"reward": 1}),
            Trajectory(id="b", group="q", turns=(Turn(text="x"),), columns={"reward": 0}),
        ],
        source,
    )
    result = run("score", source, "-r", "grpo", "-o", tmp_path / "credit.jsonl")
    assert result.exit_code == 3
    assert "tokens" in result.stderr


def test_hostile_rollouts_cannot_reach_the_terminal(run: Run, hostile_file: Path, tmp_path: Path) -> None:
    result = run("score", hostile_file, "-r", "grpo", "-o", tmp_path / "credit.jsonl")
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert "\u202e" not in result.output


def test_one_source_gives_one_file(run: Run, rollouts: Make, tmp_path: Path) -> None:
    source, out = rollouts({"q": [1, 0], "p": [0.25, 0.5]}), tmp_path / "credit.jsonl.gz"
    found: list[Any] = []
    for _ in range(2):
        assert run("score", source, "-r", "grpo", "-o", out).exit_code == 0
        found.append(out.read_bytes())
    assert found[0] == found[1]


def test_readable_by_others_as_any_new_file(run: Run, rollouts: Make, tmp_path: Path) -> None:
    out = tmp_path / "credit.jsonl"
    before = os.umask(0o022)
    try:
        assert run("score", rollouts({"q": [1, 0]}), "-r", "grpo", "-o", out).exit_code == 0
    finally:
        os.umask(before)
    assert out.stat().st_mode & 0o777 == 0o644


RULES = """
[rules.read_first]
before = { first = { call = "read" }, then = { call = "edit" }, same = "path" }
[rules.typo]
never = { action = { call = "edti" } }
unpaired = "for the test"
"""


def test_what_the_rules_found_and_what_they_never_met(run: Run, tmp_path: Path) -> None:
    source, out, rules = tmp_path / "rollouts.jsonl", tmp_path / "credit.jsonl", tmp_path / "rules.toml"
    rules.write_text(RULES)
    moves = [Turn(actions=(Action(name, {"path": "a"}),)) for name in ("edit", "read", "edit")]
    write([Trajectory(id=str(i), group="q", turns=tuple(moves[i:]), columns={"reward": i}) for i in range(2)], source)
    result = run("score", source, "-r", "rlvp", "-p", f"rules={rules}", "-o", out)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "read_first 1 2 0" in lines
    assert "typo 0 0 0" in lines
    assert "warning rule 'typo' never applied: tool 'edti' does not occur, but 'edit' does" in lines
    told = json.loads(run("score", source, "-r", "rlvp", "-p", f"rules={rules}", "-o", out, "--json").stdout)
    counts = {"rule": "read_first", "violations": 1, "fulfilments": 2, "abstentions": 0, "never_met": []}
    assert told["rules"][0] == counts
    assert told["rules"][1]["never_met"] == ["tool 'edti' does not occur, but 'edit' does"]


def test_a_rule_file_with_a_fault_is_a_bad_argument(run: Run, rollouts: Make, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES.replace("never", "nver"))
    source, out = rollouts({"q": [1, 0]}), tmp_path / "credit.jsonl"
    result = run("score", source, "-r", "rlvp", "-p", f"rules={rules}", "-o", out)
    assert result.exit_code == 2
    assert "rules.toml: rules.typo.nver" in result.stderr
    assert "'never'?" in result.stderr


def test_failures_below_the_limit_say_why(run: Run, rollouts: Make, tmp_path: Path) -> None:
    source, out = rollouts({"q": [1, 0, None, None, 0]}), tmp_path / "credit.jsonl"
    result = run("score", source, "-r", "grpo", "-o", out)
    assert result.exit_code == 0, result.output
    assert "failed  outcome" in result.stdout
    assert "2 x column 'reward' is null" in result.stdout
    told = json.loads(run("score", source, "-r", "grpo", "-o", out, "--json").stdout)
    assert list(told["failures"]["outcome"].values()) == [2]
    assert told["rules"] == []


def test_codes_have_no_mean(run: Run, tmp_path: Path) -> None:
    source, out = tmp_path / "rollouts.jsonl", tmp_path / "credit.jsonl"
    rows = [
        Trajectory(id=str(i), group="q", turns=[Turn(columns={"at": "hall"})], columns={"reward": float(i)})
        for i in range(2)
    ]
    write(rows, source)
    told = run("score", source, "-r", "gigpo", "-p", "anchors=at", "-o", out)
    assert told.exit_code == 0, told.output
    assert any(line.split()[:3] == ["anchor", "label", "2"] for line in told.stdout.splitlines())
    found = json.loads(run("score", source, "-r", "gigpo", "-p", "anchors=at", "-o", out, "--json").stdout)["rewards"]
    assert (found["anchor"]["mean"], found["anchor"]["scored"], found["outcome"]["mean"]) == (None, 2, 0.5)
