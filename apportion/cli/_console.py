"""What every command shares: two consoles, text that cannot do harm, tables, progress, numbers.

Rollouts are hostile input. Text from them reaches the terminal only through `safe`, which shows control characters
instead of sending them, and never as markup.
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, Literal, TypeAlias

from rich.box import Box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

__all__ = [
    "STYLES",
    "Cell",
    "Column",
    "bar",
    "console",
    "count",
    "error",
    "heading",
    "note",
    "number",
    "paragraphs",
    "print_json",
    "print_next",
    "progress",
    "room_for_bars",
    "safe",
    "share",
    "signed_bar",
    "table",
    "trace",
]

Justify: TypeAlias = Literal["left", "right"]
Cell: TypeAlias = str | Text
Column: TypeAlias = str | tuple[str, Justify]
Tick: TypeAlias = Callable[[int, int], None]

STYLES = {
    "error": "bold red",
    "warning": "yellow",
    "info": "cyan",
    "good": "green",
    "bad": "red",
    "faint": "bright_black",
}

# A line under the header and nothing else.
_BOX = Box("    \n    \n ── \n    \n    \n    \n    \n    \n")
_LEFT: Justify = "left"
_BLOCKS = " ▏▎▍▌▋▊▉█"


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Whoever reads has seen enough: the rest goes nowhere, and the exit code still says what was found."""
        _discard(self.file)


def _discard(stream: IO[str]) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def console() -> Console:
    """Standard output."""
    return _Console(highlight=False, emoji=False, markup=False)


def _stderr() -> Console:
    return _Console(stderr=True, highlight=False, emoji=False, markup=False)


def safe(value: object, limit: int | None = None) -> Text:
    r"""Text from a rollout, harmless and on one line.

    Args:
        value: anything; its `str` is shown.
        limit: the most characters to show.

    Example:
        >>> safe("a\x1b[31mb[red]\nc").plain
        'a\\x1b[31mb[red]\\nc'
        >>> safe("abcdef", 4).plain
        'abc…'
    """
    text = str(value)
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    # Not printable: control characters, bidirectional overrides and other formats, lone surrogates, line separators.
    shown = [c if c.isprintable() else _escaped(c) for c in text]
    return Text("".join(shown))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def error(message: str) -> None:
    """One message on standard error."""
    line = Text("error: ", style=STYLES["error"])
    _stderr().print(line + safe(message), soft_wrap=True)


def note(message: str) -> None:
    """A remark on standard error."""
    _stderr().print(safe(message), style=STYLES["faint"], soft_wrap=True)


def trace() -> None:
    """The exception that is being handled, on standard error; its text may come from a rollout."""
    for line in traceback.format_exc().splitlines():
        _stderr().print(safe(line), soft_wrap=True)


def print_json(value: Any) -> None:
    """JSON on standard output, and nothing but JSON."""
    text = json.dumps(value, indent=2, allow_nan=False)
    try:
        print(text, flush=True)  # noqa: T201 - nothing happens where standard output is closed
    except BrokenPipeError:
        _discard(sys.stdout)


def heading(title: str, remark: str | Text = "") -> Text:
    """A line above a block."""
    line = Text(title, style="bold")
    if remark:
        line.append("  ")
        line.append_text(safe(remark) if isinstance(remark, str) else remark)
    return line


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    flexible: Sequence[int] = (),
    header: bool = True,
) -> RenderableType:
    """An indented table.

    Args:
        columns: headers, with "right" for numbers.
        rows: the cells.
        flexible: the columns, by number, that wrap when the terminal is narrow; the others keep their width.
        header: False for a table whose columns need no names.
    """
    faint = STYLES["faint"]
    made = Table(
        box=_BOX,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
        header_style=faint,
        border_style=faint,
        show_header=header,
    )
    for i, column in enumerate(columns):
        name, side = column if isinstance(column, tuple) else (column, _LEFT)
        wraps = i in flexible
        made.add_column(name, justify=side, no_wrap=not wraps, overflow="fold" if wraps else "ellipsis")
    for row in rows:
        made.add_row(*row)
    return Padding(made, (0, 0, 0, 2))


def paragraphs(text: str, *, width: int, indent: int = 2) -> Iterator[Text]:
    r"""A docstring's text for a terminal: prose is filled, indented lines stay and wrap only when they must.

    Example:
        >>> [line.plain for line in paragraphs("a b\nc\n\n    x = 1", width=20)]
        ['  a b c', '', '      x = 1']
    """
    for number, part in enumerate(text.split("\n\n")):
        if number:
            yield Text("")
        lines = part.splitlines()
        for line in _formulas(lines, width - indent) if part.startswith(" ") else [" ".join(lines)]:
            inside = indent + len(line) - len(line.lstrip())
            wrapped = textwrap.wrap(
                line.strip(),
                width,
                initial_indent=" " * inside,
                subsequent_indent=" " * (inside + 4 * line.startswith(" ")),
            )
            yield from map(Text, wrapped)


def _formulas(lines: Sequence[str], width: int) -> Iterator[str]:
    """Lines as they are; those that are too wide and have columns, one below the other."""
    for line in lines:
        start = line[: len(line) - len(line.lstrip())]
        yield from [line] if len(line) <= width else (start + part for part in re.split(r" {3,}", line.strip()))


def bar(value: float, *, width: int = 20, style: str = "cyan") -> Text:
    """A share in [0, 1] as a bar.

    Example:
        >>> bar(0.5, width=4).plain
        '██  '
    """
    eighths = round(min(max(value, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return Text(("█" * full + (_BLOCKS[rest] if rest else "")).ljust(width), style=style)


def room_for_bars(on: Console) -> bool:
    """False on a narrow terminal, where a bar would take the place of a name or a number."""
    return on.width >= 60


def signed_bar(value: float, *, largest: float, half: int = 8) -> Text:
    """A number on an axis in the middle: negative to the left, positive to the right.

    Example:
        >>> signed_bar(-1.0, largest=2.0, half=4).plain, signed_bar(2.0, largest=2.0, half=4).plain
        ('  ██│    ', '    │████')
    """
    size = 0 if not largest else min(half, max(round(abs(value) / largest * half), 1 if value else 0))
    left, right = (size, 0) if value < 0 else (0, size)
    return Text.assemble(
        (" " * (half - left) + "█" * left, STYLES["bad"]),
        ("│", STYLES["faint"]),
        ("█" * right + " " * (half - right), STYLES["good"]),
    )


def number(value: float | None, digits: int = 4, *, signed: bool = False) -> str:
    """A number with so many significant digits, or a dash when there is none.

    Example:
        >>> number(0.123456), number(0.5, signed=True), number(None), number(-1234567.0), number(-0.0)
        ('0.1235', '+0.5', '–', '-1.235e+06', '0')
    """
    if value is None:
        return "–"
    # Adding 0 takes the sign off a zero.
    return f"{value + 0.0:{'+' if signed else ''}.{digits}g}"


def share(value: float | None) -> str:
    """A share in percent, or a dash.

    Example:
        >>> share(0.125), share(1.0), share(None), share(-1e-9)
        ('12.5%', '100%', '–', '0%')
    """
    if value is None:
        return "–"
    text = f"{round(100 * value, 1) + 0.0:.1f}"
    return f"{text.removesuffix('.0')}%"


def count(value: int, unit: str = "") -> str:
    """A whole number with its thousands apart, and its unit in the right number.

    Example:
        >>> count(1234567), count(1, "group"), count(0, "group")
        ('1,234,567', '1 group', '0 groups')
    """
    return f"{value:,}" + (f" {unit}{'' if value == 1 else 's'}" if unit else "")


def print_next(on: Console, *commands: str) -> None:
    """What to type next; never wrapped, so that it can be copied."""
    on.print(Text("next", style="bold"))
    for command in commands:
        on.print(Text("  ").append_text(safe(command)), style="cyan", soft_wrap=True)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        """Units per second."""
        speed, unit = task.speed, task.fields["unit"]
        if not speed:
            return Text("")
        text = f"{speed / 1e6:.1f} MB/s" if unit == "bytes" else f"{speed:,.0f} {unit}/s"
        return Text(text, style=STYLES["faint"])


@contextmanager
def progress(*, shown: bool) -> Iterator[Callable[[str], Tick]]:
    """A progress bar on standard error: `start(title)` begins a stage and gives its `tick(done, total)`, in bytes.

    Args:
        shown: False for --json and --quiet; it is never shown where standard error is no terminal.
    """
    err = _stderr()
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f}%"),
        _Rate(),
        TimeRemainingColumn(compact=True),
        console=err,
        transient=True,
        disable=not (shown and err.is_terminal),
    )
    with bars:

        def start(title: str) -> Tick:
            for running in bars.task_ids:
                bars.remove_task(running)
            task = bars.add_task(title, total=None, unit="bytes")
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield start


def plain(values: Mapping[str, Any]) -> str:
    """Settings on one line."""
    return ", ".join(f"{name}={value}" for name, value in values.items())
