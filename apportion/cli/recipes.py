"""`apportion recipes`: what there is, what it needs, and what is not from the paper."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from apportion.cli import _console as c
from apportion.cli._errors import guest
from apportion.cli._options import Json
from apportion.cli._parameters import described, kinds
from apportion.errors import ApportionError

if TYPE_CHECKING:
    from apportion.recipe import Recipe

__all__ = ["recipes"]


@dataclass(frozen=True, kw_only=True)
class _Setting:
    name: str
    kind: str
    default: object
    required: bool
    about: str


@dataclass(frozen=True, kw_only=True)
class _Card:
    """A recipe as its function describes it; `made` is None where it cannot be made without settings."""

    name: str
    doc: str
    settings: list[_Setting]
    made: Recipe | None


def recipes(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One recipe, or a .py file that defines one, in detail.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the recipes: paper, what they need, their settings and defaults, and what is reconstructed."""
    from apportion.recipes import names

    with guest(as_json=as_json):
        cards = [_card(each) for each in ([name] if name else names())]
    if as_json:
        listed = [_as_json(card) for card in cards]
        c.print_json(listed[0] if name else listed)
    elif name:
        _detail(c.console(), cards[0])
    else:
        _list(c.console(), cards)


def _card(name: str) -> _Card:
    from apportion.recipes import factory

    make = factory(name)
    hints = kinds(make)
    doc = inspect.getdoc(make) or ""
    abouts = _arguments(doc)
    settings = [
        _Setting(
            name=p.name,
            kind=described(hints.get(p.name, Any)),
            default=None if p.default is p.empty else p.default,
            required=p.default is p.empty,
            about=abouts.get(p.name, ""),
        )
        for p in inspect.signature(make).parameters.values()
        if p.kind is not p.VAR_KEYWORD
    ]
    try:
        made = None if any(setting.required for setting in settings) else make()
    except ApportionError:
        # A recipe that is refused with its defaults still has a name, a text and settings to show.
        made = None
    return _Card(name=name, doc=doc, settings=settings, made=made)


def _arguments(doc: str) -> dict[str, str]:
    """The texts below "Args:" of a docstring, by name."""
    section = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", doc, flags=re.MULTILINE | re.DOTALL)
    entries = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", section.group(1) if section else "", flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _list(console: Console, cards: list[_Card]) -> None:
    console.print(c.heading("recipes", "by name; your own: a .py file that defines recipe"))
    for card in cards:
        made = card.made
        head = Text.assemble("  ", (card.name, "bold"), "  ", (_paper(made), c.STYLES["faint"]))
        console.print()
        console.print(head)
        console.print(Padding(Text(_first_line(card.doc)), (0, 0, 0, 4)))
        if made is not None and made.needs:
            console.print(Padding(Text(f"needs {'; '.join(made.needs)}"), (0, 0, 0, 4)))
        if card.settings:
            console.print(Padding(_settings_line(card), (0, 0, 0, 4)))
    console.print()
    if any(card.made is not None and card.made.reconstruction for card in cards):
        remark = "  * partly a reconstruction: 'apportion recipes NAME' says which part"
        console.print(Text(remark, style=c.STYLES["faint"]))
        console.print()
    c.print_next(
        console, "apportion recipes rlvp", "apportion score ROLLOUTS --recipe rlvp -p penalty=0.5 --out credit.jsonl"
    )


def _paper(made: Recipe | None) -> str:
    if made is None:
        return ""
    paper = f"arXiv {made.paper}" if re.fullmatch(r"\d{4}\.\d{4,5}", made.paper) else made.paper
    return paper + (" *" if made.reconstruction else "")


def _settings_line(card: _Card) -> Text:
    # Unbreakable blanks inside a value keep a setting on one line.
    parts = [s.name if s.required else f"{s.name}={_short(s.default)}" for s in card.settings]
    return Text("  ".join(part.replace(" ", "\u00a0") for part in parts), style=c.STYLES["faint"])


def _short(value: object) -> str:
    return "none" if value is None else "''" if value == "" else str(value)


def _first_line(doc: str) -> str:
    return " ".join(_without_paper(doc).partition("\n\n")[0].split())


def _without_paper(doc: str) -> str:
    """A docstring whose first paragraph does not end with the paper, which is shown beside it."""
    return re.sub(r"\A((?:.|\n(?!\n))*?)\s*arXiv \d{4}\.\d{4,5}\.(?=\Z|\n\n)", r"\1", doc)


def _detail(console: Console, card: _Card) -> None:
    console.print(c.heading(card.name))
    console.print()
    about = re.split(r"^(?:Args|Returns|Raises|Example):$", card.doc, maxsplit=1, flags=re.MULTILINE)[0]
    for line in c.paragraphs(_without_paper(about.rstrip()), width=min(console.width, 120)):
        console.print(line)
    console.print()
    if card.made is not None:
        console.print(c.table(["", ""], _facts(card.made), header=False, flexible=(1,)))
        console.print()
    if not card.settings:
        console.print(Text("  no settings"))
        return
    for setting in card.settings:
        default = "" if setting.required else f"={_short(setting.default)}"
        kind = f"{setting.kind}, required" if setting.required else setting.kind
        console.print(Text.assemble("  ", (f"{setting.name}{default}", "bold"), "  ", (kind, c.STYLES["faint"])))
        if setting.about:
            console.print(Padding(Text(setting.about), (0, 0, 0, 4)))
    console.print()
    c.print_next(console, f"apportion score ROLLOUTS --recipe {card.name} --out credit.jsonl")


def _facts(recipe: Recipe) -> list[list[str]]:
    statistics = "each group alone" if recipe.scope == "group" else "a whole training step"
    return [
        ["paper", _paper(recipe).removesuffix(" *") or "–"],
        ["needs", "; ".join(recipe.needs) or "–"],
        ["observes", ", ".join(observer.name for observer in recipe.observers)],
        ["statistics over", statistics],
        ["loss", recipe.aggregation],
        ["reconstruction", recipe.reconstruction or "nothing: all from the paper or its code"],
    ]


def _as_json(card: _Card) -> dict[str, Any]:
    made = card.made
    settings = [
        {
            "name": s.name,
            "kind": s.kind,
            "required": s.required,
            "default": s.default if isinstance(s.default, (bool, int, float, str, type(None))) else str(s.default),
            "about": s.about,
        }
        for s in card.settings
    ]
    known = (
        {}
        if made is None
        else {
            "paper": made.paper,
            "needs": list(made.needs),
            "observes": [observer.name for observer in made.observers],
            "scope": made.scope,
            "aggregation": made.aggregation,
            "reconstruction": made.reconstruction,
        }
    )
    return {"name": card.name, "about": _first_line(card.doc), **known, "settings": settings}
