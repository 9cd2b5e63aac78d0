"""Steps in which every attempt failed, each with the likely reason."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from apportion.report.findings import Finding
from apportion.report.table import STATUSES, Bools, Table

__all__ = ["failed_steps"]

_MOSTLY = 0.8
_UNLIKELY = 0.01


def failed_steps(table: Table, *, pass_mark: float | None) -> Iterator[Finding]:
    """One finding per step whose rollouts all failed, in the order of the file.

    The reason is the first that holds: aborted, nothing recorded, no verdict, cut off; then, where other steps pass,
    how likely it is that all groups of this one are hard. For that every group counts as one draw, since the attempts
    at one prompt fail together. With f of the m groups elsewhere all failed,

        chance = ((f + 1) / (m + 2)) ^ (groups of this step)
    """
    numbers = {step: i for i, step in enumerate(dict.fromkeys(step for step, _ in table.groups))}
    step_of_group = np.array([numbers[step] for step, _ in table.groups], np.int64)
    step = step_of_group[table.group] if len(table) else table.group
    passed = table.known & (table.reward >= (np.inf if pass_mark is None else pass_mark))
    lucky = np.bincount(table.group, passed, len(table.groups)) > 0
    for name, number in numbers.items():
        here = step == number
        # A file of one step that merely has no pass or no reward is what other checks report.
        if (passed & here).any() or (len(numbers) == 1 and (not table.known.any() or not _technical(table, here))):
            continue
        elsewhere = step_of_group != number
        severity, reason = "error", _technical(table, here)
        if not reason:
            chance = ((~lucky[elsewhere]).sum() + 1) / (elsewhere.sum() + 2)
            chance = float(chance ** (~elsewhere).sum())
            rate = f"{passed[~here].mean():.0%} of the attempts at other steps pass"
            if chance < _UNLIKELY:
                reason = f"the verifier or the environment probably broke: {rate}; chance of that {chance:.1g}"
            else:
                severity, reason = "info", f"hard prompts: {rate}; chance of that {chance:.2g}"
        where = "of the file" if name is None else f"of step {name}"
        yield Finding(
            code="all-failed",
            severity="info" if severity == "info" else "error",
            message=f"every rollout {where} failed ({int(here.sum())}); {reason}",
            count=int(here.sum()),
            examples=table.examples(here),
            advice="look at the examples before this step is trained on"
            if severity == "error"
            else "no group-relative credit comes from this step",
        )


def _technical(table: Table, here: Bools) -> str:
    """A reason that is visible in the rollouts themselves, or ""."""
    n = int(here.sum())
    aborted = here & (table.status == STATUSES.index("aborted"))
    truncated = here & (table.status == STATUSES.index("truncated"))
    missing = here & ~table.known & ~aborted
    empty = here & (table.turns == 0)
    shares = (
        (aborted, "aborted by the infrastructure"),
        (empty, "without a single turn"),
        (missing, "without a verdict"),
        (truncated, "cut off by a length or turn limit"),
    )
    for which, what in shares:
        count = int(which.sum())
        if count >= _MOSTLY * n:
            return f"likely reason: {'all' if count == n else f'{count} of them'} {what}"
    return ""
