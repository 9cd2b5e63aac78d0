"""The benchmark that trains the terminal task through TRL runs, and the two arms part within three steps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.learning import trl_terminal


def test_the_quick_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert trl_terminal.main(["--quick", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "RESULTS-trl-terminal.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (imitation only|outcome only|RLVP) \| ([\d.]+) \| ([\d.]+) \|", page, flags=re.MULTILINE)
    violations = {name: float(count) for name, _, count in rows}
    assert violations["RLVP"] < violations["imitation only"] / 2
    assert violations["outcome only"] > violations["imitation only"]
    assert (tmp_path / "trl-terminal.png").stat().st_size < 100_000


def test_a_quick_run_does_not_replace_the_results() -> None:
    with pytest.raises(SystemExit):
        trl_terminal.main(["--quick"])
