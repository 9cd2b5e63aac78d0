"""The table of docs/turns.md, made from what the recipes say: `python -m tests.recipes.turns_page` writes it anew."""

from __future__ import annotations

from pathlib import Path

from apportion import recipes

PATH = Path(__file__).parents[2] / "docs" / "turns.md"
_HEAD = "| recipe | paper | needs | rebuilt |\n| --- | --- | --- | --- |\n"


def page() -> str:
    """The page with its table as it should be; the table is the last thing on it."""
    rows = []
    for name in recipes.names():
        made = recipes.load(name)
        besides = [need for need in made.needs if need != "trajectory column 'reward'"]
        if besides:
            cells = (f"`{name}`", made.paper, "; ".join(besides), made.reconstruction)
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return PATH.read_text(encoding="utf-8").partition(_HEAD)[0] + _HEAD + "".join(rows)


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")
