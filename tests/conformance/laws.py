"""The laws about groups and rewards, one function each. `token_laws` has those about tokens, types and gradients.

A law raises `AssertionError` when a row breaks it on a case. It gets a `Random` for its choices (which permutation,
which group), so the same seed gives the same verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import torch
from torch import Tensor

from apportion.rollouts import Level
from apportion.signal import Signal
from tests.conformance import moves
from tests.conformance.law import close, law, same
from tests.conformance.row import Row
from tests.conformance.strategies import ABSENT, AWKWARD, FAILED, KNOWN, Case


def _numeric(row: Row) -> bool:
    return row.domain != "binary"


def _per_trajectory(row: Row) -> bool:
    return all(level == Level.TRAJECTORY for level in row.levels)


# ------------------------------------------------------------------------------------------------------- structure


@law()
def permutation(row: Row, case: Case, random: Random) -> None:
    """Reordering the rollouts reorders the advantages, be the groups contiguous or interleaved."""
    before = row.of(case)
    shuffled = random.sample(range(len(case.batch)), len(case.batch))
    grouped = torch.argsort(case.batch.group, stable=True).tolist()
    for order in (shuffled, grouped):
        at = moves.elements(case.batch, before.level, order)
        same(row.of(moves.select(case, order)), before.values[at], before.known[at], f"after reordering {order}")


@law()
def relabelling(row: Row, case: Case, random: Random) -> None:
    """Names and numbers of groups mean nothing; only who shares one does."""
    before = row.of(case)
    size = len(case.batch.group_ids)
    after = row.of(moves.renamed(case, random.sample(range(size), size)))
    same(after, before.values, before.known, "after renaming the groups")


@law()
def isolation(row: Row, case: Case, random: Random) -> None:
    """A group's advantages are what they would be without the other groups."""
    whole = row.of(case)
    for group in range(len(case.batch.group_ids)):
        rows = moves.members(case.batch, group)
        at = moves.elements(case.batch, whole.level, rows)
        same(row.of(moves.select(case, rows)), whole.values[at], whole.known[at], f"group {group} alone")


@law(applies=_per_trajectory)
def turn_splitting(row: Row, case: Case, random: Random) -> None:
    """Cutting a rollout into more turns changes nothing where rewards are per rollout."""
    before = row.of(case)
    same(row.of(moves.retold(case)), before.values, before.known, "after cutting turns")


# --------------------------------------------------------------------------------------------------------- rewards


@law(applies=_numeric)
def shift_group(row: Row, case: Case, random: Random) -> None:
    """Adding a constant to all rewards of one group changes nothing."""
    group, amount = random.randrange(len(case.batch.group_ids)), random.choice([0.5, 2.0, 7.75])
    moved = moves.refilled(case, row.movable, lambda x: x.values + amount * moves.inside(x, group))
    before = row.of(case)
    same(row.of(moved), before.values, before.known, f"after adding {amount} to group {group}")


@law(applies=_numeric)
def shift_batch(row: Row, case: Case, random: Random) -> None:
    """Adding a constant to all rewards of the batch changes nothing."""
    amount = random.choice([0.5, 2.0, 7.75])
    before = row.of(case)
    after = row.of(moves.refilled(case, row.movable, lambda x: x.values + amount))
    same(after, before.values, before.known, f"after adding {amount} to the batch")


@law(applies=_numeric)
def scale(row: Row, case: Case, random: Random) -> None:
    """Multiplying all rewards multiplies the advantages, or leaves them, as the row declares."""
    factor = random.choice([0.5, 4.0])
    before = row.of(case)
    after = row.of(moves.refilled(case, row.movable, lambda x: x.values * factor))
    same(after, before.values * factor**row.degree, before.known, f"after multiplying by {factor}")


@law()
def constant_group(row: Row, case: Case, random: Random) -> None:
    """A group whose known rewards are all equal gets exactly 0, whatever their size and float type."""
    group = random.randrange(len(case.batch.group_ids))
    out = row.of(_levelled(row, case, random, lambda x: moves.inside(x, group)))
    values = out.values[moves.inside(out, group)]
    assert not values.count_nonzero(), f"a constant group is not 0: {values.tolist()}"


@law()
def constant_batch(row: Row, case: Case, random: Random) -> None:
    """A batch whose known rewards are all equal gets exactly 0."""
    out = row.of(_levelled(row, case, random, lambda x: torch.ones_like(x.known)))
    assert not out.values.count_nonzero(), f"a constant batch is not 0: {out.values.tolist()}"


def _levelled(row: Row, case: Case, random: Random, where: Callable[[Signal], Tensor]) -> Case:
    fits = {"real": lambda v: True, "nonnegative": lambda v: v >= 0, "binary": lambda v: v in (0.0, 1.0)}[row.domain]
    dtypes = [torch.float64] if row.floats_only else [torch.float64, torch.float32, torch.bfloat16]
    value, dtype = random.choice([v for v in AWKWARD if fits(v)]), random.choice(dtypes)
    level = float(torch.tensor(value, dtype=dtype))
    constant = moves.refilled(case, range(len(case.signals)), lambda x: x.values.masked_fill(where(x), level))
    return moves.cast(constant, dtype)


@law()
def singleton(row: Row, case: Case, random: Random) -> None:
    """The only known reward of a group gets what the row declares: exactly 0, or itself."""
    lone = random.choice(moves.members(case.batch, random.randrange(len(case.batch.group_ids))))
    group = int(case.batch.group[lone])
    value, gone = random.choice([1.0] if row.domain == "binary" else [0.75, 3.0]), random.choice([ABSENT, FAILED])
    signals = []
    for k, x in enumerate(case.signals):
        first = moves.elements(case.batch, x.level, [lone])[:1]
        presence = x.presence.masked_fill(moves.inside(x, group), gone)
        presence[first] = KNOWN
        values = x.values.clone()
        values[first] = value + k / 4
        signals.append(moves.remake(x, case.batch, values, presence))
    alone = Case(case.batch, tuple(signals))
    out = row.of(alone)
    inside = moves.inside(out, group)
    if row.singleton == "zero":
        assert not out.values[inside].count_nonzero(), f"a singleton is not 0: {out.values[inside].tolist()}"
    else:
        raw = alone.signals[0].spread(out.level).values
        close(out.values[inside], raw[inside], "a singleton is not its raw reward", 0.0)


@law()
def missing(row: Row, case: Case, random: Random) -> None:
    """Missing rollouts leave before any statistic, failed and absent alike, and come back as exactly 0, not known."""
    size = len(case.batch)
    gone = sorted(random.sample(range(size), random.randint(1, max(1, size - 1))))
    rest = [i for i in range(size) if i not in gone]
    absent, failed = (row.of(moves.marked(case, gone, state)) for state in (ABSENT, FAILED))
    assert torch.equal(absent.values, failed.values), "failed and absent rollouts differ"
    assert torch.equal(absent.known, failed.known), "failed and absent rollouts differ in what is known"
    at = moves.elements(case.batch, absent.level, gone)
    assert not absent.values[at].count_nonzero(), f"missing rollouts {gone} have credit {absent.values[at].tolist()}"
    assert not absent.known[at].any(), f"missing rollouts {gone} are known"
    if rest:
        alone, at = row.of(moves.select(case, rest)), moves.elements(case.batch, absent.level, rest)
        same(alone, absent.values[at], absent.known[at], f"missing rollouts {gone} move the others")
