"""The laws about tokens, padded tensors, the ledger, float types and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from random import Random
from typing import Literal

import torch
from torch import Tensor

from apportion.advantages import padded_advantages
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.conformance import moves
from tests.conformance.law import close, law
from tests.conformance.row import Row
from tests.conformance.strategies import ABSENT, Case, plain


def _door(row: Row) -> bool:
    return row.door


def _tensors(row: Row) -> bool:
    return not row.floats_only


def _textual(row: Row) -> bool:
    return Level.TOKEN not in row.levels


# ------------------------------------------------------------------------------------------------------------ tokens


@law()
def own_tokens(row: Row, case: Case, random: Random) -> None:
    """In a recipe, tokens that the current policy did not sample get exactly 0 and leave the loss."""
    own = torch.tensor([random.random() < 0.5 for _ in range(case.batch.n_tokens)], dtype=torch.bool)
    out = row.credit(moves.on(case, replace(case.batch, own=own)))
    assert not out.values[~own].count_nonzero(), f"credit on tokens of others: {out.values[~own].tolist()}"
    assert not out.known[~own].any(), "tokens of others are in the loss"


@law(applies=_door)
def observation_tokens(row: Row, case: Case, random: Random) -> None:
    """At the padded door observation tokens get exactly 0, and the others what the packed form gives."""
    packed = _as_at_the_door(case)
    made = row.of(packed).spread(Level.TOKEN)
    mask, rewards, groups = _padded(packed)
    out = _through_the_door(row, rewards, mask, groups)
    assert not out[mask == 0].count_nonzero(), f"credit on observation tokens: {out.tolist()}"
    close(out, packed.batch.pad(made.values), "padded and packed forms differ")


@law(applies=_door)
def padding(row: Row, case: Case, random: Random) -> None:
    """Padding columns, padding rows in any group and the type of the mask change nothing."""
    mask, rewards, groups = _padded(_as_at_the_door(case))
    before = _through_the_door(row, rewards, mask, groups)
    extra_rows, extra_columns = random.randint(0, 3), random.randint(0, 3)
    rows, columns = mask.shape
    wide_mask = torch.nn.functional.pad(mask, (0, extra_columns, 0, extra_rows))
    wide_rewards = torch.nn.functional.pad(rewards, (0, extra_columns, 0, extra_rows)[-2 * rewards.ndim :], value=1.0)
    if rewards.ndim == 2:
        wide_rewards[:rows, columns:] = 0.0
    wide_groups = [*groups, *(random.choice([groups[0], "padding"]) for _ in range(extra_rows))]
    for dtype in (torch.int64, torch.bool, torch.float32):
        wide = _through_the_door(row, wide_rewards, wide_mask.to(dtype), wide_groups)
        close(wide[:rows, :columns], before, f"padding or a {dtype} mask changes the advantages")
        assert not wide[wide_mask == 0].count_nonzero(), f"credit on padding: {wide.tolist()}"


def _through_the_door(row: Row, rewards: Tensor, mask: Tensor, groups: Sequence[object]) -> Tensor:
    level: Literal["token", "trajectory"] = "token" if row.levels[0] == Level.TOKEN else "trajectory"
    return padded_advantages(lambda x: row.run([x]), rewards, mask, groups, level=level, dtype=torch.float64)


def _as_at_the_door(case: Case) -> Case:
    """There a missing reward is a NaN, so absent, and a row without policy tokens cannot be scored."""
    (x,) = case.signals
    absent = moves.remake(x, case.batch, presence=x.presence.clamp_min(ABSENT))
    empty = torch.nonzero(case.batch.tokens_per_trajectory == 0).flatten().tolist()
    return moves.marked(Case(case.batch, (absent,)), empty, ABSENT)


def _padded(case: Case) -> tuple[Tensor, Tensor, Sequence[object]]:
    (x,), b = case.signals, case.batch
    mask = b.pad(torch.ones(b.n_tokens, dtype=torch.int64), fill=0)
    values = torch.where(x.known, x.values, torch.nan)
    rewards = b.pad(values) if x.level == Level.TOKEN else values
    return mask, rewards, [b.group_ids[g] for g in b.group.tolist()]


@law(applies=_textual)
def text_only(row: Row, case: Case, random: Random) -> None:
    """Text-only rollouts get what their rewards would get on tokens, or are refused with the reason."""
    refusal = ""
    try:
        out = row.of(moves.without_tokens(case))
    except InvalidArgument as error:
        refusal = str(error)
    assert bool(refusal) == (row.text == "refused"), f"text-only rollouts: {refusal or 'not refused'}"
    if refusal:
        assert "text" in refusal, f"text-only rollouts are refused without the reason: {refusal}"
        return
    assert bool(torch.isfinite(out.values).all()), f"text-only rollouts get {out.values.tolist()}"
    tokens = row.of(case)
    # Nobody knows of a text in which turn the policy wrote nothing, and on tokens such turns are in no statistic.
    silent = Level.TURN in (*row.levels, out.level) and bool((case.batch.tokens == 0).any())
    if tokens.level == out.level and not silent:
        close(out.values, tokens.values, "text-only rollouts get something else")


# ------------------------------------------------------------------------------------------------- ledger and floats


@law(values="wild")
def ledger(row: Row, case: Case, random: Random) -> None:
    """The named terms sum to the advantages: to 1e-12 in float64, to 1e-6 at a float32 door."""
    out = row.of(case)
    assert out.residual() <= 1e-12, f"terms miss the values by {out.residual()}"
    parts = [part.to(torch.float32) for part in out.ledger().values()]
    total, values = torch.stack(parts).sum(0), out.values.to(torch.float32)
    if values.numel():
        size = max(1.0, *(float(part.abs().max()) for part in (values, *parts)))
        gap = float((total - values).abs().max()) / size
        assert gap <= 1e-6, f"in float32 the terms miss the values by {gap}"


@law(values="wild")
def finite(row: Row, case: Case, random: Random) -> None:
    """Whatever the finite rewards, the advantages are finite, and exactly 0 where they are not known."""
    out = row.of(case)
    assert bool(torch.isfinite(out.values).all()), f"not finite: {out.values.tolist()}"
    assert not out.values[~out.known].count_nonzero(), f"values where nothing is known: {out.values.tolist()}"


@law(applies=_tensors)
def float_types(row: Row, case: Case, random: Random) -> None:
    """Rewards in float32, bfloat16 or float16 give what the same numbers give in float64, to the last bit."""
    exact = row.of(case)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        out = row.of(moves.cast(case, dtype))
        assert out.values.dtype == torch.float64, f"{dtype} rewards give {out.values.dtype}"
        close(out.values, exact.values, f"{dtype} rewards give other numbers", 0.0)


@law(values="wild", applies=_tensors)
def gradient(row: Row, case: Case, random: Random) -> None:
    """Gradients with respect to the rewards are finite in every case, and 0 where the reward is missing."""
    leaves = [x.values.clone().requires_grad_() for x in case.signals]
    signals = [moves.remake(x, case.batch, leaf) for x, leaf in zip(case.signals, leaves, strict=True)]
    out = row.run(signals)
    (out.values * _directions(out.values, random)).sum().backward()
    for x, leaf in zip(case.signals, leaves, strict=True):
        got = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        assert bool(torch.isfinite(got).all()), f"gradients are not finite: {got.tolist()}"
        assert not got[~x.known].count_nonzero(), "a missing reward has a gradient"


@law(applies=_tensors)
def derivative(row: Row, case: Case, random: Random) -> None:
    """Where the estimator is smooth the gradient is the true derivative, and it is not 0."""
    case = plain(row.levels, domain=row.domain)
    # Off the lattice: two rewards at one distance from a median would make a kink.
    shift = 0.0 if row.domain == "binary" else 0.01
    leaves = [(x.values + shift * _directions(x.values, Random(0))).requires_grad_() for x in case.signals]

    def total(step: float = 0.0) -> Tensor:
        moved = [
            leaf + step * direction if k in row.movable else leaf
            for k, (leaf, direction) in enumerate(zip(leaves, along, strict=True))
        ]
        pairs = zip(case.signals, moved, strict=True)
        values = row.run([moves.remake(x, case.batch, leaf) for x, leaf in pairs]).values
        return (values * _directions(values, Random(1))).sum()

    along = [_directions(leaf, Random(2 + k)) for k, leaf in enumerate(leaves)]
    result = total()
    assert result.requires_grad, "no gradient reaches the rewards"
    result.backward()
    slope = sum(float((leaves[k].grad * along[k]).sum()) for k in row.movable if leaves[k].grad is not None)
    assert slope != 0.0, "no gradient reaches the rewards"
    if row.domain != "binary":
        step = 1e-5
        measured = (total(step).item() - total(-step).item()) / (2 * step)
        assert abs(slope - measured) <= 1e-6 * max(1.0, abs(measured)), f"gradient {slope}, measured {measured}"


def _directions(values: Tensor, random: Random) -> Tensor:
    return torch.tensor([random.uniform(0.5, 1.5) * random.choice([-1, 1]) for _ in values], dtype=torch.float64)


# -------------------------------------------------------------------------------------------------------- good manners


@law()
def no_mutation(row: Row, case: Case, random: Random) -> None:
    """The batch and the signals that go in are left as they were."""
    before = [(t, t._version, t.clone()) for t in _tensors_of(case)]
    row.of(case)
    for tensor, version, copy in before:
        assert tensor._version == version, "an input was written to"
        assert torch.equal(tensor, copy), "an input was changed"


def _tensors_of(case: Case) -> list[Tensor]:
    found = [getattr(case.batch, f.name) for f in fields(Batch)]
    for x in case.signals:
        found += [getattr(x, f.name) for f in fields(Signal)] + [term.values for term in x.terms.values()]
    return [value for value in found if isinstance(value, Tensor)]


@law()
def determinism(row: Row, case: Case, random: Random) -> None:
    """Twice the same input gives twice the same bits."""
    first, second = row.of(case), row.of(case)
    assert torch.equal(first.values, second.values), "two runs differ"
    assert torch.equal(first.known, second.known), "two runs differ in what is known"
