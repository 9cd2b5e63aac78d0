"""`apportion score`: rollouts in, credit with its ledger out."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from apportion.cli import _console as c
from apportion.cli._errors import about_the_rollouts, guest
from apportion.cli._options import Format, Json, OnError, Quiet, Rollouts
from apportion.cli._parameters import parameters
from apportion.errors import BadRow, InvalidArgument
from apportion.integrations.files import RolloutIndex
from apportion.report.reasons import most_common
from apportion.rollouts import Trajectory

if TYPE_CHECKING:
    from apportion.recipe import Recipe
    from apportion.report.rule_use import RuleUse
    from apportion.report.scoring import Scoring
    from apportion.report.totals import TermTotals, Totals

__all__ = ["score"]

# Verdicts of one observer before its share of failures means something.
_ENOUGH = 256


def score(
    rollouts: Rollouts,
    recipe: Annotated[
        str,
        typer.Option(
            "--recipe",
            "-r",
            metavar="RECIPE",
            help="A name from 'apportion recipes', or a .py file that defines recipe.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Where the credit goes: a .jsonl, .jsonl.gz or .parquet file."
        ),
    ],
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", metavar="KEY=VALUE", help="A setting of the recipe.")
    ] = None,
    reward_field: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column that holds the reward; short for -p reward=COLUMN.")
    ] = None,
    format: Format = "auto",
    on_error: OnError = "stop",
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Read the recipe's state from this file if it exists, and save it there."),
    ] = None,
    failure_limit: Annotated[
        float,
        typer.Option(
            metavar="SHARE", min=0.0, max=1.0, help="Stop when more than this share of a reward's verdicts failed."
        ),
    ] = 0.5,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Score only the first so many groups.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score rollouts: credit for every policy token (or turn, for text-only rollouts), with its ledger.

    Groups may lie scattered through the file; it is read twice and never held in memory as a whole. A recipe whose
    statistics run over a training step holds one step at a time.
    """
    # torch takes a second to import; only the commands that assign credit should.
    from apportion.report.credit_file import CreditWriter, credit_header
    from apportion.report.scoring import CHUNK_BYTES, Scoring, read_state, write_state

    _distinct(rollouts, out, state)
    with guest(as_json=as_json):
        made = _made(recipe, parameter or (), reward_field)
    scoring = Scoring(made, state=read_state(state, made), failure_limit=failure_limit)
    skipped: list[BadRow] = []
    started = time.perf_counter()
    with (
        c.progress(shown=not (as_json or quiet)) as stage,
        CreditWriter(out, credit_header(made, source=str(rollouts))) as file,
        RolloutIndex(rollouts, format=format, on_error=on_error, skipped=skipped, progress=stage("reading")) as index,
    ):
        if not len(index) and skipped:
            raise skipped[0]
        walk = index.steps if scoring.by_step else index.groups
        for chunk in _first_groups(walk(chunk_bytes=CHUNK_BYTES, progress=stage("scoring")), limit):
            with about_the_rollouts(), guest(as_json=as_json):
                for record in scoring.records(chunk):
                    file.write(record)
            scoring.check(enough=_ENOUGH)
        scoring.check()
    if state is not None:
        write_state(state, made, scoring.state)
    seconds = time.perf_counter() - started
    if as_json:
        c.print_json(_as_json(made, scoring, skipped, out, seconds))
    elif not quiet:
        _summary(made, scoring, skipped, seconds, f"{rollouts}", out)


def _made(name: str, pairs: Sequence[str], reward_field: str | None) -> Recipe:
    from apportion.recipes import factory, load

    given = list(pairs) + ([] if reward_field is None else [f"reward={reward_field}"])
    return load(name, **parameters(factory(name), given, recipe=name))


def _summary(
    recipe: Recipe, scoring: Scoring, skipped: Sequence[BadRow], seconds: float, source: str, out: Path
) -> None:
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
            c.number(seen.mean),
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


def _as_json(recipe: Recipe, scoring: Scoring, skipped: Sequence[BadRow], out: Path, seconds: float) -> dict[str, Any]:
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


def _distinct(rollouts: Path, out: Path, state: Path | None) -> None:
    named = {"--out": out, "--state": state}
    for name, path in named.items():
        if path is not None and path.exists() and path.samefile(rollouts):
            raise InvalidArgument(name, str(path), "another file than the rollouts, which would be overwritten")
    if state is not None and not state.parent.is_dir():
        raise InvalidArgument("--state", str(state), "a file in a folder that exists, since it is written at the end")
    if state is not None and state.resolve() == out.resolve():
        raise InvalidArgument("--state", str(state), "another file than --out")


def _first_groups(chunks: Iterator[list[Trajectory]], limit: int | None) -> Iterator[list[Trajectory]]:
    if limit is None:
        yield from chunks
        return
    seen: set[tuple[int | None, str]] = set()
    for chunk in chunks:
        kept = []
        for trajectory in chunk:
            key = (trajectory.step, trajectory.group)
            if key in seen or len(seen) < limit:
                seen.add(key)
                kept.append(trajectory)
        if not kept:
            return
        yield kept
