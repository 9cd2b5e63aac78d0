"""`apportion demo --score-only`: the rollouts that the package ships, scored by two recipes and audited."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from apportion.batch import Batch
from apportion.cli import _console as c
from apportion.cli._ledger import group_page, opening, scored
from apportion.cli.audit import show
from apportion.cli.demo_rollouts import ROLLOUTS
from apportion.integrations.files import read
from apportion.recipes import load
from apportion.report import diagnostics

__all__ = ["RULES", "tour"]

RULES = Path(__file__).with_name("demo_rules.py")

_SHOWN: Mapping[str, str] = {
    "old-logs": "/0 and /1 both passed: grpo credits all their turns alike, rlvp tells careful deletions (+) from "
    "careless ones (x).",
    "temp-files": "All four failed: grpo has nothing to say, rlvp still knows that /1 made a copy and /0 did harm.",
}


def tour(groups: Sequence[str]) -> None:
    """Print the ledgers of some groups, and the audit.

    Args:
        groups: names; default two that show something.
    """
    started = time.perf_counter()
    console = c.console()
    trajectories = list(read(ROLLOUTS))
    batch = Batch.pack(trajectories)
    grpo = scored(load("grpo"), "as they are", batch, trajectories)
    rlvp = scored(load("rlvp", variant="c2", rules=str(RULES)), f"variant=c2, {RULES.name}", batch, trajectories)
    opening(console, [grpo, rlvp])
    for name in groups or _SHOWN:
        group_page(console, name, _SHOWN.get(name, ""), trajectories, grpo, rlvp)
    console.print()
    show(diagnostics.audit(trajectories), ROLLOUTS.name)
    seconds = time.perf_counter() - started
    console.print(f"scored and audited in {seconds:.2f} s: {ROLLOUTS}", style=c.STYLES["faint"], soft_wrap=True)
    console.print()
    c.print_next(
        console,
        "apportion audit YOUR_ROLLOUTS",
        "apportion score YOUR_ROLLOUTS --recipe grpo --out credit.jsonl",
        "apportion recipes rlvp",
    )
