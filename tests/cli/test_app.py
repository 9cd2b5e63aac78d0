"""The program as a whole: help, exit codes, interruption, missing extras, and what a shell sees."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

import apportion
from apportion.cli import score as score_module
from apportion.cli.demo_rollouts import ROLLOUTS
from apportion.recipes import load

Run = Callable[..., Result]
Make = Callable[..., Path]


def shell(*arguments: object, code: str = "from apportion.cli import main; main()", **options: Any) -> Any:
    """A process of its own, as a shell would start it."""
    env = {**os.environ, "COLUMNS": "80", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False, **options)


@pytest.mark.parametrize("command", [[], ["demo"], ["audit"], ["score"], ["recipes"]])
def test_help_says_what_the_exit_codes_mean(run: Run, command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    for words in ("0 done", "2 bad argument", "3 rollouts that cannot be read", "4 missing extra", "130 interrupted"):
        assert words in shown


def test_version(run: Run) -> None:
    assert run("--version").stdout == f"apportion {apportion.__version__}\n"


def test_an_interrupted_run_exits_with_130_and_leaves_no_file(
    run: Run, rollouts: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    source = rollouts({"q": [1, 0]})
    monkeypatch.setattr(score_module, "RolloutIndex", interrupted)
    result = run("score", source, "-r", "grpo", "-o", tmp_path / "credit.jsonl")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rollouts.jsonl"]


def test_a_bug_shows_where_it_is_and_exits_with_70(run: Run, rollouts: Make, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.py"
    recipe.write_text("def recipe():\n    return 1 / 0\n")
    result = run("score", rollouts({"q": [1, 0]}), "-r", recipe, "-o", tmp_path / "credit.jsonl")
    assert result.exit_code == 70
    assert "ZeroDivisionError" in result.stderr
    assert "mine.py" in result.stderr


def test_debug_shows_where_an_error_was_raised(run: Run) -> None:
    plain, debug = run("recipes", "absent"), run("--debug", "recipes", "absent")
    assert plain.exit_code == debug.exit_code == 2
    assert "Traceback" not in plain.stderr
    assert "Traceback" in debug.stderr


def test_a_missing_extra_is_exit_code_4(
    run: Run, rollouts: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    source = rollouts({"q": [1, 0]})
    result = run("score", source, "-r", "grpo", "-o", tmp_path / "credit.parquet")
    assert result.exit_code == 4
    assert "pip install 'apportion[parquet]'" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rollouts.jsonl"]


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_cli_extra_the_program_says_how_to_install_it(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from apportion.cli import main; main()"
    result = shell("demo", code=code)
    assert result.returncode == 4
    assert result.stderr == f"error: {package} is not installed; run: pip install 'apportion[cli]'\n"


def test_the_demo_that_only_scores_needs_no_other_extra() -> None:
    others = ("pyarrow", "tree_sitter", "math_verify", "httpx", "jinja2", "ray", "trl", "verl")
    absent = ["matplotlib", "transformers", *others]
    code = f"import sys; sys.modules.update(dict.fromkeys({absent!r})); from apportion.cli import main; main()"
    result = shell("demo", "--score-only", code=code)
    assert result.returncode == 0, result.stderr
    assert "ledger of old-logs" in result.stdout


def test_help_and_audit_do_not_import_torch() -> None:
    code = (
        "import sys\nfrom apportion.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    sys.exit('torch' in sys.modules)"
    )
    assert shell("--help", code=code).returncode == 0
    assert shell("audit", ROLLOUTS, code=code).returncode == 0


def test_a_pipe_sees_plain_text(rollouts: Make, tmp_path: Path) -> None:
    out = tmp_path / "credit.jsonl"
    result = shell("score", rollouts({"q": [1, 0]}), "-r", "grpo", "-o", out)
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout
    assert result.stderr == ""
    assert out.stat().st_size > 0


def test_a_reader_that_stops_early_is_no_error() -> None:
    code = "import sys; sys.argv[0] = 'apportion'; from apportion.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "recipes", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    _, stderr = process.communicate(timeout=120)
    assert "Traceback" not in stderr
    assert "Exception ignored" not in stderr


def test_names_in_the_help_of_settings_are_real() -> None:
    # The audit's advice names this setting.
    assert load("grpo", truncated="exclude").parameters["truncated"] == "exclude"
