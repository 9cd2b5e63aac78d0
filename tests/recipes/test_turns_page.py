"""docs/turns.md says what the recipes say, its code runs and its rows are rollouts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apportion.integrations.files import read
from apportion.recipes import load
from tests.recipes.turns_page import PATH, page

PAGE = PATH.read_text(encoding="utf-8")
BLOCKS: dict[str, str] = dict(re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL))


def test_the_page_is_up_to_date() -> None:
    assert page() == PAGE, "run: python -m tests.recipes.turns_page"


def test_its_code_prints_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(BLOCKS["python"], "turns.md", "exec"), {"__name__": "__turns__"})
    assert capsys.readouterr().out == BLOCKS["text"]


def test_its_rows_are_rollouts(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(BLOCKS["json"], encoding="utf-8")
    credit, _ = load("hdl").score(list(read(path)))
    assert credit.advantages.values.tolist() == [0.5, 0.5, 0.5, 0.5, 0.0, 0.0, -0.5]
