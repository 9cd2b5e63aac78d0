"""`apportion doctor`: what is wrong between apportion and a trainer, before a run says it late or not at all."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from apportion.cli import _console as c
from apportion.cli._errors import Code, guest
from apportion.cli._options import Json

if TYPE_CHECKING:
    from apportion.integrations.doctor import Finding, Report

__all__ = ["doctor"]

_SIGNS = {"error": ("✗", "error"), "warning": ("!", "warning"), "fine": ("✓", "good")}


def doctor(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OVERRIDE]...", help="veRL settings as on main_ppo's command line: a.b=c +d.e=f"),
    ] = None,
    verl_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, readable=True, help="A YAML configuration of a veRL run."
        ),
    ] = None,
    trl_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            readable=True,
            help="A YAML file of GRPOConfig settings, with recipe and recipe_args.",
        ),
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Look into a Ray worker too: of RAY_ADDRESS, or of a local Ray.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say whether a trainer loads apportion, and what a configuration would do with its recipe."""
    from apportion.integrations.doctor import examine

    with guest(as_json=as_json):
        report = examine(verl_config=verl_config, overrides=overrides or (), trl_config=trl_config, ray=ray)
    if as_json:
        c.print_json(_as_json(report))
    else:
        _show(c.console(), report)
    if report.errors:
        raise typer.Exit(Code.FOUND)


def _show(console: Console, report: Report) -> None:
    shown = "  ".join(f"{name} {have or '–'}" for name, have in report.versions.items())
    console.print(c.heading("doctor", shown))
    console.print()
    for finding in sorted(report.findings, key=lambda f: list(_SIGNS).index(f.severity)):
        _print(console, finding)
    console.print()
    warnings = sum(f.severity == "warning" for f in report.findings)
    console.print(Text(f"  {c.count(len(report.errors), 'error')}, {c.count(warnings, 'warning')}"))


def _print(console: Console, finding: Finding) -> None:
    sign, style = _SIGNS[finding.severity]
    line = Text.assemble(f"{sign} ", (c.safe(finding.about).plain, "bold"), "  ")
    line.stylize(c.STYLES[style], 0, 1)
    console.print(Padding(line.append_text(c.safe(finding.message)), (0, 0, 0, 2)))
    if finding.remedy:
        remedy = Text("→ ", style=c.STYLES["faint"]).append_text(c.safe(finding.remedy))
        console.print(Padding(remedy, (0, 0, 0, 4)))


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "versions": dict(report.versions),
        "processes": [asdict(probe) for probe in report.probes],
        "findings": [asdict(finding) for finding in report.findings],
        "errors": len(report.errors),
    }
