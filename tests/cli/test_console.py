"""What reaches a terminal: harmless, and readable at 80 columns."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from apportion.cli import _console as c

HOSTILE = [
    "\x1b[2J\x1b[31mred\x1b[0m",  # clears the screen
    "\x1b]0;title\x07",  # renames the window
    "a\rb\nc\td",
    "\u202egnp.exe",  # turns the direction of writing
    "\x9b31m",  # a control sequence in one byte
    "\u2028line",
    "\ud800",
    "[bold]markup[/bold] :smile:",
    "\x00",
]


def printed(renderable: Any, width: int = 80) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, highlight=False, emoji=False, markup=False).print(renderable)
    return stream.getvalue()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_and_not_sent(text: str) -> None:
    shown = printed(c.safe(text)).rstrip("\n")
    assert shown.isprintable()


def test_markup_stays_text() -> None:
    assert printed(c.safe("[bold]x[/bold] :smile:")).strip() == "[bold]x[/bold] :smile:"


@given(st.text())
def test_any_text_is_one_printable_line(text: str) -> None:
    assert c.safe(text).plain.isprintable() or not text


def test_text_of_other_languages_stays_readable() -> None:
    for text in ("Größe", "日本語", "हिन्दी"):
        assert c.safe(text).plain == text


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_table_fits_the_terminal(width: int) -> None:
    made = c.table(["name", ("n", "right"), "about"], [["a", "1", "word " * 40]], flexible=(2,))
    assert max(map(len, printed(made, width).splitlines())) <= width


def test_a_flexible_column_loses_nothing() -> None:
    made = c.table(["name", "about"], [["a", "one two three four five six seven"]], flexible=(1,))
    assert "".join(printed(made, 20).split()[2:]).replace("─", "") == "aonetwothreefourfivesixseven"


@pytest.mark.parametrize(
    ("value", "largest", "expected"),
    [(0.0, 1.0, "    │    "), (1.0, 1.0, "    │████"), (-0.001, 1.0, "   █│    "), (0.0, 0.0, "    │    ")],
)
def test_signed_bar(value: float, largest: float, expected: str) -> None:
    assert c.signed_bar(value, largest=largest, half=4).plain == expected


@given(st.floats(-2, 2), st.integers(1, 30))
def test_bars_have_one_width(value: float, width: int) -> None:
    assert len(c.bar(value, width=width).plain) == width


def test_commands_are_never_wrapped() -> None:
    stream = io.StringIO()
    c.print_next(Console(file=stream, width=20), "apportion audit " + "x" * 60)
    assert "x" * 60 in stream.getvalue()


def test_formulas_keep_their_lines() -> None:
    text = "Prose that\nwraps.\n\n    a = b     c = d\n    e = f"
    wide = [line.plain for line in c.paragraphs(text, width=60)]
    assert wide == ["  Prose that wraps.", "", "      a = b     c = d", "      e = f"]
    narrow = [line.plain for line in c.paragraphs(text, width=20)]
    assert narrow == ["  Prose that wraps.", "", "      a = b", "      c = d", "      e = f"]


def test_heading_takes_text_or_words() -> None:
    assert c.heading("a", "b").plain == c.heading("a", Text("b")).plain == "a  b"
