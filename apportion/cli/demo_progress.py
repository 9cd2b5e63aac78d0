"""How the runs of `apportion demo` get on: a bar for each in a terminal, lines elsewhere; always on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from apportion.cli import _console as c
from apportion.cli.demo_processes import Watcher
from apportion.cli.demo_training import Measures, Tick

__all__ = ["shown_measures", "watching"]

_LABELS: Mapping[str, str] = {"last_row": "last row"}
# Lines of a run without a terminal, besides its last one.
_LINES = 4


def shown_measures(values: Measures) -> str:
    """Measures on one line, in one width.

    Example:
        >>> shown_measures({"success": 0.5, "last_row": 1.0})
        'success 0.50  last row 1.00'
    """
    return "  ".join(f"{_LABELS.get(name, name)} {value:.2f}" for name, value in values.items())


class _Silent:
    def start(self, job: str) -> None:
        """Say nothing."""

    def message(self, job: str, message: Tick) -> None:
        """Say nothing."""

    def end(self, job: str) -> None:
        """Say nothing."""


class _Lines:
    """A line when a run starts, a few on the way, one when it ends."""

    def __init__(self, on: Console, totals: Mapping[str, int]) -> None:
        self._on = on
        self._width = max(map(len, totals))
        self._began: dict[str, float] = {}
        self._first: dict[str, float] = {}

    def _say(self, job: str, text: str) -> None:
        self._on.print(Text(f"{job:<{self._width}}  {text}"), soft_wrap=True)

    def start(self, job: str) -> None:
        """A line."""
        self._began[job] = time.perf_counter()
        self._say(job, "starts")

    def message(self, job: str, message: Tick) -> None:
        """A line, at every fourth of the way."""
        # The pace counts from the first step: what a process needs to come up says nothing about the rest.
        first = self._first.setdefault(job, time.perf_counter())
        before, now = ((done * _LINES) // message.total for done in (message.done - 1, message.done))
        if before < now and message.done > 1:
            pace = (message.done - 1) / max(time.perf_counter() - first, 1e-9)
            steps = f"{message.done:>3}/{message.total}"
            self._say(job, f"{steps}  {shown_measures(message.shown)}  {pace:.1f} steps/s")

    def end(self, job: str) -> None:
        """A line."""
        self._say(job, f"done in {time.perf_counter() - self._began[job]:.1f} s")


class _Bars:
    """One bar per run, the waiting ones too."""

    def __init__(self, bars: Progress, totals: Mapping[str, int]) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {
            job: bars.add_task(job, start=False, total=total, shown="waits") for job, total in totals.items()
        }

    def start(self, job: str) -> None:
        """The bar comes alive."""
        self._bars.update(self._tasks[job], shown="starts")

    def message(self, job: str, message: Tick) -> None:
        """The bar moves."""
        task = self._tasks[job]
        self._bars.start_task(task)
        self._bars.update(task, completed=message.done, shown=shown_measures(message.shown))

    def end(self, job: str) -> None:
        """The bar stays as it is."""


class _Pace(ProgressColumn):
    def render(self, task: Task) -> Text:
        """Steps per second and the seconds left, or those it took."""
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("")
        seconds = task.finished_time if task.finished else task.time_remaining
        left = "" if seconds is None else f"{seconds:.0f} s" if task.finished else f"{seconds:.0f} s left"
        return Text(f"{speed:>4.1f}/s  {left}", style=c.STYLES["faint"])


@contextmanager
def watching(totals: Mapping[str, int], *, lines: bool) -> Iterator[Watcher]:
    """Shows the runs while the block lasts.

    Args:
        totals: steps of each run, by name, in the order to show them in.
        lines: False to say nothing where standard error is no terminal.
    """
    err = Console(stderr=True, highlight=False, emoji=False, markup=False)
    if not err.is_terminal:
        yield _Lines(err, totals) if lines else _Silent()
        return
    resting = "grey30"
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=8 if err.width < 100 else 24, style=resting, pulse_style=resting),
        MofNCompleteColumn(),
        TextColumn("{task.fields[shown]}", justify="left"),
        _Pace(),
        console=err,
    )
    with bars:
        yield _Bars(bars, totals)
