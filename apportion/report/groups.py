"""What group-relative credit can learn from each group.

    group      rewards            what group-relative credit can learn from it
    mixed      0 1 0 1            something
    all-fail   0 0 0 0            nothing: every estimator that centres gives exact zeros
    all-pass   1 1 1 1            nothing
    constant   0.4 0.4 0.4        nothing, and neither a pass nor a fail
    singleton  1                  nothing: no second known reward to compare with
    unknown    - - -              nothing: no reward at all

All but mixed groups are "dead". Whether a group is dead depends on its known rewards alone (largest - smallest <= 1e-9
relative), never on the statistic that some estimator would scale by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from apportion.report.table import Bools, Floats, Ints, Table

__all__ = ["KINDS", "Groups", "Kind", "constant", "group_kinds", "within_group_correlation"]

Kind: TypeAlias = Literal["mixed", "all-pass", "all-fail", "constant", "singleton", "unknown"]
KINDS: tuple[Kind, ...] = get_args(Kind)

CONSTANT_TOL = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Groups:
    """Statistics of g groups over their known rewards.

    Attributes:
        size: rollouts of each group.
        known: rollouts with a known reward, the group's effective n.
        low, high: extremes of the known rewards; 0 where there are none.
        kind: index into `KINDS`.
    """

    size: Ints
    known: Ints
    low: Floats
    high: Floats
    kind: Ints

    def are(self, kind: Kind) -> Bools:
        """Which groups are of a kind."""
        chosen: Bools = self.kind == KINDS.index(kind)
        return chosen

    def counts(self, where: Bools | None = None) -> dict[Kind, int]:
        """Number of groups of each kind, all kinds listed."""
        chosen = self.kind if where is None else self.kind[where]
        found = np.bincount(chosen, minlength=len(KINDS)).tolist()
        return dict(zip(KINDS, found, strict=True))


def constant(values: Floats) -> bool:
    """True when the values are equal up to the tolerance; one value or none is constant."""
    largest = float(np.abs(values).max(initial=0.0))
    return not values.size or float(np.ptp(values)) <= CONSTANT_TOL * max(1.0, largest)


def group_kinds(table: Table, *, pass_mark: float | None) -> Groups:
    """Classify every group by its known rewards alone."""
    n = len(table.groups)
    owner, rewards = table.group[table.known], table.reward[table.known]
    size, known = np.bincount(table.group, minlength=n), np.bincount(owner, minlength=n)
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, owner, rewards)
    np.maximum.at(high, owner, rewards)
    low, high = np.where(known > 0, low, 0.0), np.where(known > 0, high, 0.0)
    flat = high - low <= CONSTANT_TOL * np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))
    passes = high >= pass_mark if pass_mark is not None else np.zeros(n, np.bool_)
    floor = rewards.min() if rewards.size else 0.0
    kind = np.select(
        [known == 0, known == 1, ~flat, passes, low <= floor],
        [KINDS.index(k) for k in ("unknown", "singleton", "mixed", "all-pass", "all-fail")],
        KINDS.index("constant"),
    )
    return Groups(size=size, known=known, low=low, high=high, kind=kind)


def within_group_correlation(table: Table) -> float | None:
    """Pearson correlation of reward and length, both centred in their group; None where either is constant."""
    owner, reward = table.group[table.known], table.reward[table.known]
    length = table.length[table.known].astype(np.float64)
    count = np.maximum(np.bincount(owner, minlength=len(table.groups)), 1)

    def centred(values: Floats) -> Floats:
        return values - (np.bincount(owner, values, len(table.groups)) / count)[owner]

    a, b = centred(reward), centred(length)
    if any(
        np.abs(x).max(initial=0.0) <= CONSTANT_TOL * max(1.0, np.abs(y).max(initial=0.0))
        for x, y in ((a, reward), (b, length))
    ):
        return None
    return float((a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum()))
