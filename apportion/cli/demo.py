"""`apportion demo`: trains a tiny model under several recipes, and shows what each taught it."""

from __future__ import annotations

import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from apportion.cli import _console as c
from apportion.cli._errors import Code
from apportion.cli._options import Json
from apportion.errors import InvalidArgument, MissingExtra

if TYPE_CHECKING:
    from apportion.cli.demo_arms import Size
    from apportion.cli.demo_page import Outcome

__all__ = ["demo"]

_AT_ONCE = 2


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs and steps.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Decides weights, demonstrations and sampling.")] = 0,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where plots, rollouts and credit go.")
    ] = Path("apportion-demo"),
    score_only: Annotated[
        bool, typer.Option("--score-only", help="Train nothing: score and audit the rollouts that the package ships.")
    ] = False,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="With --score-only: show the ledger of this group; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a tiny model from random weights on the CPU: outcome only, RLVP, and what goes wrong without its parts.

    Imitation of scripted demonstrations, then RL through the public API, a run per recipe. Exit code 1 when the
    expected shape does not come out. Without matplotlib and transformers there is --score-only.
    """
    # torch takes a second to import; only the commands that assign credit should.
    if score_only:
        if as_json:
            raise InvalidArgument("--json", True, "a run that trains, or 'apportion score --json' on a file")
        from apportion.cli.demo_tour import tour

        tour(group or ())
        return
    if group:
        raise InvalidArgument("--group", group, "--score-only beside it")
    for package in ("transformers", "matplotlib"):
        if find_spec(package) is None:
            raise MissingExtra(package, "demo")
    from apportion.cli.demo_page import as_json as plain
    from apportion.cli.demo_page import page

    started = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    if not as_json:
        what = f"0.1 million random weights: imitation, then RL, on {_AT_ONCE} CPU cores; seed {seed}"
        c.console().print(c.heading("demo", what))
    outcomes = _trained("quick" if quick else "full", seed, out, lines=not as_json)
    files = _files(outcomes, out)
    seconds = time.perf_counter() - started
    if as_json:
        c.print_json({"seed": seed, **plain(outcomes, files, out=out, seconds=seconds)})
    else:
        page(outcomes, files, out=out, seconds=seconds)
    if any(outcome.misses for outcome in outcomes):
        raise typer.Exit(Code.FOUND)


def _trained(size: Size, seed: int, out: Path, *, lines: bool) -> list[Outcome]:
    from apportion.cli.demo_arms import WARM_STEPS, arms
    from apportion.cli.demo_page import Outcome
    from apportion.cli.demo_processes import Job, JobCrashed, run_jobs
    from apportion.cli.demo_progress import watching
    from apportion.cli.demo_training import train_arm, warm_start

    wanted = arms(size)
    tasks = list(dict.fromkeys(arm.task for arm in wanted))
    steps = WARM_STEPS[size]
    with TemporaryDirectory() as folder:
        weights = {task: Path(folder, f"{task}.pt") for task in tasks}
        warm = {task: f"imitate {task}" for task in tasks}
        jobs = [
            Job(name=warm[task], work=partial(warm_start, task=task, seed=seed, steps=steps, weights=weights[task]))
            for task in tasks
        ]
        jobs += [
            Job(
                name=arm.name,
                work=partial(train_arm, arm=arm, seed=seed, weights=weights[arm.task], folder=out),
                after=(warm[arm.task],),
            )
            for arm in wanted
        ]
        totals = {warm[task]: steps for task in tasks} | {arm.name: arm.iterations for arm in wanted}
        try:
            with watching(totals, lines=lines) as watcher:
                found = run_jobs(jobs, at_once=_AT_ONCE, watcher=watcher)
        except JobCrashed as crash:
            sys.stderr.write(f"{crash.report.rstrip()}\n")
            c.error(f"the run {crash.job!r} crashed; see above")
            raise typer.Exit(Code.BUG) from None
    return [Outcome(arm=arm, before=found[warm[arm.task]], trained=found[arm.name]) for arm in wanted]


def _files(outcomes: list[Outcome], out: Path) -> dict[str, str]:
    from apportion.cli.demo_plots import plot_curves, plot_turns

    trained = {outcome.arm.name: outcome.trained for outcome in outcomes}
    terminal = [outcome.arm.name for outcome in outcomes if outcome.arm.task == "terminal"]
    files: dict[str, str] = {}
    titles = {"success": "terminal: success", "violations": "terminal: violations per episode"}
    plot_curves(
        {title: {name: trained[name].history[key] for name in terminal} for key, title in titles.items()},
        out / "terminal.png",
    )
    files["terminal.png"] = "success and violations over the steps, by run"
    if "notebook" in trained:
        history = trained["notebook"].history
        curves = {"success": history["success"], "last row seen": history["last_row"]}
        plot_curves({"notebook: share of episodes": curves}, out / "notebook.png")
        files["notebook.png"] = "success, and how often the last row was seen"
    first, last = trained["RLVP"].by_turn
    plot_turns({"RLVP: first step": first, "RLVP: last step": last}, out / "credit.png")
    files["credit.png"] = "what a turn earns, by its place in the episode"
    files["rollouts-*.jsonl"] = "the rollouts of each run's last step, token-exact: apportion audit reads them"
    files["credit-*.jsonl"] = "the credit that they were given, with its ledger"
    return files
