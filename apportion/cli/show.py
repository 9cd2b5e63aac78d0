"""`apportion show`: why the turns of a rollout got their credit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from apportion.cli import _console as c
from apportion.cli._options import Json
from apportion.report.turn_credit import TurnCredit, chosen, turn_credits

__all__ = ["show"]

_WIDE = 80


def show(
    credit: Annotated[
        Path,
        typer.Argument(metavar="CREDIT", exists=True, dir_okay=False, help="A file that `apportion score` wrote."),
    ],
    rollout: Annotated[
        list[str] | None, typer.Option("--rollout", "-r", metavar="ID", help="This rollout; may be repeated.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", metavar="ID", help="The rollouts of this group.")
    ] = None,
    most: Annotated[int, typer.Option("--most", "-n", metavar="N", min=1, help="So many rollouts.")] = 3,
    as_json: Json = False,
) -> None:
    """Show the credit of rollouts turn by turn, split into its causes, with what the observers said.

    Without a name: the rollouts whose credit on a single token or turn is the largest.
    """
    from apportion.report.credit_file import read_credit, read_header

    header = read_header(credit)
    records = chosen(read_credit(credit), ids=rollout or (), group=group, most=most)
    if as_json:
        c.print_json({"file": str(credit), "recipe": header["recipe"], "rollouts": list(map(_plain, records))})
        return
    console = c.console()
    recipe = header["recipe"]
    console.print(c.heading("credit", f"{recipe['name']}, {header['source']}"), soft_wrap=True)
    unit = f"mean advantage of a turn's tokens, for a loss of {recipe['aggregation']}"
    console.print(Padding(Text(unit, style=c.STYLES["faint"]), (0, 0, 0, 2)))
    for record in records:
        console.print()
        _rollout(console, record, header.get("labels", ()))


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    turns = [
        {"tokens": t.tokens, "advantage": t.advantage, "terms": dict(t.terms), "verdicts": dict(t.verdicts)}
        for t in turn_credits(record)
    ]
    return {
        "id": record["id"],
        "group": record["group"],
        "status": record["status"],
        "verdicts": {name: said for name, said in record["verdicts"].items() if isinstance(said, Mapping)},
        "turns": turns,
    }


def _rollout(console: Console, record: Mapping[str, Any], labels: Sequence[str]) -> None:
    told = [f"group {record['group']}", record["status"]]
    told += [f"{name} {_said(v)}" for name, v in record["verdicts"].items() if isinstance(v, Mapping)]
    console.print(c.heading(c.safe(record["id"], 60).plain, ", ".join(told)), soft_wrap=True)
    turns = turn_credits(record)
    if not turns:
        console.print(Padding(Text("no turn was recorded"), (0, 0, 0, 2)))
        return
    largest = max((abs(turn.advantage) for turn in turns if turn.advantage is not None), default=0.0)
    bars = console.width >= _WIDE
    counted = any(turn.tokens is not None for turn in turns)
    tokens: list[c.Column] = [("tokens", "right")] if counted else []
    heads: list[c.Column] = ["turn", *tokens, ("advantage", "right"), *([""] if bars else []), "why"]
    rows: list[list[c.Cell]] = []
    for number, turn in enumerate(turns, 1):
        row: list[c.Cell] = [str(number), *([f"{turn.tokens:,}"] if counted else [])]
        row.append(Text(c.number(turn.advantage, 3, signed=True), style="bold"))
        if bars:
            row.append(c.signed_bar(turn.advantage or 0.0, largest=largest, half=5))
        rows.append([*row, _why(turn, labels)])
    console.print(c.table(heads, rows, flexible=(len(heads) - 1,)))


def _why(turn: TurnCredit, labels: Sequence[str]) -> Text:
    """The terms that are not 0, and what observers said, but for a score of 0."""
    terms = [f"{name} {c.number(value, 3, signed=True)}" for name, value in turn.terms.items() if value]
    lines = [c.safe(", ".join(terms) or ("no credit" if turn.advantage is not None else "not in the loss"))]
    for name, verdict in turn.verdicts.items():
        if verdict.get("value") != 0.0:
            lines.append(c.safe(f"{name} {_said(verdict, code=name in labels)}", 160))
            lines[-1].stylize(c.STYLES["faint"])
    return Text("\n").join(lines)


def _said(verdict: Mapping[str, Any], *, code: bool = False) -> str:
    missing = [f"{word}: {verdict[word]}" for word in ("abstained", "failed") if word in verdict]
    if missing:
        return missing[0]
    evidence = verdict.get("evidence", "")
    if code and evidence:
        return str(evidence)
    return f"{verdict['value']:.4g}" + (f" ({evidence})" if evidence else "")
