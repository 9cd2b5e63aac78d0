"""How the benchmarks of this folder measure: side by side in one process, round robin, medians."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

# Threads that wait for each other count as CPU time of whatever is measured. Read when torch starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

RESULTS = Path(__file__).with_name("results")


@dataclass(frozen=True)
class Time:
    """Medians in milliseconds, of the CPU time of the whole process and of the clock."""

    cpu: float
    wall: float


def side_by_side(
    functions: Mapping[str, Callable[[], object]], *, rounds: int = 15, slow: Mapping[str, int] | None = None
) -> dict[str, Time]:
    """Medians of each function; all of them run once per round, so a noisy moment hits all alike.

    Args:
        functions: by name.
        rounds: how often; one more round before them is not counted.
        slow: how often those that take long run instead.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in functions}
    for turn in range(-1, rounds):
        for name, function in functions.items():
            if slow and turn >= slow.get(name, rounds):
                continue
            cpu, wall = time.process_time(), time.perf_counter()
            function()
            if turn >= 0:
                found[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    return {n: Time(*(1e3 * median(column) for column in zip(*runs, strict=True))) for n, runs in found.items()}


@dataclass
class Table:
    """One table of the report."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    targets: list[dict[str, str]] = field(default_factory=list)

    def target(self, what: str, measured: float, limit: float, *, at: str, why: str = "") -> bool:
        """Note a target; `at` is "most" or "least". `why` explains a miss."""
        met = measured <= limit if at == "most" else measured >= limit
        shown = {"target": what, "measured": f"{measured:.3g}", "met": "yes" if met else "no"}
        self.targets.append({**shown, "why": "" if met else why})
        return met

    def save(self, name: str) -> None:
        """Write the table, and print it."""
        RESULTS.mkdir(exist_ok=True)
        content = {"title": self.title, "machine": machine(), "columns": list(self.columns), "rows": self.rows}
        content |= {"notes": self.notes, "targets": self.targets}
        (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"\n{self.title}")
        for row in [self.columns, *self.rows]:
            print("  " + " | ".join(str(cell) for cell in row))
        for one in self.targets:
            print(f"  {'met   ' if one['met'] == 'yes' else 'MISSED'} {one['target']}: {one['measured']}")


def machine() -> dict[str, Any]:
    """What it ran on: no more than the numbers need."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model n")]
        model = names[0] if names else model
    return {"cpu": model, "torch": torch.__version__, "threads": torch.get_num_threads()}


def load_note() -> str:
    """How busy the machine was."""
    return f"load average when it ended: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
