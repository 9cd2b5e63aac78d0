"""What is wrong with a set of rollouts before it is trained on: data in, dataclass out, one pass.

    trajectories --collect--> table of facts --group_kinds--> groups --findings--> Audit

Which groups are dead, and why, is in `apportion.report.groups`; each check is a function in `checks`, `identity` or
`steps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from apportion.errors import InvalidArgument
from apportion.report.checks import findings
from apportion.report.findings import Finding
from apportion.report.groups import Groups, Kind, group_kinds, within_group_correlation
from apportion.report.table import STATUSES, Floats, Ints, Table, collect
from apportion.rollouts import Trajectory

__all__ = ["Audit", "audit"]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The state of a set of rollouts.

    Attributes:
        rollouts: number of trajectories.
        groups: number of (step, group id) pairs.
        steps: number of different steps, 0 when none is recorded.
        turns: number of turns.
        length_unit: "policy tokens", or "characters" for text-only rollouts.
        length: mean length of a rollout in that unit.
        status: rollouts by status.
        reward_field: where the reward was read.
        reward_known: rollouts with a known reward.
        reward_mean: over the known rewards; None = no data.
        reward_low, reward_high: extremes; None = no data.
        pass_mark: a reward at or above it passes; None = nothing can pass.
        pass_share: passes among the known rewards; None = no data.
        kinds: groups by kind.
        dead_share: share of groups that group-relative credit learns nothing from; None without groups.
        group_size: mean rollouts per group.
        effective_n: mean known rewards per group.
        reward_length_correlation: rank correlation inside the groups in which both vary; None without any.
        breakdown: column -> value -> groups by kind.
        findings: the most severe first.
    """

    rollouts: int
    groups: int
    steps: int
    turns: int
    length_unit: str
    length: float
    status: Mapping[str, int]
    reward_field: str
    reward_known: int
    reward_mean: float | None
    reward_low: float | None
    reward_high: float | None
    pass_mark: float | None
    pass_share: float | None
    kinds: Mapping[Kind, int]
    dead_share: float | None
    group_size: float
    effective_n: float
    reward_length_correlation: float | None
    breakdown: Mapping[str, Mapping[str, Mapping[Kind, int]]]
    findings: Sequence[Finding]


def audit(
    trajectories: Iterable[Trajectory],
    *,
    reward_field: str = "reward",
    pass_mark: float | None = None,
    components: Sequence[str] = (),
    by: str | None = None,
) -> Audit:
    """Everything that `apportion audit` shows.

    Args:
        trajectories: read once and not kept, so a file larger than memory can be streamed through.
        reward_field: the trajectory column that holds the reward.
        pass_mark: the reward that counts as a pass. Default: the largest one seen, if it is positive or others are
            smaller.
        components: numeric columns that are parts of the reward ("scores.format" inside a mapping). Default: those
            whose name contains "reward" or "score".
        by: a text column (or "group prefix") to break the groups down by. Default: every small one that is constant in
            each group, else the prefix of the group ids when there are few.

    Raises:
        InvalidArgument: `by` or a component names a column that cannot be used so; those that can are listed.

    Example:
        >>> rows = [Trajectory(id=f"r{i}", group="q", columns={"reward": r}) for i, r in enumerate([1, 0, None])]
        >>> found = audit(rows)
        >>> found.kinds["mixed"], found.reward_mean, found.effective_n
        (1, 0.5, 2.0)
    """
    table = collect(trajectories, reward_field=reward_field, components=components)
    absent = [name for name in components if name not in table.components]
    if absent and len(table):
        raise InvalidArgument("components", absent, f"numeric columns; the rollouts have {', '.join(table.columns)}")
    rewards = table.reward[table.known]
    mark = default_pass_mark(rewards) if pass_mark is None else pass_mark
    groups = group_kinds(table, pass_mark=mark)
    kinds = groups.counts()
    n = groups.size.size
    return Audit(
        rollouts=len(table),
        groups=n,
        steps=len({step for step, _ in table.groups} - {None}),
        turns=int(table.turns.sum()),
        length_unit=table.unit,
        length=float(table.length.mean()) if len(table) else 0.0,
        status={name: int((table.status == i).sum()) for i, name in enumerate(STATUSES)},
        reward_field=reward_field,
        reward_known=rewards.size,
        reward_mean=float(rewards.mean()) if rewards.size else None,
        reward_low=float(rewards.min()) if rewards.size else None,
        reward_high=float(rewards.max()) if rewards.size else None,
        pass_mark=mark,
        pass_share=float((rewards >= mark).mean()) if rewards.size and mark is not None else None,
        kinds=kinds,
        dead_share=1.0 - kinds["mixed"] / n if n else None,
        group_size=float(groups.size.mean()) if n else 0.0,
        effective_n=float(groups.known.mean()) if n else 0.0,
        reward_length_correlation=within_group_correlation(table),
        breakdown=_breakdown(table, groups, by),
        findings=findings(table, groups, pass_mark=mark),
    )


def default_pass_mark(rewards: Floats) -> float | None:
    """The largest reward, unless nobody passed."""
    if not rewards.size:
        return None
    low, high = float(rewards.min()), float(rewards.max())
    # Rewards that are all 0 (or all negative) say that nobody passed, not that everybody did.
    return high if high > 0 or high > low else None


def _breakdown(table: Table, groups: Groups, by: str | None) -> dict[str, dict[str, dict[Kind, int]]]:
    prefixes = _prefixes(table)
    if by is None:
        usable = {name: column for name in table.categories if (column := _per_group(table, name)) is not None}
        usable = dict(list(usable.items())[:3]) or ({"group prefix": prefixes} if prefixes is not None else {})
    elif by == "group prefix" and prefixes is not None:
        usable = {by: prefixes}
    else:
        column = _per_group(table, by) if by in table.categories else None
        if column is None:
            fits = [name for name in table.categories if _per_group(table, name) is not None]
            raise InvalidArgument(
                "by", by, f"a text column with 2 to 8 values that is constant in each group, here: {fits or 'none'}"
            )
        usable = {by: column}
    return {
        name: {label: groups.counts(index == i) for i, label in enumerate(labels)}
        for name, (labels, index) in usable.items()
    }


def _per_group(table: Table, column: str) -> tuple[Sequence[str], Ints] | None:
    """A category per group, or None when it varies inside a group, is missing somewhere, or is the same everywhere."""
    labels, index = table.categories[column]
    if len(labels) < 2 or bool((index < 0).any()):
        return None
    per_group = np.zeros(len(table.groups), np.int64)
    per_group[table.group] = index
    return (labels, per_group) if bool((per_group[table.group] == index).all()) else None


def _prefixes(table: Table) -> tuple[Sequence[str], Ints] | None:
    """The part of the group ids before the first separator, when few share it and each has several groups."""
    found = [name.replace("_", "-").replace(":", "-").replace("/", "-").partition("-")[0] for _, name in table.groups]
    labels, index = np.unique(np.array(found, dtype=np.str_), return_inverse=True) if found else ((), ())
    if not 2 <= len(labels) <= 8 or np.bincount(index).min() < 2:
        return None
    return [str(label) for label in labels], np.asarray(index, np.int64)
