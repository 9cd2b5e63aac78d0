"""What `apportion score` says about what it did."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from apportion.cli import _console as c
from apportion.errors import BadRow
from apportion.report.reasons import most_common

if TYPE_CHECKING:
    from apportion.recipe import Recipe
    from apportion.report.rule_use import RuleUse
    from apportion.report.scoring import Scoring
    from apportion.report.totals import TermTotals, Totals

__all__ = ["summary", "summary_as_json"]


def summary(
    recipe: Recipe, scoring: Scoring, skipped: Sequence[BadRow], seconds: float, source: str, out: Path
) -> None:
    """The tables that a person reads."""
    console, totals = c.console(), scoring.totals
    settings = c.plain(recipe.parameters)
    console.print(c.heading("score", source), soft_wrap=True)
    console.print(Padding(c.safe(f"{recipe.name}({settings})"), (0, 0, 0, 2)))
    if recipe.reconstruction:
        console.print(Padding(c.safe(f"reconstruction: {recipe.reconstruction}"), (0, 0, 0, 2)))
    console.print()
    console.print(_sizes(recipe, totals, seconds))
    console.print()
    console.print(_rewards(totals))
    _failures(console, scoring.failures)
    _rules(console, scoring.rules.uses())
    console.print()
    console.print(_terms(totals, bars=c.room_for_bars(console)))
    if any(not 0.0 <= round(term.variance_share or 0.0, 3) <= 1.0 for term in totals.terms().values()):
        legend = "Terms that pull against each other have shares above 100% or below 0%; all shares sum to 100%."
        console.print(Padding(Text(legend, style=c.STYLES["faint"]), (0, 0, 0, 2)))
    if skipped:
        console.print()
        console.print(c.heading(f"left out: {c.count(len(skipped), 'row')}", "--on-error skip"))
        for row in skipped[:5]:
            console.print(Text("  ").append_text(c.safe(row)))
    console.print()
    console.print(Text("wrote ").append_text(c.safe(out)), soft_wrap=True)
    console.print()
    c.print_next(console, f"apportion audit {shlex.quote(source)}", "apportion recipes")


def _sizes(recipe: Recipe, totals: Totals, seconds: float) -> Any:
    finest = "policy tokens" if totals.tokens else "turns" if totals.turns else "rollouts"
    tokens = c.count(totals.tokens, "policy token") if totals.tokens else f"text only: credit per {finest[:-1]}"
    dead = f"{c.count(totals.without_credit, 'group')} in which every advantage is 0"
    rate = f"{totals.trajectories / max(seconds, 1e-9):,.0f} rollouts/s"
    rows = [
        ["rollouts", c.count(totals.trajectories), f"in {c.count(totals.groups, 'group')}"],
        ["turns", c.count(totals.turns), tokens],
        ["no credit", c.share(totals.without_credit / max(totals.groups, 1)), dead],
        ["in the loss", c.share(totals.in_loss / max(totals.elements, 1)), f"of the {finest}"],
        ["residual", c.number(totals.residual, 2), "largest |sum of terms - advantage|, relative"],
        ["time", f"{seconds:.1f} s", rate],
        ["loss", "", recipe.aggregation],
    ]
    return c.table(["", ("", "right"), ""], rows, header=False, flexible=(2,))


def _rewards(totals: Totals) -> Any:
    rows: list[list[c.Cell]] = [
        [
            c.safe(name, 60),
            "label" if seen.is_label else c.number(seen.mean),
            c.count(seen.scored),
            c.count(seen.abstained),
            c.count(seen.failed),
            c.share(seen.dead / seen.groups if seen.groups else None),
        ]
        for name, seen in totals.rewards.items()
    ]
    # Short words: on a narrow terminal these columns must leave room for the name.
    counted = ("mean", "scored", "absent", "failed", "dead")
    heads: list[c.Column] = ["reward", *((name, "right") for name in counted)]
    return c.table(heads, rows, flexible=(0,))


def _failures(console: Console, failures: Mapping[str, Mapping[str, int]]) -> None:
    for name, reasons in failures.items():
        console.print()
        console.print(c.heading("failed", c.safe(name, 60)))
        console.print(Padding(c.safe(most_common(reasons)), (0, 0, 0, 2)))


def _rules(console: Console, rules: Sequence[RuleUse]) -> None:
    if not rules:
        return
    console.print()
    heads: list[c.Column] = ["rule", ("broken", "right"), ("honoured", "right"), ("cannot tell", "right")]
    rows: list[list[c.Cell]] = [
        [c.safe(use.rule, 60), *(c.count(n) for n in (use.violations, use.fulfilments, use.abstentions))]
        for use in rules
    ]
    console.print(c.table(heads, rows, flexible=(0,)))
    for use in rules:
        if use.never_met:
            told = "may never apply" if use.violations + use.fulfilments + use.abstentions else "never applied"
            line = Text.assemble(("warning ", c.STYLES["warning"]), c.safe(f"rule {use.rule!r} {told}: ", 80))
            console.print(Padding(line.append_text(c.safe("; ".join(use.never_met))), (0, 0, 0, 2)))


def _terms(totals: Totals, *, bars: bool) -> Any:
    whole = totals.advantage()
    rows: list[list[c.Cell]] = []
    for name, term in totals.terms().items():
        part = term.variance_share
        rows.append([c.safe(name, 60), _mean(term), c.number(term.std), c.share(part)])
        if bars:
            rows[-1].append(c.bar(abs(part or 0.0), width=12, style="red" if (part or 0.0) < 0 else "cyan"))
    rows.append(["advantage", _mean(whole), c.number(whole.std), ""])
    heads: list[c.Column] = ["term", ("mean", "right"), ("std", "right"), ("of variance", "right")]
    return c.table([*heads, ""] if bars else heads, rows, flexible=(0,))


def _mean(term: TermTotals) -> str:
    # What is left of a centred sum is rounding, and no number worth reading.
    return c.number(0.0 if abs(term.mean) < 1e-9 * term.std else term.mean, signed=True)


def summary_as_json(
    recipe: Recipe, scoring: Scoring, skipped: Sequence[BadRow], out: Path, seconds: float
) -> dict[str, Any]:
    """The same for a program."""
    totals = scoring.totals
    return {
        "recipe": recipe.name,
        "parameters": {
            name: value if isinstance(value, (int, float, str, bool, type(None))) else str(value)
            for name, value in recipe.parameters.items()
        },
        "aggregation": recipe.aggregation,
        "out": str(out),
        "rollouts": totals.trajectories,
        "groups": totals.groups,
        "groups_without_credit": totals.without_credit,
        "turns": totals.turns,
        "policy_tokens": totals.tokens,
        "elements": totals.elements,
        "elements_in_loss": totals.in_loss,
        "residual": totals.residual,
        "rewards": {
            name: {**asdict(seen), "mean": seen.mean, "missing_share": seen.missing_share}
            for name, seen in totals.rewards.items()
        },
        "failures": scoring.failures,
        "rules": [asdict(use) for use in scoring.rules.uses()],
        "terms": {name: asdict(term) for name, term in totals.terms().items()},
        "advantage": asdict(totals.advantage()),
        "skipped": [str(row) for row in skipped],
        "seconds": seconds,
    }
