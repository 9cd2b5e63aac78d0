"""`apportion audit`: the page, the JSON and the exit codes. What it counts is tested in tests/report."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Run = Callable[..., Result]
Make = Callable[..., Path]


def test_the_page_names_what_matters(run: Run, rollouts: Make) -> None:
    result = run("audit", rollouts({"a": [1, 0], "b": [0, 0], "c": [1, 1], "d": [1]}))
    assert result.exit_code == 0
    for words in ("4 groups", "mixed", "all-fail", "all-pass", "singleton", "25%", "apportion score"):
        assert words in result.stdout


def test_json_is_all_there_is_on_standard_output(run: Run, rollouts: Make) -> None:
    result = run("audit", rollouts({"a": [1, 0], "b": [0, 0]}, step=3), "--json")
    found = json.loads(result.stdout)
    assert found["kinds"] == {"mixed": 1, "all-pass": 0, "all-fail": 1, "constant": 0, "singleton": 0, "unknown": 0}
    assert (found["steps"], found["dead_share"], found["reward_mean"]) == (1, 0.5, 0.25)
    assert found["skipped"] == []
    assert result.stderr == ""


def test_json_without_data_has_null_and_no_nan(run: Run, rollouts: Make) -> None:
    result = run("audit", rollouts({"a": [None, None]}), "--json")
    assert json.loads(result.stdout)["reward_mean"] is None
    assert "NaN" not in result.stdout


@pytest.mark.parametrize(
    ("options", "code"), [([], 0), (["--strict"], 1), (["--strict", "--json"], 1), (["-q", "--strict"], 1)]
)
def test_strict_fails_on_errors(run: Run, rollouts: Make, options: list[str], code: int) -> None:
    source = rollouts({f"g{i}": [0, 0, 0, 0] for i in range(10)})
    result = run("audit", source, *options)
    assert result.exit_code == code
    assert ("constant-reward" in result.stdout) == ("-q" not in options)


def test_strict_is_content_with_warnings(run: Run, rollouts: Make) -> None:
    assert run("audit", rollouts({"a": [1, 0], "b": [0, None]}), "--strict").exit_code == 0


def test_bad_rows_are_a_finding(run: Run, rollouts: Make) -> None:
    source = rollouts({"a": [1, 0]})
    source.write_text(source.read_text() + "not json\n" + source.read_text().splitlines()[0] + "\n")
    result = run("audit", source, "--json")
    found = json.loads(result.stdout)
    assert len(found["skipped"]) == 2
    assert found["findings"][0]["code"] == "unreadable-rows"
    assert found["rollouts"] == 2
    assert run("audit", source, "--strict").exit_code == 1
    stopped = run("audit", source, "--on-error", "stop")
    assert stopped.exit_code == 3
    assert ":3:" in stopped.stderr


@pytest.mark.parametrize("content", ["", "not json\n", '{"a": 1}\n', "\x00\x01"])
def test_what_holds_no_rollout_is_bad_input(run: Run, tmp_path: Path, content: str) -> None:
    source = tmp_path / "file.jsonl"
    source.write_text(content)
    result = run("audit", source)
    assert result.exit_code == 3, result.output
    assert result.stderr.startswith("error: ")
    assert result.stdout == ""


def test_a_demonstration_is_no_rollout(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "simple.traj"
    source.write_text(json.dumps({"history": [{"role": "system", "content": "x"}]}))
    result = run("audit", source)
    assert result.exit_code == 3
    assert "trajectory" in result.stderr


def test_a_damaged_gz_is_bad_input(run: Run, rollouts: Make, tmp_path: Path) -> None:
    source = tmp_path / "cut.jsonl.gz"
    source.write_bytes(gzip.compress(rollouts({"a": [1, 0]}).read_bytes())[:-10])
    assert run("audit", source, "--on-error", "stop").exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["absent.jsonl"], "absent.jsonl"),
        (["."], "."),
        ([], "ROLLOUTS"),
    ],
)
def test_bad_usage_is_exit_code_2(run: Run, arguments: list[str], expected: str) -> None:
    result = run("audit", *arguments)
    assert result.exit_code == 2
    assert expected in result.stderr


def test_options_reach_the_audit(run: Run, rollouts: Make, tmp_path: Path) -> None:
    source = rollouts({"a": [0.5, 0.5], "b": [0.2, 0.4]})
    found = json.loads(run("audit", source, "--pass-mark", "0.5", "--json").stdout)
    assert (found["kinds"]["all-pass"], found["pass_share"]) == (1, 0.5)
    unknown = run("audit", source, "--by", "style")
    assert unknown.exit_code == 2
    assert "style" in unknown.stderr
    assert run("audit", source, "--component", "absent").exit_code == 2


def test_without_rewards_the_next_step_is_to_name_them(run: Run, rollouts: Make) -> None:
    result = run("audit", rollouts({"a": [1, 0]}), "--reward-field", "solved")
    assert "--reward-field COLUMN" in result.stdout
    assert "no data in 'solved'" in result.stdout


def test_hostile_rollouts_cannot_reach_the_terminal(run: Run, hostile_file: Path) -> None:
    for options in ([], ["--by", "style"], ["--reward-field", "\x1b[31m[x]"]):
        result = run("audit", hostile_file, *options)
        assert "\x1b" not in result.output
        assert "\u202e" not in result.output
    shown = run("audit", hostile_file).stdout
    assert "\\x1b[2J" in shown
    assert "[bold red]" in shown.replace("\n", "")


@pytest.mark.parametrize("columns", [80, 120])
def test_the_page_fits_the_terminal(run: Run, demo_file: Path, hostile_file: Path, columns: int) -> None:
    for source in (demo_file, hostile_file):
        wide = [line for line in run("audit", source, columns=columns).stdout.splitlines() if len(line) > columns]
        assert all(str(source) in line for line in wide)
