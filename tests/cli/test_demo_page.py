"""What the demo prints and draws, from results that are known."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from apportion.cli import demo_page
from apportion.cli.demo_page import Outcome, as_json, page
from apportion.cli.demo_plots import plot_curves, plot_turns
from apportion.cli.demo_progress import watching
from apportion.cli.demo_training import Tick

Make = Callable[..., list[Outcome]]


def printed(outcomes: list[Outcome], columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=columns, highlight=False, emoji=False, markup=False)
    monkeypatch.setattr(demo_page.c, "console", lambda: console)
    page(outcomes, {"terminal.png": "a plot"}, out=Path("folder"), seconds=42.4)
    return stream.getvalue()


@pytest.mark.parametrize("columns", [80, 120])
def test_every_run_has_its_numbers_what_was_expected_and_a_reading(
    outcomes: Make, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = printed(outcomes(), columns, monkeypatch)
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    lines = [line.split() for line in text.splitlines()]
    numbers = "0.40 → 1.00 1.20 → 2.00 5% → 100% 5.0 → 4.0 yes"
    assert ["outcome", "only", *numbers.split()] in lines
    assert ["expected", "≥", "0.95", "≥", "1.5"] in lines
    assert ["notebook", *numbers.replace("1.20 → 2.00", "0.30 → 1.00").split()] in lines
    for outcome in outcomes():
        assert outcome.arm.reading in " ".join(text.split())
    assert "as expected  5 runs in 42 s" in text


def test_the_ledger_sets_the_shortcut_beside_the_honest_way(outcomes: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(outcomes(), 100, monkeypatch)
    ledger = text.partition("ledger of terminal/3")[2]
    assert "Both passed, so grpo has nothing to say" in " ".join(ledger.split())
    for line in ("/outcome only passed", "x edit tests.py", "x rm lock", "/RLVP passed", "+ cat ", "+ edit ", "+ wait"):
        assert f"\n  {line}" in ledger


def test_no_remark_about_a_contrast_that_is_not_there(outcomes: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(outcomes(shortcuts=False), 100, monkeypatch)
    assert "ledger of terminal/" in text
    assert "Both passed" not in text


def test_json_has_what_the_page_has(outcomes: Make) -> None:
    found = as_json(outcomes(), {"terminal.png": "a plot"}, out=Path("folder"), seconds=1.0)
    assert found["as_expected"] is True
    arm = found["arms"]["RLVP"]
    assert (arm["before"]["violations"], arm["after"]["violations"]) == (1.2, 0.0)
    assert arm["expected"] == {"success": "≥ 0.95", "violations": "≤ 0.05"}
    assert arm["history"]["success"] == [0.4, 1.0]


def test_plots_are_written_with_one_step_and_with_nothing_above_zero(tmp_path: Path) -> None:
    made = plot_curves({"a": {"x": [0.5], "y": [0.0]}, "b": {"x": [0.0], "y": [0.0]}}, tmp_path / "curves.png")
    turns = plot_turns({"a": {"x": [0.5, -1.0], "y": [-0.5, -1.0]}, "b": {"x": [0.0], "y": [0.0]}}, tmp_path / "t.png")
    for path in (made, turns):
        assert path.read_bytes().startswith(b"\x89PNG")


def test_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with watching({"first": 8, "second run": 2}, lines=True) as watcher:
        watcher.start("first")
        for done in range(1, 9):
            watcher.message("first", Tick(done, 8, {"success": done / 8, "last_row": 1.0}))
        watcher.end("first")
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "first       starts"
    assert [line.split()[1] for line in lines[1:-1]] == ["2/8", "4/8", "6/8", "8/8"]
    assert "success 0.25  last row 1.00" in lines[1]
    assert "done in" in lines[-1]


def test_nothing_is_said_where_nobody_reads(capsys: pytest.CaptureFixture[str]) -> None:
    with watching({"first": 1}, lines=False) as watcher:
        watcher.start("first")
        watcher.message("first", Tick(1, 1, {"loss": 0.5}))
        watcher.end("first")
    assert capsys.readouterr() == ("", "")


def test_a_bar_for_every_run_in_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    with watching({"imitate terminal": 2, "no paired credit": 60}, lines=True) as watcher:
        watcher.start("imitate terminal")
        watcher.message("imitate terminal", Tick(1, 2, {"loss": 0.5}))
        watcher.message("imitate terminal", Tick(2, 2, {"loss": 0.25}))
        watcher.end("imitate terminal")
        watcher.start("no paired credit")
        watcher.message("no paired credit", Tick(59, 60, {"success": 0.5, "violations": 12.25}))
    err = capsys.readouterr().err
    for words in ("imitate terminal", "2/2", "loss 0.25", "59/60", "success 0.50  violations 12.25"):
        assert words in err
