"""Which signals tell the rollouts of a dead group apart, from a handful of rollouts of the base policy.

    reachable(s) = (dead groups in which s varies) / (dead groups with two known values of s)

A group is dead when its known outcomes are equal: credit that is relative to the group is 0 there. A signal with
Var_G(s) > 0 brings it back; one that never varies cannot, whatever its weight. The samples are few, so every share has
its 95 % interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import betaincinv

from apportion.errors import InvalidArgument
from apportion.report.diagnostics import default_pass_mark
from apportion.report.groups import CONSTANT_TOL, KINDS, Groups, Kind, group_kinds, rank_correlation
from apportion.report.probe_signals import Role, Seen
from apportion.report.table import STATUSES, Bools, Floats, Rows, Table
from apportion.rewards import Path
from apportion.rollouts import Trajectory

__all__ = ["Probe", "Probed", "Task", "interval", "probe"]

Advice: TypeAlias = Literal["use", "likely", "unclear", "rare", "not reachable", "no data", "exempt", "size only"]

_DEAD: tuple[Kind, ...] = ("all-fail", "all-pass", "constant")


@dataclass(frozen=True, kw_only=True)
class Probed:
    """One signal over the dead groups.

    Attributes:
        name: what it is called.
        role: "credit" and "penalty" of rules in total, "rule" for one rule's net value, "partial" for what the
            rollouts record, "size" for turns and length.
        data: dead groups in which at least two rollouts have a value.
        varies: of these, the ones in which it varies.
        share, low, high: varies / data and its 95 % interval; None without data.
        correlation: rank correlation with the outcome inside the groups in which both vary; None without any.
        advice: "use" where the whole interval is at or above the gate, "likely" where the share is, "unclear" where
            only the interval's end is, "rare" below it; "not reachable" where it varies nowhere. A penalty is "exempt"
            from the gate, and "size only" is never a reason.
    """

    name: str
    role: Role
    data: int
    varies: int
    share: float | None
    low: float | None
    high: float | None
    correlation: float | None
    advice: Advice


@dataclass(frozen=True, kw_only=True)
class Task:
    """One dead group: its step, its name, its kind, and which signals vary in it (never turns and length)."""

    step: int | None
    group: str
    kind: Kind
    restored_by: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What `apportion probe` shows.

    Attributes:
        rollouts, groups: how many.
        kinds: groups by kind; those with fewer than two known outcomes are neither dead nor alive here.
        dead: groups whose known outcomes are equal.
        restored: dead groups in which some signal other than turns and length varies.
        signals: each signal, the most reachable first; turns and length last.
        tasks: the dead groups, the unreachable ones first.
        gate: the share from which on a signal is worth its place.
        unprobed: numeric columns that were not looked at.
    """

    rollouts: int
    groups: int
    kinds: dict[Kind, int]
    dead: int
    restored: int
    signals: tuple[Probed, ...]
    tasks: tuple[Task, ...]
    gate: float
    unprobed: tuple[str, ...]


def probe(
    trajectories: Iterable[Trajectory],
    *,
    reward_field: str = "reward",
    columns: Sequence[str] = (),
    rules: Path | None = None,
    gate: float = 0.2,
) -> Probe:
    """Which signals vary in the groups whose outcome does not.

    Args:
        trajectories: of the policy that training starts from; read once and not kept. Aborted ones count for nothing.
        reward_field: the trajectory column with the outcome.
        columns: trajectory columns ("scores.format" inside a mapping) and turn columns, summed over the turns.
            Default: trajectory columns whose name contains "reward" or "score", and every numeric turn column.
        rules: their fulfilments and violations are signals, and each rule's net value.
        gate: share of dead groups, in [0, 1].

    Degenerate cases: without a dead group every signal has no data; a group in which a signal has fewer than two known
    values says nothing about it.

    Raises:
        InvalidArgument: a gate outside [0, 1], a column that is nowhere; those that exist are listed.
        MissingInput: rules, and rollouts without a table of turns.

    Example:
        >>> from apportion.rewards import Rule, called, path
        >>> from apportion.rollouts import Action, Turn
        >>> def attempt(name, *calls):
        ...     turns = [Turn(actions=(Action(call),)) for call in calls]
        ...     return Trajectory(id=name, group="q", turns=turns, columns={"reward": 0.0})
        >>> look_first = path([Rule(name="r", fulfils=called("look"))])
        >>> found = probe([attempt("a", "look"), attempt("b", "guess")], rules=look_first)
        >>> [(signal.name, signal.varies, signal.advice) for signal in found.signals[:2]]
        [('fulfilments', 1, 'likely'), ('rule r', 1, 'likely')]
        >>> found.tasks[0].restored_by
        ('fulfilments', 'rule r')

    Source: the gate Var_G(Phi) > 0 is of arXiv 2607.07435, which exempts penalties from it; its threshold, the interval
    and the words are our reconstruction.
    """
    if not 0 <= gate <= 1:
        raise InvalidArgument("gate", gate, "a share in [0, 1]")
    rows, seen = Rows(reward_field=reward_field, components=tuple(columns)), Seen(columns, rules)
    for trajectory in trajectories:
        rows.add(trajectory)
        seen.add(trajectory)
    table = rows.table()
    absent = [name for name in columns if name not in table.components and name not in seen.turn_columns]
    if absent and len(table):
        has = ", ".join([*table.columns, *seen.turn_columns]) or "none"
        raise InvalidArgument("columns", absent, f"numeric columns of the rollouts or their turns; there are {has}")
    groups = group_kinds(table, pass_mark=default_pass_mark(table.reward[table.known]))
    dead = np.isin(groups.kind, [KINDS.index(kind) for kind in _DEAD])
    signals, restores = [], []
    for name, role, values in (*seen.signals(len(table)), *_recorded(table)):
        usable = np.isfinite(values) & (table.status != STATUSES.index("aborted"))
        known, varies = _spread(table, values, usable)
        signals.append(_probed(name, role, known & dead, varies & dead, gate, _agreement(table, values, usable)))
        restores.append(varies & dead)
    order = sorted(range(len(signals)), key=lambda at: (signals[at].role == "size", -(signals[at].share or 0.0), at))
    reasons = [(signals[at].name, restores[at]) for at in order if signals[at].role != "size"]
    restored = np.any([where for _, where in reasons], axis=0) if reasons else np.zeros(dead.size, np.bool_)
    return Probe(
        rollouts=len(table),
        groups=dead.size,
        kinds=groups.counts(),
        dead=int(dead.sum()),
        restored=int(restored.sum()),
        signals=tuple(signals[at] for at in order),
        tasks=_tasks(table, groups, dead, reasons),
        gate=gate,
        unprobed=tuple(name for name in seen.numeric if name != reward_field and name not in table.components),
    )


def interval(count: int, of: int) -> tuple[float, float]:
    """The exact 95 % interval of a share (Clopper and Pearson's), which holds for one sample as well as for many.

    Example:
        >>> [round(bound, 3) for bound in interval(0, 10)], [round(bound, 3) for bound in interval(1, 1)]
        ([0.0, 0.308], [0.025, 1.0])
    """
    low = float(betaincinv(count, of - count + 1, 0.025)) if count else 0.0
    high = float(betaincinv(count + 1, of - count, 0.975)) if count < of else 1.0
    return low, high


def _probed(name: str, role: Role, known: Bools, varies: Bools, gate: float, correlation: float | None) -> Probed:
    data, count = int(known.sum()), int(varies.sum())
    if not data:
        share = low = high = None
    else:
        share = count / data
        low, high = interval(count, data)
    return Probed(
        name=name,
        role=role,
        data=data,
        varies=count,
        share=share,
        low=low,
        high=high,
        correlation=correlation,
        advice=_advice(role, share, low, high, gate),
    )


def _advice(role: Role, share: float | None, low: float | None, high: float | None, gate: float) -> Advice:
    if share is None or low is None or high is None:
        return "no data"
    if role == "size":
        return "size only"
    if share == 0:
        return "not reachable"
    if role == "penalty":
        return "exempt"
    return "use" if low >= gate else "likely" if share >= gate else "unclear" if high >= gate else "rare"


def _spread(table: Table, values: Floats, usable: Bools) -> tuple[Bools, Bools]:
    """By group: whether two rollouts have a value, and whether the values differ."""
    n = len(table.groups)
    owner, seen = table.group[usable], values[usable]
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, owner, seen)
    np.maximum.at(high, owner, seen)
    known: Bools = np.bincount(owner, minlength=n) > 1
    low, high = np.where(known, low, 0.0), np.where(known, high, 0.0)
    varies: Bools = high - low > CONSTANT_TOL * np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))
    return known, varies


def _agreement(table: Table, values: Floats, usable: Bools) -> float | None:
    both = usable & table.known
    return rank_correlation(table.group[both], table.reward[both], values[both])


def _recorded(table: Table) -> Iterator[tuple[str, Role, Floats]]:
    for name, (values, known) in table.components.items():
        yield name, "partial", np.where(known, values, np.nan)
    yield "turns", "size", table.turns.astype(np.float64)
    yield table.unit, "size", table.length.astype(np.float64)


def _tasks(table: Table, groups: Groups, dead: Bools, reasons: Sequence[tuple[str, Bools]]) -> tuple[Task, ...]:
    found = [
        Task(
            step=table.groups[at][0],
            group=table.groups[at][1],
            kind=KINDS[groups.kind[at]],
            restored_by=tuple(name for name, where in reasons if where[at]),
        )
        for at in np.flatnonzero(dead).tolist()
    ]
    return tuple(sorted(found, key=lambda task: len(task.restored_by) > 0))
