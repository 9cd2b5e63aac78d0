"""Assembles RESULTS.md from results/*.json, which the benchmarks of this folder write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
INTRODUCTION = """# Speed

Made by `make bench-speed` from what its programs measured; everything in one table ran side by side in one process.
CPU is the CPU time of the whole process. Ratios travel between machines better than milliseconds do.
"""


def main() -> None:
    """Write the page."""
    tables = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((HERE / "results").glob("*.json"))]
    targets = [[one["target"], one["measured"], one["met"], one["why"]] for table in tables for one in table["targets"]]
    parts = [INTRODUCTION, "## Targets\n", *lines(["target", "measured", "met", "why not"], targets), ""]
    for table in tables:
        machine = table["machine"]
        parts += [f"## {table['title']}\n", *lines(table["columns"], table["rows"]), ""]
        parts += [f"- {note}" for note in table["notes"]]
        parts += [f"- {machine['cpu']}, torch {machine['torch']}, threads: {machine['threads']}\n"]
    (HERE / "RESULTS.md").write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")


def lines(columns: list[str], rows: list[list[Any]]) -> list[str]:
    """A table in Markdown."""
    cells = [[str(cell) for cell in row] for row in [columns, ["---"] * len(columns), *rows]]
    return [f"| {' | '.join(row)} |" for row in cells]


if __name__ == "__main__":
    main()
