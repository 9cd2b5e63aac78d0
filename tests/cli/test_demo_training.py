"""`apportion demo` as it trains: the shape that it claims, and how it ends when something goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import Result

from apportion.batch import Batch
from apportion.cli import demo as program
from apportion.cli import demo_arms
from apportion.cli.demo_arms import Arm, arms, penalty_only
from apportion.cli.demo_processes import Job, run_jobs
from apportion.cli.demo_progress import watching
from apportion.cli.demo_training import Emit, credit_by_turn, measures, warm_start
from apportion.environments import Notebook
from apportion.environments.training import demonstrations, measure
from apportion.errors import RecipeRefused
from apportion.integrations.files import read
from apportion.recipe import Credit, Recipe
from apportion.report.credit_file import read_credit, read_header
from apportion.rollouts import Level
from apportion.signal import Signal

Run = Callable[..., Result]


def test_the_quick_demo(run: Run, tmp_path: Path) -> None:
    """One run of everything: the page, the files, and the shape again from the files."""
    result = run("demo", "--quick", "--out", tmp_path, columns=80)
    assert result.exit_code == 0, result.output
    assert "as expected  3 runs in" in result.stdout
    assert "…" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "x " in result.stdout
    assert "+ " in result.stdout
    for line in ("imitate terminal", "outcome only", "RLVP", "penalty only"):
        assert f"{line} " in result.stderr
    assert "steps/s" in result.stderr

    found = {name: list(read(tmp_path / f"rollouts-{name}.jsonl")) for name in ("outcome-only", "rlvp", "penalty-only")}
    last = {name: measure(rows) for name, rows in found.items()}
    assert last["outcome-only"].success > 0.8
    assert last["outcome-only"].violations > 1.5
    assert last["rlvp"].success > 0.8
    assert last["rlvp"].violations < 0.2
    assert last["penalty-only"].success < 0.1
    assert {t.step for t in found["rlvp"]} == {19}
    assert read_header(tmp_path / "credit-rlvp.jsonl")["recipe"]["parameters"]["variant"] == "c2"
    records = list(read_credit(tmp_path / "credit-rlvp.jsonl"))
    assert [record["id"] for record in records] == [t.id for t in found["rlvp"]]
    assert max(record["residual"] for record in records) < 1e-9
    for name in ("terminal.png", "credit.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def threads_of_a_run(emit: Emit, *, folder: Path) -> tuple[int, int]:
    before = torch.get_num_threads()
    warm_start(emit, task="terminal", seed=0, steps=1, weights=folder / "weights.pt")
    return before, torch.get_num_threads()


def test_a_run_keeps_to_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    job = Job(name="a", work=partial(threads_of_a_run, folder=tmp_path))
    with watching({"a": 1}, lines=False) as watcher:
        assert run_jobs([job], at_once=1, watcher=watcher) == {"a": (2, 1)}


def broken() -> Recipe:
    raise ValueError("this recipe cannot be made")


def test_a_run_that_crashes_shows_its_traceback(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def two(size: str) -> list[Arm]:
        first, second, *_ = arms("quick")
        return [replace(first, recipe=broken), replace(second, iterations=10_000)]

    monkeypatch.setattr(demo_arms, "arms", two)
    monkeypatch.setitem(demo_arms.WARM_STEPS, "quick", 1)  # type: ignore[arg-type]
    result = run("demo", "--quick", "--out", tmp_path)
    assert result.exit_code == 70
    assert "ValueError: this recipe cannot be made" in result.stderr
    assert "the run 'outcome only' crashed" in result.stderr
    assert result.stdout.count("\n") == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_demo_that_is_stopped_leaves_no_process(how: signal.Signals, tmp_path: Path) -> None:
    """SIGINT goes to the whole group, as Ctrl-C does; SIGKILL only to the program."""
    code = "import sys; sys.argv[0] = 'apportion'; from apportion.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "demo", "--out", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stderr is not None
    seen = ""
    while "steps/s" not in seen:
        seen += process.stderr.readline()
    if how == signal.SIGINT:
        os.killpg(process.pid, how)
    else:
        process.kill()
    _, rest = process.communicate(timeout=60)
    assert "Traceback" not in rest
    assert process.returncode == (130 if how == signal.SIGINT else -how)
    deadline = time.monotonic() + 30
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(process.pid)


def alive(group: int) -> bool:
    """Some process of the group is running."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--group", "old-logs"], "--score-only"),
        (["--score-only", "--json"], "apportion score --json"),
        (["--out", "{file}"], "file"),
    ],
)
def test_arguments_that_do_not_fit(run: Run, tmp_path: Path, arguments: list[str], names: str) -> None:
    (tmp_path / "file").touch()
    result = run("demo", *(argument.format(file=tmp_path / "file") for argument in arguments))
    assert result.exit_code == 2
    assert names in result.stderr


@pytest.mark.parametrize("package", ["transformers", "matplotlib"])
def test_a_missing_package_is_noticed_before_anything_is_trained(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    result = run("demo", "--out", tmp_path / "out")
    assert result.exit_code == 4
    assert f"{package} is not installed; run: pip install 'apportion[demo]'" in result.stderr
    assert not (tmp_path / "out").exists()


def test_the_shape_that_does_not_come_out_is_exit_code_1(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcomes: Callable[..., list[program.Outcome]]
) -> None:
    made = outcomes(RLVP={"success": 0.5})
    monkeypatch.setattr(program, "_trained", lambda *_, **__: made)
    page = run("demo", "--out", tmp_path)
    assert page.exit_code == 1
    assert "not as expected: RLVP" in page.stdout
    assert "success 0.50, expected ≥ 0.95" in " ".join(page.stdout.split())
    plain = run("demo", "--json", "--out", tmp_path)
    assert plain.exit_code == 1
    found = json.loads(plain.stdout)
    assert found["as_expected"] is False
    assert found["arms"]["RLVP"]["misses"] == ["success 0.50, expected ≥ 0.95"]
    assert found["arms"]["outcome only"]["misses"] == []


def test_the_penalty_alone_is_forced_and_would_be_refused() -> None:
    made = penalty_only()
    with pytest.raises(RecipeRefused):
        replace(made, force="")


def test_every_expectation_is_a_measure_and_has_a_reading() -> None:
    for size in ("full", "quick"):
        shown = arms(size)  # type: ignore[arg-type]
        assert len({arm.slug for arm in shown}) == len(shown)
        for arm in shown:
            task = demo_arms.TASKS[arm.task]()
            known = measures(demonstrations(task, [0, 1], rng=np.random.default_rng(0)))
            assert arm.expected.keys() <= known.keys()
            assert arm.reading.endswith(".")


def test_the_last_row_is_measured_in_the_notebook_only() -> None:
    rows = demonstrations(Notebook(), range(40), rng=np.random.default_rng(0))
    seen = [bool(t.turns[-1].columns["state"]["last_row_seen"]) for t in rows]
    assert 0 < np.mean(seen) < 1
    assert measures(rows)["last_row"] == pytest.approx(np.mean(seen))


def test_credit_by_turn_is_a_mean_over_the_episodes_that_come_so_far() -> None:
    """Turns of 1 token; the first rollout earns 1 and 3, the second 5: turn 0 has mean 3, turn 1 has 3; 3 tokens."""
    batch = Batch.of(groups=["q", "q"], turns=[2, 1], tokens=[1, 1, 1])
    signal_ = Signal.of(batch, Level.TOKEN, torch.tensor([1.0, 3.0, 5.0]), name="path")
    credit = Credit(advantages=signal_, aggregation="token-sum", rewards={}, recipe="given")
    assert credit_by_turn(credit) == {"path": [9.0, 9.0]}
