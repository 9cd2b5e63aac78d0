"""`apportion score`: rollouts in, credit with its ledger out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from apportion.cli import _console as c
from apportion.cli._errors import about_the_rollouts, guest
from apportion.cli._options import Format, Json, OnError, Quiet, Rollouts
from apportion.cli._parameters import parameters
from apportion.cli._scored import summary, summary_as_json
from apportion.errors import BadRow, InvalidArgument
from apportion.integrations.files import RolloutIndex
from apportion.rollouts import Trajectory

if TYPE_CHECKING:
    from apportion.recipe import Recipe
    from apportion.report.scoring import Scoring

__all__ = ["score"]

Stage: TypeAlias = Callable[[str], c.Tick]

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
            "--out",
            "-o",
            metavar="FILE",
            help="Where the credit goes: a .jsonl, .jsonl.gz or .parquet file; with --engine ray a folder.",
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
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(metavar="local|ray", help="Score in this process, or in blocks by workers on Ray."),
    ] = "local",
    resume: Annotated[bool, typer.Option("--resume", help="With ray: go on with the run in the folder.")] = False,
    block_rows: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="With ray: rollouts per block; default 4096.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="With ray: processes; default one per CPU.")
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", envvar="RAY_ADDRESS", help="With ray: a cluster; default one of its own."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score rollouts: credit for every policy token (or turn, for text-only rollouts), with its ledger.

    Groups may lie scattered through the file; it is read twice and never held in memory as a whole. A recipe whose
    statistics run over a training step holds one step at a time.

    With --engine ray, workers score blocks of whole groups and write one Parquet file each into a folder. A run that
    was killed goes on with --resume; what was committed is not scored again.
    """
    # torch takes a second to import; only the commands that assign credit should.
    from apportion.report.credit_file import CreditWriter, credit_header
    from apportion.report.scoring import CHUNK_BYTES, Scoring, read_state, write_state

    _distinct(rollouts, out, state)
    _fitting(engine, out, limit, {"--resume": resume, "--block-rows": block_rows, "--workers": workers})
    with guest(as_json=as_json):
        made, settings = _made(recipe, parameter or (), reward_field)
    before = read_state(state, made)
    skipped: list[BadRow] = []
    started = time.perf_counter()

    def locally(stage: Stage) -> Scoring:
        scoring = Scoring(made, state=before, failure_limit=failure_limit)
        with (
            CreditWriter(out, credit_header(made, source=str(rollouts))) as file,
            RolloutIndex(
                rollouts, format=format, on_error=on_error, skipped=skipped, progress=stage("reading")
            ) as index,
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
        return scoring

    def on_ray(stage: Stage) -> Scoring:
        from apportion.integrations.ray import BlockRun

        run = BlockRun(
            rollouts,
            out,
            recipe=recipe,
            parameters=settings,
            state=before,
            failure_limit=failure_limit,
            block_rows=block_rows or 4096,
            workers=workers,
            address=ray_address,
            resume=resume,
            format=format,
            on_error=on_error,
            skipped=skipped,
            progress=stage("reading"),
        )
        with run, about_the_rollouts(), guest(as_json=as_json):
            return run.score(stage("scoring"))

    with c.progress(shown=not (as_json or quiet)) as stage:
        scoring = on_ray(stage) if engine == "ray" else locally(stage)
    if state is not None:
        write_state(state, made, scoring.state)
    seconds = time.perf_counter() - started
    if as_json:
        c.print_json(summary_as_json(made, scoring, skipped, out, seconds))
    elif not quiet:
        summary(made, scoring, skipped, seconds, f"{rollouts}", out)


def _made(name: str, pairs: Sequence[str], reward_field: str | None) -> tuple[Recipe, dict[str, Any]]:
    from apportion.recipes import factory, load

    given = list(pairs) + ([] if reward_field is None else [f"reward={reward_field}"])
    settings = parameters(factory(name), given, recipe=name)
    return load(name, **settings), settings


def _fitting(engine: str, out: Path, limit: int | None, of_ray: Mapping[str, Any]) -> None:
    given = [name for name, value in of_ray.items() if value]
    if engine == "local" and given:
        raise InvalidArgument("--engine", engine, f"ray, since {', '.join(given)} is about its blocks")
    if engine == "ray" and limit is not None:
        raise InvalidArgument("--limit", limit, "nothing with --engine ray, which scores whole files; use local")
    if engine == "ray" and out.name.endswith((".jsonl", ".gz", ".parquet")):
        raise InvalidArgument("--out", str(out), "a folder with --engine ray, which writes a file per block")


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
