"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

__all__ = ["Format", "Json", "OnError", "Quiet", "RewardField", "Rollouts"]

Rollouts: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="ROLLOUTS", exists=True, dir_okay=False, readable=True, help="A rollout file, plain or .gz."
    ),
]
Format: TypeAlias = Annotated[
    Literal["auto", "jsonl", "parquet", "messages", "replies", "sweagent"],
    typer.Option(
        metavar="FORMAT", help="auto, jsonl or parquet (native), messages, replies or sweagent; auto recognises it."
    ),
]
OnError: TypeAlias = Annotated[
    Literal["stop", "skip"],
    typer.Option(metavar="stop|skip", help="At a row that is not a rollout: stop, or leave it out and list it."),
]
RewardField: TypeAlias = Annotated[str, typer.Option(metavar="COLUMN", help="The column that holds the reward.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]
