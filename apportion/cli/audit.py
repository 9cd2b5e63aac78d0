"""`apportion audit`: what is wrong with a file of rollouts before anybody trains on it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from apportion.cli import _console as c
from apportion.cli._audit_tokens import counts, template_arguments
from apportion.cli._errors import Code
from apportion.cli._options import Format, Json, OnError, Quiet, RewardField, Rollouts
from apportion.errors import BadRow, InvalidArgument
from apportion.integrations.files import read
from apportion.report import diagnostics
from apportion.report.diagnostics import Audit
from apportion.report.findings import SEVERITIES, Finding, Place
from apportion.report.groups import KINDS, Kind
from apportion.report.tokens import TokenAudit, TokenAuditor, load_tokenizer

__all__ = ["audit", "show"]

_TEACHES: Mapping[Kind, tuple[str, str]] = {
    "mixed": ("good", "what passes and what fails"),
    "all-fail": ("bad", "nothing: every attempt failed"),
    "all-pass": ("warning", "nothing: every attempt passed"),
    "constant": ("warning", "nothing: one reward throughout"),
    "singleton": ("warning", "nothing: one known reward"),
    "unknown": ("bad", "nothing: no known reward"),
}


def audit(
    rollouts: Rollouts,
    reward_field: RewardField = "reward",
    pass_mark: Annotated[
        float | None,
        typer.Option(metavar="REWARD", help="The reward that counts as a pass; default: the largest one in the file."),
    ] = None,
    component: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="A part of the reward, 'a.b' inside a mapping; default: names with reward or score."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A text column to break the groups down by; default: small ones."),
    ] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Look at the tokens too: masks, ends, log-probs; see docs/token_audit.md.")
    ] = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|NAME",
            help="With --tokens: render and encode again with this tokenizer (a folder, a .gguf file, or the name of a "
            "model that is on this machine already).",
        ),
    ] = None,
    end_id: Annotated[
        list[int] | None,
        typer.Option(metavar="ID", help="With --tokens: an id that ends a reply, besides the tokenizer's own."),
    ] = None,
    template_arg: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="With --tokenizer: an argument of its chat template, VALUE as JSON."),
    ] = None,
    format: Format = "auto",
    on_error: OnError = "skip",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 when a finding is an error.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Audit rollouts: groups that teach nothing, rewards that lie, rollouts that should not be there.

    Reads the file once; memory grows by some hundred bytes per rollout, whatever their length.
    """
    skipped: list[BadRow] = []
    auditor = _auditor(tokens, tokenizer, end_id or (), template_arg or ())
    with c.progress(shown=not (as_json or quiet)) as stage:
        trajectories = read(rollouts, format=format, on_error=on_error, skipped=skipped, progress=stage("reading"))
        result = diagnostics.audit(
            trajectories if auditor is None else auditor.watch(trajectories),
            reward_field=reward_field,
            pass_mark=pass_mark,
            components=component or (),
            by=by,
        )
    if skipped and not result.rollouts:
        raise skipped[0]
    seen = None if auditor is None else auditor.result()
    findings = (*result.findings, *(() if seen is None else seen.findings))
    ordered = sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
    result = replace(result, findings=(*_unreadable(skipped), *ordered))
    if as_json:
        about = {} if seen is None else {"tokens": {k: v for k, v in asdict(seen).items() if k != "findings"}}
        c.print_json({"file": str(rollouts), **asdict(result), **about, "skipped": [str(row) for row in skipped]})
    elif not quiet:
        show(result, str(rollouts), tokens=seen)
        c.print_next(c.console(), _next(result, rollouts))
    if strict and any(finding.severity == "error" for finding in result.findings):
        raise typer.Exit(Code.FOUND)


def _auditor(
    tokens: bool, tokenizer: str | None, end_ids: Sequence[int], arguments: Sequence[str]
) -> TokenAuditor | None:
    given = {"--tokenizer": tokenizer, "--end-id": end_ids, "--template-arg": arguments}
    alone = [name for name, value in given.items() if value]
    if alone and not tokens:
        raise InvalidArgument(alone[0], given[alone[0]], "--tokens beside it")
    if arguments and tokenizer is None:
        raise InvalidArgument("--template-arg", list(arguments), "--tokenizer beside it")
    if not tokens:
        return None
    return TokenAuditor(
        tokenizer=None if tokenizer is None else load_tokenizer(tokenizer),
        end_ids=end_ids,
        template_arguments=template_arguments(arguments),
    )


def show(result: Audit, source: str, *, tokens: TokenAudit | None = None) -> None:
    """The audit as a page on standard output."""
    console = c.console()
    sizes = [c.count(result.rollouts, "rollout"), c.count(result.groups, "group")]
    if result.steps:
        sizes.append(c.count(result.steps, "step"))
    console.print(c.heading("audit", source), soft_wrap=True)
    console.print(f"  {', '.join(sizes)}")
    console.print()
    console.print(_groups(result, bars=c.room_for_bars(console)))
    for column, values in result.breakdown.items():
        console.print()
        console.print(_breakdown(column, values))
    console.print()
    console.print(_facts(result))
    console.print()
    if tokens is not None:
        console.print(counts(tokens))
        console.print()
    _findings(console, result.findings)
    console.print()


def _groups(result: Audit, *, bars: bool) -> Any:
    rows: list[list[c.Cell]] = []
    for kind, n in result.kinds.items():
        if n or kind == "mixed":
            style, teaches = _TEACHES[kind]
            part = n / max(result.groups, 1)
            shown: list[c.Cell] = [c.bar(part, width=16, style=c.STYLES[style])] if bars else []
            rows.append([kind, c.count(n), c.share(part), *shown, teaches])
    heads: list[c.Column] = ["groups", ("", "right"), ("share", "right"), *([""] if bars else []), "teach"]
    return c.table(heads, rows, flexible=(len(heads) - 1,))


def _breakdown(column: str, values: Mapping[str, Mapping[Kind, int]]) -> Any:
    used = [kind for kind in KINDS if kind == "mixed" or any(counts[kind] for counts in values.values())]
    rows: list[list[c.Cell]] = [
        [c.safe(value, 24), *(c.count(counts[kind]) for kind in used), c.share(_dead(counts))]
        for value, counts in values.items()
    ]
    return c.table(
        [f"groups by {c.safe(column, 24).plain}", *((kind, "right") for kind in used), ("dead", "right")], rows
    )


def _dead(counts: Mapping[Kind, int]) -> float | None:
    total = sum(counts.values())
    return 1.0 - counts["mixed"] / total if total else None


def _facts(result: Audit) -> Any:
    ended = ", ".join(f"{c.count(n)} {status}" for status, n in result.status.items() if n)
    r = result.reward_length_correlation
    field = c.safe(result.reward_field, 24).plain
    turns = result.turns / max(result.rollouts, 1)
    rows: list[list[c.Cell]] = [
        ["rollouts", ended or "none"],
        [
            "reward",
            f"{c.count(result.reward_known)} known in {field!r}: mean {c.number(result.reward_mean)}, from "
            f"{c.number(result.reward_low)} to {c.number(result.reward_high)}"
            if result.reward_known
            else f"no data in {field!r}",
        ],
        ["passes", f"{c.share(result.pass_share)} at or above {c.number(result.pass_mark)}"]
        if result.pass_mark is not None
        else ["passes", "none"],
        ["per group", f"{c.number(result.group_size)} rollouts, {c.number(result.effective_n)} with a known reward"],
        [
            "length",
            f"{c.number(result.length)} {result.length_unit} in {c.number(turns)} turns, on average",
        ],
        [
            "reward ~ length",
            "no data" if r is None else f"{c.number(round(r, 2), 2, signed=True)} by rank, inside groups",
        ],
    ]
    return c.table(["", ""], rows, header=False, flexible=(1,))


def _findings(console: Console, findings: Sequence[Finding]) -> None:
    counts = {severity: sum(f.severity == severity for f in findings) for severity in SEVERITIES}
    summary = ", ".join(
        f"{n} {severity}{'s' if n != 1 and severity != 'info' else ''}" for severity, n in counts.items() if n
    )
    console.print(c.heading("findings", summary or "none"))
    for finding in findings:
        console.print()
        head = Text.assemble((finding.severity, c.STYLES[finding.severity]), " ", (finding.code, "bold"))
        console.print(Padding(head, (0, 0, 0, 2)))
        console.print(Padding(c.safe(finding.message), (0, 0, 0, 4)))
        if finding.examples:
            listed = Text("such as ", style=c.STYLES["faint"])
            listed.append_text(Text(", ").join(c.safe(example, 40) for example in finding.examples))
            console.print(Padding(listed, (0, 0, 0, 4)))
        for place in finding.places:
            console.print(Padding(_place(place), (0, 0, 0, 6)))
        console.print(Padding(Text("-> ").append_text(c.safe(finding.advice)), (0, 0, 0, 4)))


def _place(place: Place) -> Text:
    where = [c.safe(place.trajectory, 40).plain]
    where += [] if place.turn is None else [f"reply {place.turn}"]
    where += [] if place.index is None else [f"token {place.index}"]
    line = Text(f"{', '.join(where)}: ", style=c.STYLES["faint"]).append_text(c.safe(place.recorded))
    if place.instead:
        line.append("\n  against ", style=c.STYLES["faint"])
        line.append_text(c.safe(place.instead))
    return line


def _unreadable(skipped: Sequence[BadRow]) -> list[Finding]:
    if not skipped:
        return []
    return [
        Finding(
            code="unreadable-rows",
            severity="error",
            message=f"{len(skipped)} rows are not rollouts and were left out; the first: {skipped[0]}",
            count=len(skipped),
            examples=tuple(f"line {row.line}" for row in skipped[:5]),
            advice="--on-error stop ends at the first one; --json lists them all",
        )
    ]


def _next(result: Audit, rollouts: Path) -> str:
    source = shlex.quote(str(rollouts))
    if not result.reward_known:
        return f"apportion audit {source} --reward-field COLUMN"
    column = "" if result.reward_field == "reward" else f" --reward-field {shlex.quote(result.reward_field)}"
    return f"apportion score {source} --recipe grpo{column} --out credit.jsonl"
