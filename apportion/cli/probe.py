"""`apportion probe`: which signals tell the rollouts of a dead group apart, before anybody trains."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from apportion.cli import _console as c
from apportion.cli._errors import about_the_rollouts, guest
from apportion.cli._options import Format, Json, OnError, Quiet, RewardField, Rollouts
from apportion.errors import BadRow
from apportion.integrations.files import read
from apportion.report.probe import Advice, Probe, Probed
from apportion.report.probe import probe as probed
from apportion.rewards import path

__all__ = ["probe", "show"]

_ADVICE: Mapping[Advice, tuple[str, str]] = {
    "use": ("good", "use"),
    "likely": ("good", "likely, sample more"),
    "unclear": ("warning", "unclear, sample more"),
    "rare": ("warning", "too rare"),
    "not reachable": ("bad", "not reachable"),
    "no data": ("faint", "no data"),
    "exempt": ("info", "penalty, no gate"),
    "size only": ("faint", "size is no reason"),
}
_LISTED = 20
# Below this a bar would take the place of a name.
_WIDE = 100


def probe(
    rollouts: Rollouts,
    rules: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A rule file, .toml or .py, as rlvp takes it."),
    ] = None,
    reward_field: RewardField = "reward",
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="A column of the rollouts ('a.b' inside a mapping) or of their turns; default: *reward*, *score* and "
            "what the turns record.",
        ),
    ] = None,
    gate: Annotated[
        float,
        typer.Option(metavar="SHARE", min=0.0, max=1.0, help="The share of dead groups a signal should vary in."),
    ] = 0.2,
    format: Format = "auto",
    on_error: OnError = "skip",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Probe a handful of rollouts of the base policy: what varies in the groups whose outcome does not.

    Credit relative to the group is 0 where every attempt ends alike; a signal that varies there brings it back.
    """
    # torch takes a second to import, and recipes need it.
    from apportion.recipes.files import load_rules

    with guest(as_json=as_json):
        judge = None if rules is None else path(load_rules(rules))
    skipped: list[BadRow] = []
    with c.progress(shown=not (as_json or quiet)) as stage:
        trajectories = read(rollouts, format=format, on_error=on_error, skipped=skipped, progress=stage("probing"))
        with about_the_rollouts(), guest(as_json=as_json):
            result = probed(trajectories, reward_field=reward_field, columns=column or (), rules=judge, gate=gate)
    if skipped and not result.rollouts:
        raise skipped[0]
    if as_json:
        c.print_json({"file": str(rollouts), **asdict(result), "skipped": [str(row) for row in skipped]})
    elif not quiet:
        show(result, str(rollouts), left_out=len(skipped))
        c.print_next(c.console(), _next(rollouts, rules))


def show(result: Probe, source: str, *, left_out: int = 0) -> None:
    """The probe as a page on standard output."""
    console = c.console()
    console.print(c.heading("probe", source), soft_wrap=True)
    console.print(Padding(_sizes(result, left_out), (0, 0, 0, 2)))
    console.print()
    console.print(_signals(result, bars=console.width >= _WIDE))
    if result.tasks:
        console.print()
        console.print(_tasks(result))
        if len(result.tasks) > _LISTED:
            console.print(f"  and {len(result.tasks) - _LISTED:,} more; --json lists all")
    if result.unprobed:
        listed = ", ".join(result.unprobed[:8])
        console.print()
        console.print(Padding(c.safe(f"not looked at (--column): {listed}", 200), (0, 0, 0, 2)))
    console.print()


def _sizes(result: Probe, left_out: int) -> Text:
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in result.kinds.items() if n)
    told = [
        f"{c.count(result.rollouts, 'rollout')} in {c.count(result.groups, 'group')}{f' ({kinds})' if kinds else ''}",
        f"{result.dead:,} dead, {result.restored:,} of them with a signal that varies",
    ]
    if left_out:
        told.append(f"{c.count(left_out, 'row')} left out")
    return Text("; ".join(told))


def _signals(result: Probe, *, bars: bool) -> Any:
    heads: list[c.Column] = ["signal", ("varies in", "right"), ("share", "right"), ("95 %", "right")]
    heads += [*([""] if bars else []), ("~ outcome", "right"), "advice"]
    rows: list[list[c.Cell]] = []
    for signal in result.signals:
        style, words = _ADVICE[signal.advice]
        shown: list[c.Cell] = [c.bar(signal.share or 0.0, width=8, style=c.STYLES[style])] if bars else []
        rows.append(
            [
                c.safe(signal.name, 40),
                f"{signal.varies:,} of {signal.data:,}",
                c.share(signal.share),
                _range(signal),
                *shown,
                c.number(signal.correlation, 2, signed=True),
                Text(words, style=c.STYLES[style]),
            ]
        )
    return c.table(heads, rows, flexible=(0,))


def _range(signal: Probed) -> str:
    return "–" if signal.low is None or signal.high is None else f"{100 * signal.low:.0f}–{100 * signal.high:.0f}%"


def _tasks(result: Probe) -> Any:
    rows: list[list[c.Cell]] = [
        [
            c.safe(task.group if task.step is None else f"{task.group} (step {task.step})", 40),
            task.kind,
            c.safe(", ".join(task.restored_by), 200)
            if task.restored_by
            else Text("not reachable", style=c.STYLES["bad"]),
        ]
        for task in result.tasks[:_LISTED]
    ]
    return c.table(["dead group", "", "restored by"], rows, flexible=(0, 2))


def _next(rollouts: Path, rules: Path | None) -> str:
    source = shlex.quote(str(rollouts))
    if rules is None:
        return f"apportion probe {source} --rules RULES.toml"
    return f"apportion score {source} --recipe rlvp -p rules={shlex.quote(str(rules))} --out credit.jsonl"
