"""What `apportion demo` prints when everything is trained: tables, readings, a ledger, files, what to type next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from apportion.batch import Batch
from apportion.cli import _console as c
from apportion.cli._ledger import group_page, scored
from apportion.cli.demo_arms import Arm, rlvp
from apportion.cli.demo_training import Measures, Trained
from apportion.integrations.files import read
from apportion.recipes import load
from apportion.rollouts import Trajectory

__all__ = ["Outcome", "as_json", "page"]

_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "terminal": {
        "success": "success",
        "violations": "violations",
        "dead_groups": "dead groups",
        "turns": "turns",
    },
    "notebook": {
        "success": "success",
        "last_row": "last row seen",
        "dead_groups": "dead groups",
        "turns": "turns",
    },
}
_REMARKS: Mapping[str, str] = {
    "terminal": "repair a file and submit; every shortcut breaks a rule",
    "notebook": "find the largest of many numbers, through a small window",
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """An arm, and what came out.

    Attributes:
        arm: what was to be trained.
        before: measures after imitation.
        trained: what the run left behind.
    """

    arm: Arm
    before: Measures
    trained: Trained

    @property
    def misses(self) -> list[str]:
        """What is not as expected, in words."""
        after = self.trained.after
        return [
            f"{_COLUMNS[self.arm.task][name]} {after[name]:.2f}, expected {wanted}"
            for name, wanted in self.arm.expected.items()
            if not wanted.holds(after[name])
        ]

    @property
    def reading(self) -> str:
        """What the run shows."""
        return f"Not as expected: {'; '.join(self.misses)}." if self.misses else self.arm.reading


def page(outcomes: Sequence[Outcome], files: Mapping[str, str], *, out: Path, seconds: float) -> None:
    """Print everything.

    Args:
        outcomes: of all arms.
        files: name -> what it is.
        out: the folder that they are in.
        seconds: what it took.
    """
    console = c.console()
    for task in dict.fromkeys(outcome.arm.task for outcome in outcomes):
        console.print()
        _table(console, task, [outcome for outcome in outcomes if outcome.arm.task == task])
    legend = "means per episode before RL → after it; a group is dead when all its rollouts have the same outcome"
    console.print()
    console.print(Padding(Text(legend, style=c.STYLES["faint"]), (0, 0, 0, 2)))
    _ledger(console, {outcome.arm.name: outcome.trained.rollouts for outcome in outcomes})
    console.print(c.heading("files", c.safe(f"{out}/")), soft_wrap=True)
    console.print(
        c.table(["", ""], [[c.safe(name), about] for name, about in files.items()], header=False, flexible=(1,))
    )
    console.print()
    wrong = [outcome.arm.name for outcome in outcomes if outcome.misses]
    verdict = f"not as expected: {', '.join(wrong)}" if wrong else "as expected"
    console.print(
        Text.assemble(
            (verdict, c.STYLES["bad" if wrong else "good"]),
            (f"  {len(outcomes)} runs in {seconds:.0f} s", c.STYLES["faint"]),
        )
    )
    console.print()
    c.print_next(
        console,
        "apportion audit YOUR_ROLLOUTS",
        "apportion score YOUR_ROLLOUTS -r rlvp -p rules=YOUR_RULES.py -o credit.jsonl",
        "apportion recipes rlvp",
    )


def as_json(outcomes: Sequence[Outcome], files: Mapping[str, str], *, out: Path, seconds: float) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "as_expected": not any(outcome.misses for outcome in outcomes),
        "seconds": seconds,
        "out": str(out),
        "files": dict(files),
        "arms": {
            outcome.arm.name: {
                "task": outcome.arm.task,
                "before": dict(outcome.before),
                "after": dict(outcome.trained.after),
                "expected": {name: str(wanted) for name, wanted in outcome.arm.expected.items()},
                "misses": outcome.misses,
                "reading": outcome.reading,
                "history": {name: list(values) for name, values in outcome.trained.history.items()},
                "rollouts": str(outcome.trained.rollouts),
                "credit": str(outcome.trained.credit),
                "seconds": outcome.trained.seconds,
            }
            for outcome in outcomes
        },
    }


def _table(console: Console, task: str, outcomes: Sequence[Outcome]) -> None:
    columns = _COLUMNS[task]
    rows: list[list[c.Cell]] = []
    for outcome in outcomes:
        mark = Text("no", style=c.STYLES["bad"]) if outcome.misses else Text("yes", style=c.STYLES["good"])
        after = outcome.trained.after
        rows.append(
            [
                Text(outcome.arm.name, style="bold"),
                *(Text(f"{_shown(name, outcome.before[name])} → {_shown(name, after[name])}") for name in columns),
                mark,
            ]
        )
        wanted = outcome.arm.expected
        faint = c.STYLES["faint"]
        rows.append(
            [Text("  expected", style=faint), *(Text(str(wanted.get(name, "")), style=faint) for name in columns), ""]
        )
    heads: list[c.Column] = ["", *((head, "right") for head in columns.values()), "holds"]
    console.print(c.heading(task, _REMARKS[task]))
    console.print()
    console.print(c.table(heads, rows))
    console.print()
    readings: list[list[c.Cell]] = [
        [
            Text(outcome.arm.name, style="bold"),
            Text(outcome.reading, style=c.STYLES["warning"] if outcome.misses else ""),
        ]
        for outcome in outcomes
    ]
    console.print(c.table(["", ""], readings, header=False, flexible=(1,)))


def _shown(name: str, value: float) -> str:
    return f"{100 * value:.0f}%" if name == "dead_groups" else f"{value:.1f}" if name == "turns" else f"{value:.2f}"


def _ledger(console: Console, rollouts: Mapping[str, Path]) -> None:
    """Two rollouts of one task, from the last step of two arms, scored as one group."""
    shortcut, honest = _pair(list(read(rollouts["outcome only"])), list(read(rollouts["RLVP"])))
    pair = [replace(t, id=f"terminal/{name}") for t, name in ((shortcut, "outcome only"), (honest, "RLVP"))]
    batch = Batch.pack(pair)
    told = shortcut.columns["reward"] == honest.columns["reward"] == 1 and shortcut.columns["violations"]
    remark = (
        "One task in the last step of both runs. Both passed, so grpo has nothing to say; rlvp tells the shortcut (x) "
        "from the honest way (+)."
    )
    by = [scored(recipe, "", batch, pair) for recipe in (load("grpo"), rlvp())]
    group_page(console, honest.group, remark if told else "", pair, *by)
    console.print()


def _pair(shortcuts: Sequence[Trajectory], honest: Sequence[Trajectory]) -> tuple[Trajectory, Trajectory]:
    """A shortcut and an honest way that both passed, in one group if there are such."""

    def wanted(pair: tuple[Trajectory, Trajectory]) -> int:
        one, other = (t.columns for t in pair)
        return int(2 * (one["reward"] + other["reward"])) + int(one["violations"] > 0) + int(other["violations"] == 0)

    pairs = [(one, other) for one in shortcuts for other in honest if one.group == other.group]
    return max(pairs, key=wanted)
