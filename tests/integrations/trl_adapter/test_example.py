"""The README's three lines, applied to the example as it stands, and both versions run with a tiny model."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import trl

from apportion.integrations.trl import CreditGRPOTrainer
from tests.integrations.trl_adapter import tiny

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'environment_factory'")


def change() -> str:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## In a TRL script\n")[2]
    found = re.search(r"```diff\n(.*?)```", section, flags=re.DOTALL)
    assert found is not None
    return found[1]


def applied(diff: str, script: str) -> str:
    """The script after the change; every hunk has to be there, once."""
    for hunk in diff.split("...\n"):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        assert script.count(old) == 1, f"not in the example:\n{old}"
        script = script.replace(old, new)
    return script


def run(script: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "argv", [str(script), str(model), "1"])
    return runpy.run_path(str(script), run_name="__main__")["trainer"]


def test_at_most_three_lines_change() -> None:
    lines = change().splitlines()
    assert 0 < sum(line.startswith("+") for line in lines) <= 3
    assert sum(line.startswith("-") for line in lines) <= 1


def test_the_plain_script_and_the_changed_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    words = tiny.tokenizer(learn=True)
    tiny.model(len(words)).save_pretrained(tmp_path / "model")
    words.save_pretrained(tmp_path / "model")
    plain = tmp_path / "examples" / "trl_grpo.py"
    assert type(run(plain, tmp_path / "model", monkeypatch)) is trl.GRPOTrainer
    changed = plain.with_name("changed.py")
    changed.write_text(applied(change(), plain.read_text(encoding="utf-8")), encoding="utf-8")
    made = run(changed, tmp_path / "model", monkeypatch)
    assert type(made) is CreditGRPOTrainer
    assert made.state.global_step == 1
    logged = made.state.log_history[0]
    assert logged["apportion/groups/outcome/effective_n"] == 4.0
    assert logged["apportion/rewards/violations/missing_share"] <= 1.0
    assert "frac_reward_zero_std" not in logged
