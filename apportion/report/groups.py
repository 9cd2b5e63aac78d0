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

__all__ = ["KINDS", "Groups", "Kind", "constant", "group_kinds", "rank_correlation", "within_group_correlation"]

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
    """Rank correlation of reward and length over the groups in which both vary; None when there is none.

    Spearman's, from the average ranks of each group, centred and divided by its size: one rollout of a million tokens
    weighs no more than it should, and neither does one large group.
    """
    known = table.known
    return rank_correlation(table.group[known], table.reward[known], table.length[known].astype(np.float64))


def rank_correlation(owner: Ints, one: Floats, other: Floats) -> float | None:
    """Rank correlation of two values inside the groups in which both vary; `owner` is the group of each."""
    a, b = _centred_ranks(owner, one), _centred_ranks(owner, other)
    vary = np.bincount(owner, a != 0) * np.bincount(owner, b != 0) > 0
    a, b = a[vary[owner]], b[vary[owner]]
    return float((a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum())) if a.size else None


def _centred_ranks(owner: Ints, values: Floats) -> Floats:
    """The average rank of every value in its group, from -1/2 to 1/2; exactly 0 in a group without differences."""
    order = np.lexsort((values, owner))
    group, ordered = owner[order], values[order]
    new = np.ones(values.size, np.bool_)
    new[1:] = group[1:] != group[:-1]
    tie = new.copy()
    # Equal up to rounding is equal, as for dead groups.
    tie[1:] |= np.abs(np.diff(ordered)) > CONSTANT_TOL * np.maximum(1.0, np.abs(ordered[1:]))
    run = np.cumsum(tie) - 1
    position = np.arange(values.size, dtype=np.float64)
    average = np.bincount(run, position) / np.maximum(np.bincount(run), 1)
    count = np.bincount(owner)[group]
    first = position[new][np.cumsum(new) - 1] if values.size else position
    ranks = np.empty(values.size)
    ranks[order] = (average[run] - first - (count - 1) / 2) / count
    return ranks
