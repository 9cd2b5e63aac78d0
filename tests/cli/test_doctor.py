"""What `apportion doctor` prints, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apportion.integrations.doctor import Finding, Report, report

Run = Callable[..., Any]
FINDINGS = [
    Finding(severity="fine", about="verl", message="0.9.1 is supported"),
    Finding(severity="warning", about="algorithm.gamma=0.9", message="has no effect here", remedy="leave it out"),
    Finding(severity="error", about="plugin\x1b[31m", message="[red]raises[/red]", remedy="correct it", details="why"),
]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Finding]], dict[str, Any]]:
    """`found(findings)`: the doctor finds these; the arguments it was called with."""

    def plant(findings: list[Finding]) -> dict[str, Any]:
        called: dict[str, Any] = {}

        def examine(**arguments: Any) -> Report:
            called.update(arguments)
            return Report(versions={"verl": "0.9.1", "trl": None}, probes=[], findings=findings)

        monkeypatch.setattr(report, "examine", examine)
        return called

    return plant


def test_errors_come_first_with_their_remedy(run: Run, found: Any) -> None:
    found(FINDINGS)
    result = run("doctor")
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0].split() == ["doctor", "verl", "0.9.1", "trl", "–"]
    signs = [line.split()[0] for line in lines[2:] if line.strip() and line.split()[0] in "✗!✓→"]
    assert signs == ["✗", "→", "!", "→", "✓"]
    assert "[red]raises[/red]" in result.output
    assert "\x1b[31m" not in result.output
    assert "1 error, 1 warning" in result.output


def test_warnings_alone_are_no_failure(run: Run, found: Any) -> None:
    found(FINDINGS[:2])
    assert run("doctor").exit_code == 0


def test_json_has_the_details(run: Run, found: Any) -> None:
    found(FINDINGS)
    result = run("doctor", "--json")
    assert result.exit_code == 1
    said = json.loads(result.stdout)
    assert said["errors"] == 1
    assert said["findings"][2]["details"] == "why"
    assert said["versions"] == {"verl": "0.9.1", "trl": None}


def test_what_is_looked_at(run: Run, found: Any, tmp_path: Path) -> None:
    called = found([])
    file = tmp_path / "run.yaml"
    file.write_text("")
    given = [
        "--verl-config",
        file,
        "--trl-config",
        file,
        "--ray",
        "algorithm.gamma=1",
        "+algorithm.apportion.penalty=1",
    ]
    assert run("doctor", *given).exit_code == 0
    assert called["verl_config"] == called["trl_config"] == file
    assert called["overrides"] == ["algorithm.gamma=1", "+algorithm.apportion.penalty=1"]
    assert called["ray"] is True
    assert run("doctor", "--trl-config", tmp_path / "none.yaml").exit_code == 2
