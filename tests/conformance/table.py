"""The matrix as a page: `python -m tests.conformance.table > docs/conformance.md`."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.matrix import LAWS, ROWS
from tests.conformance.row import Row

INTRODUCTION = """# What every estimator obeys

Each estimator and recipe of apportion is a row, each law a column; `tests/conformance/` holds every row against every
law, on degenerate batches first (one rollout, no token, no turn, all missing, constant, ties, uneven and interleaved
groups) and then on random ones. This page is made from those tests:
`python -m tests.conformance.table > docs/conformance.md`.

- `yes`: the law holds.
- `a`, `b`, ...: it does not hold; the note says why, and a test shows a case on which it breaks.
- `(a)`: it holds except in the cases that the note names; both sides are tested.
- empty: the law cannot be asked (a recipe sees numbers, not tensors; a 0/1 reward cannot be shifted).

An estimator without a row fails the suite.
"""

COLUMNS = """- `degree`: what multiplying the rewards does; 1 multiplies the advantages, 0 leaves them.
- `singleton`: what the only known reward of its group gets.
- `text`: what happens to rollouts without tokens.
"""


def page() -> str:
    """The whole page."""
    notes: dict[str, str] = {}

    def note(reason: str) -> str:
        return notes.setdefault(reason, _letters(len(notes)))

    numbers = {name: str(i) for i, name in enumerate(LAWS, 1)}
    laws = [f"{numbers[name]}. **{_words(name)}.** {law.says}" for name, law in LAWS.items()]
    head = f"| row | degree | singleton | text | {' | '.join(numbers.values())} |"
    rule = "|---|---|---|---|" + "---|" * len(numbers)
    rows = [_line(row, note) for row in ROWS]
    footnotes = [f"- `{letter}` {reason}" for reason, letter in notes.items()]
    parts = [
        INTRODUCTION,
        "## Laws\n",
        "\n".join(laws) + "\n",
        "## Rows\n",
        COLUMNS,
        "\n".join([head, rule, *rows]) + "\n",
        "## Notes\n",
        "\n".join(footnotes),
    ]
    return "\n".join(parts) + "\n"


def _line(row: Row, note: Callable[[str], str]) -> str:
    cells = []
    for name, law in LAWS.items():
        deviation = row.deviations.get(name)
        if not law.applies(row):
            cells.append("")
        elif deviation is None:
            cells.append("yes")
        else:
            letter = note(deviation.reason)
            cells.append(letter if deviation.unless is None else f"({letter})")
    degree = row.degree if LAWS["scale"].applies(row) and "scale" not in row.deviations else ""
    singleton = "" if "singleton" in row.deviations else row.singleton
    return f"| {row.name} | {degree} | {singleton} | {row.text} | {' | '.join(cells)} |"


def _letters(index: int) -> str:
    return chr(97 + index % 26) * (1 + index // 26)


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201
