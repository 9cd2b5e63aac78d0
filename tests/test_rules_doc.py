"""What docs/rules.md shows is what happens: its files load, its code runs and prints what is printed there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apportion.rewards import rules_from_toml

PAGE = (Path(__file__).parents[1] / "docs" / "rules.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_page_runs_as_it_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = [source for kind, source in BLOCKS if kind == "toml"]
    for number, source in enumerate(files):
        (tmp_path / ("booking.toml" if number == 0 else f"{number}.toml")).write_text(source, encoding="utf-8")
    names: dict[str, object] = {"__name__": "__rules__"}
    printed = 0
    for kind, source in BLOCKS:
        if kind == "python":
            exec(compile(source, "rules.md", "exec"), names)
        elif kind == "text":
            assert capsys.readouterr().out == source
            printed += 1
    assert printed == 2
    for file in tmp_path.glob("*.toml"):
        assert rules_from_toml(file)


def test_every_kind_and_event_is_on_the_page() -> None:
    from apportion.rewards.toml_events import _KINDS as EVENTS
    from apportion.rewards.toml_rules import _KINDS as RULES

    for kind in RULES:
        assert f"| `{kind}` |" in PAGE
    for kind in EVENTS:
        assert f"{{ {kind} = " in PAGE
