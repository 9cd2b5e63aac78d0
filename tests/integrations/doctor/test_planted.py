"""Faults that are planted, each found by the program with its remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.doctor import fakes

Program = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def doctor(tmp_path: Path) -> Program:
    """`doctor("--json")`: exit code and findings, with `tmp_path` before everything else that is installed."""

    def run(*arguments: str, before: str = "", **environment: str) -> tuple[int, list[dict[str, Any]]]:
        code = f"{before}\nfrom apportion.cli import main\nmain()"
        done = subprocess.run(
            [sys.executable, "-c", code, "doctor", "--json", *arguments],
            env={**os.environ, "PYTHONPATH": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)["findings"]

    return run


def errors(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = [finding for finding in findings if finding["severity"] == "error"]
    assert all(finding["remedy"] for finding in found)
    return found


def test_nothing_is_wrong(doctor: Program, tmp_path: Path) -> None:
    fakes.verl(tmp_path)
    code, findings = doctor()
    assert errors(findings) == []
    assert code == 0
    (fresh,) = [f for f in findings if f["about"] == "a new process"]
    assert "estimators registered" in fresh["message"]


def test_plugin_not_installed(doctor: Program, tmp_path: Path) -> None:
    fakes.verl(tmp_path)
    fakes.metadata(tmp_path, "apportion", "0.1.0")
    code, findings = doctor()
    found = {f["about"]: f["message"] for f in errors(findings)}
    assert code == 1
    assert "not installed as a plugin" in found["entry point"]
    assert "did not load apportion's plugin" in found["a new process"]


def test_plugin_switched_off(doctor: Program, tmp_path: Path) -> None:
    fakes.verl(tmp_path)
    code, findings = doctor(VERL_USE_EXTERNAL_PLUGINS="none")
    assert code == 1
    assert any("keeps apportion's plugin out" in f["message"] for f in errors(findings))


def test_plugin_raising(doctor: Program, tmp_path: Path) -> None:
    fakes.verl(tmp_path)
    fakes.metadata(tmp_path, "apportion", "0.1.0", plugin="broken_plugin")
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('no registry today')")
    code, findings = doctor()
    assert code == 1
    (found,) = [f for f in errors(findings) if f["about"] == "a new process"]
    assert "'apportion' raises" in found["message"]
    assert "no registry today" in found["message"]
    assert "Traceback" in found["details"]


def test_registration_failing_inside_the_plugin(doctor: Program, tmp_path: Path) -> None:
    fakes.verl(tmp_path, registry="ADV_ESTIMATOR_REGISTRY = {}")
    code, findings = doctor()
    assert code == 1
    (found,) = [f for f in errors(findings) if f["about"] == "a new process"]
    assert "could not be registered" in found["message"]
    assert "ImportError" in found["details"]


def test_registered_only_in_the_driver(doctor: Program, tmp_path: Path) -> None:
    fakes.verl(tmp_path)
    fakes.metadata(tmp_path, "apportion", "0.1.0")
    code, findings = doctor(before="import verl, apportion.integrations.verl.entry_point")
    assert code == 1
    assert any("registered in this process only" in f["message"] for f in errors(findings))
    assert any(f["about"] == "this process" and f["severity"] == "fine" for f in findings)


@pytest.mark.skipif(os.environ.get("APPORTION_VERL_RUNS") != "1", reason="starts Ray: run with make test-verl")
def test_registered_in_the_driver_but_not_in_a_ray_worker(doctor: Program, tmp_path: Path) -> None:
    fakes.verl(tmp_path)
    quiet = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    code, findings = doctor("--ray", **quiet)
    (worker,) = [f for f in findings if f["about"] == "a Ray worker"]
    assert (code, worker["severity"]) == (0, "fine")
    fakes.metadata(tmp_path, "apportion", "0.1.0")
    code, findings = doctor("--ray", before="import verl, apportion.integrations.verl.entry_point", **quiet)
    assert code == 1
    found = [f["message"] for f in errors(findings) if f["about"] == "a Ray worker"]
    assert any("registered in this process only" in message for message in found)


def test_unsupported_version(doctor: Program, tmp_path: Path) -> None:
    fakes.verl(tmp_path)
    fakes.metadata(tmp_path, "verl", "0.5.0")
    code, findings = doctor()
    assert code == 1
    (found,) = [f for f in errors(findings) if f["about"] == "verl"]
    assert "asks for verl>=0.9.1" in found["message"]
    assert "0.5.0 is installed" in found["message"]


def test_untested_version_and_what_it_asks_for(doctor: Program, tmp_path: Path) -> None:
    fakes.verl(tmp_path)
    fakes.metadata(tmp_path, "verl", "7.0.0", requires="torch<1")
    code, findings = doctor()
    assert code == 1
    assert any(f["about"] == "verl" and "was not tested" in f["message"] for f in findings)
    (found,) = errors(findings)
    assert found["about"] == "torch"
    assert found["message"].startswith("verl asks for torch<1")


def test_verl_that_cannot_be_imported(doctor: Program, tmp_path: Path) -> None:
    fakes.verl(tmp_path)
    (tmp_path / "verl" / "__init__.py").write_text("raise ValueError('broken install')")
    code, findings = doctor()
    assert code == 1
    assert any("broken install" in f["message"] for f in errors(findings))
