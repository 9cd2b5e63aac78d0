"""What rules say and turns record about each rollout, as one number per signal: what `probe` compares inside groups."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from apportion.report.table import MAX_COMPONENTS, Floats
from apportion.rewards import Path
from apportion.rollouts import Trajectory

__all__ = ["Role", "Seen"]

# "size" varies almost everywhere and is no reason to prefer a rollout.
Role: TypeAlias = Literal["credit", "penalty", "rule", "partial", "size"]


@dataclass(eq=False)
class Seen:
    """What rules say and turns record, summed over each rollout; a value per rollout and signal, NaN = none."""

    columns: Sequence[str]
    rules: Path | None
    numeric: dict[str, None] = field(default_factory=dict)
    turn_columns: dict[str, None] = field(default_factory=dict)
    _parts: dict[tuple[str, Role], tuple[array[int], array[float]]] = field(default_factory=dict)
    _count: int = 0

    def add(self, trajectory: Trajectory) -> None:
        """Note one rollout."""
        if self.rules is not None:
            self._judge(self.rules, trajectory)
        sums: dict[str, float] = {}
        for turn in trajectory.turns:
            if turn.reward is not None:
                sums["turn rewards"] = sums.get("turn rewards", 0.0) + float(turn.reward)
            for name, value in turn.columns.items():
                if isinstance(value, (int, float)) and self._wanted(name):
                    self.turn_columns.setdefault(name)
                    sums[f"turns' {name}"] = sums.get(f"turns' {name}", 0.0) + float(value)
        for name, total in sums.items():
            self._note(name, "partial", total)
        for name, value in trajectory.columns.items():
            if isinstance(value, (int, float)) and len(self.numeric) < MAX_COMPONENTS:
                self.numeric.setdefault(name)
        self._count += 1

    def signals(self, count: int) -> Iterator[tuple[str, Role, Floats]]:
        """Every signal with a value per rollout."""
        for (name, role), (rows, values) in self._parts.items():
            full = np.full(count, np.nan)
            full[list(rows)] = list(values)
            yield name, role, full

    def _wanted(self, name: str) -> bool:
        if self.columns:
            return name in self.columns
        return name in self.turn_columns or len(self.turn_columns) < MAX_COMPONENTS

    def _judge(self, rules: Path, trajectory: Trajectory) -> None:
        rules.require([trajectory])
        net = dict.fromkeys((rule.name for rule in rules.rules), 0.0)
        counts = {"fulfilment": 0, "violation": 0, "abstention": 0}
        for finding in (finding for turn in rules.findings(trajectory) for finding in turn):
            net[finding.rule] += finding.value
            counts[finding.kind] += 1
        self._note("fulfilments", "credit", counts["fulfilment"])
        self._note("violations", "penalty", counts["violation"])
        for name, value in net.items():
            self._note(f"rule {name}", "rule", value)

    def _note(self, name: str, role: Role, value: float) -> None:
        rows, values = self._parts.setdefault((name, role), (array("q"), array("d")))
        rows.append(self._count)
        values.append(value)
