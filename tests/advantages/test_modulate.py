"""Modulation: worked numbers, what is conserved, and what unknown weights do."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import grpo
from apportion.advantages.modulate import keep_sign, modulate
from apportion.advantages.modulate_weights import (
    bounded_signed,
    exp_clip,
    hindsight_ratio,
    inverse_root,
    tanh_gate,
    tokens_that_count,
    where_true,
    within_rollout,
)
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.strategies import batches, signals


def one(tokens: list[int], advantage: float = 1.0) -> Signal:
    """One rollout with so many tokens per turn, and its credit."""
    batch = Batch.of(groups=["q"], turns=[len(tokens)], tokens=tokens)
    return Signal.of(batch, Level.TRAJECTORY, [advantage], name="outcome")


def turns(x: Signal, values: list[float | None], name: str = "score") -> Signal:
    return Signal.of(x.batch, Level.TURN, values, name=name)


# ------------------------------------------------------------------------------------------------ the worked numbers


def test_mutating_turns_take_the_blame() -> None:
    failed = one([10, 10], -1.0)
    weight = where_true(turns(failed, [0.0, 1.0]), then=2.0, otherwise=1.0)
    made = modulate(failed, weight, conserve="mass")
    assert made.values.tolist() == pytest.approx([-0.6667, -1.3333], abs=1e-4)


@pytest.mark.parametrize(
    ("tokens", "phi", "expected"),
    [
        ([10, 20, 10], [math.log(3), math.log(2), math.log(2)], [1.4186, 0.8605, 0.8605]),
        ([10, 20, 10], [0.0, math.log(3), 0.0], [0.7551, 1.2449, 0.7551]),
        ([10, 20, 10], [0.7, 0.7, 0.7], [1.0, 1.0, 1.0]),
    ],
)
def test_exponential_weights_of_standardised_features(
    tokens: list[int], phi: list[float], expected: list[float]
) -> None:
    x = one(tokens)
    made = modulate(x, exp_clip(within_rollout(turns(x, phi))), conserve="mass")
    assert made.values.tolist() == pytest.approx(expected, abs=1e-4)
    assert float(made.spread(Level.TOKEN).values.sum()) == pytest.approx(40.0)


def test_bounded_bonus_of_a_branch() -> None:
    a = rewards_signal([1.0, 0.0, 0.0, 1.0, 1.0], name="outcome")
    base = grpo(a, ddof=0)
    assert base.values[:2].tolist() == pytest.approx([0.8165, -1.2247], abs=1e-4)
    z = Signal.of(a.batch, a.level, [None, 1.0, 1.0, -1.0, -1.0], name="z")
    made = modulate(base, bounded_signed(z, base)).values.tolist()
    assert made == pytest.approx([0.8165, -1.3472, -1.3472, 0.7348, 0.7348], abs=1e-4)


def test_gates() -> None:
    gap = rewards_signal([0.5 * 1.0 + 0.5 * 1.0, 0.1 * -0.5 + 0.9 * -1.0])
    assert tanh_gate(gap).values.tolist() == pytest.approx([1.7616, 0.2602], abs=1e-4)


def test_hindsight_of_a_likelier_action() -> None:
    z = rewards_signal([1.0], name="return")
    pi, h = (Signal.of(z.batch, z.level, [math.log(p)], name="logp") for p in (0.25, 0.5))
    assert modulate(z, hindsight_ratio(pi, h)).values.tolist() == pytest.approx([0.5])
    assert modulate(z, hindsight_ratio(h, pi, limit=1.5)).values.tolist() == pytest.approx([-0.5])
    assert modulate(z, hindsight_ratio(pi, h.masked(torch.tensor([False])))).values.tolist() == [1.0]


def test_shared_nodes_weigh_less() -> None:
    steps = rewards_signal([2 / 3 + 2 / 3], name="outcome")
    count = Signal.of(steps.batch, steps.level, [2.0], name="leaves")
    assert modulate(steps, inverse_root(count)).values.tolist() == pytest.approx([0.9428], abs=1e-4)


# ------------------------------------------------------------------------------------------------------------- laws


@given(st.data(), batches(tokens=None), st.floats(0.0, 2.0))
def test_mass_and_sign_stay(data: st.DataObject, batch: Batch, limit: float) -> None:
    x = grpo(data.draw(signals(batch, Level.TRAJECTORY, failed=True)))
    phi = data.draw(signals(batch, Level.TURN, "phi", failed=True))
    made = modulate(x, exp_clip(within_rollout(phi), limit=limit), conserve="mass").check()
    fine = x.spread(made.level)
    assert torch.equal(torch.sign(made.values), torch.sign(fine.values))
    size = tokens_that_count(batch, Level.TURN)
    mass, before = (y.scaled(size, Level.TURN).pool(Level.TRAJECTORY).values for y in (made, fine))
    torch.testing.assert_close(mass, before)
    live = (fine.values != 0) & (size > 0)
    ratio = made.values[live] / fine.values[live]
    assert bool(((ratio >= math.exp(-2 * limit) - 1e-9) & (ratio <= math.exp(2 * limit) + 1e-9)).all())


@given(st.data(), batches(tokens=None), st.sampled_from([0.0, 0.7, -3.0, 1e6]))
def test_constant_features_change_nothing(data: st.DataObject, batch: Batch, value: float) -> None:
    x = data.draw(signals(batch, Level.TRAJECTORY))
    phi = Signal.of(batch, Level.TURN, [value] * batch.size(Level.TURN), name="phi")
    made = modulate(x, exp_clip(within_rollout(phi)), conserve="mass")
    assert made.values.tolist() == pytest.approx(x.spread(made.level).values.tolist(), rel=1e-12)


@given(st.data(), batches(tokens=None))
def test_features_are_standardised_over_the_tokens_of_their_rollout(data: st.DataObject, batch: Batch) -> None:
    phi = data.draw(signals(batch, Level.TURN, "phi", failed=True))
    z = within_rollout(phi, eps=0.5)
    row = batch.owner(Level.TURN, Level.TRAJECTORY).tolist()
    size = [1] * len(row) if batch.tokens is None else batch.tokens.tolist()
    for i in range(len(batch)):
        mine = [k for k in range(len(row)) if row[k] == i and phi.known[k]]
        spread_out = [float(phi.values[k]) for k in mine for _ in range(size[k])]
        if not spread_out or max(phi.values[mine]) == min(phi.values[mine]):
            assert z.values[mine].count_nonzero() == 0 or not spread_out
            continue
        mean, std = statistics.fmean(spread_out), statistics.pstdev(spread_out)
        if std > 0:
            expected = [(float(phi.values[k]) - mean) / (std + 0.5) for k in mine]
            assert z.values[mine].tolist() == pytest.approx(expected, abs=1e-6)
    assert torch.equal(z.known, phi.known)


@given(st.data(), batches())
def test_unknown_weights_are_one(data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, Level.TRAJECTORY))
    for level in (Level.TOKEN, Level.TURN, Level.TRAJECTORY):
        nothing = Signal.of(batch, level, [None] * batch.size(level), name="w")
        made = modulate(x, nothing, conserve="mass")
        torch.testing.assert_close(made.values, x.spread(level).values)


def test_only_tokens_in_the_loss_count() -> None:
    own = torch.tensor([False, True, True, True])
    batch = Batch.of(groups=["q"], turns=[2], tokens=[2, 2], own=own)
    x = Signal.of(batch, Level.TRAJECTORY, [1.0], name="outcome")
    assert tokens_that_count(batch, Level.TURN).tolist() == [1.0, 2.0]
    assert tokens_that_count(batch, Level.TOKEN).tolist() == [0.0, 1.0, 1.0, 1.0]
    weights = Signal.of(batch, Level.TURN, [1.0, 4.0], name="w")
    made = modulate(x, weights, conserve="mass").spread(Level.TOKEN).masked(own)
    assert made.values.tolist() == pytest.approx([0.0, 1 / 3, 4 / 3, 4 / 3])


def test_terms_are_weighted_alike() -> None:
    x = one([1, 1])
    both = x + turns(x, [0.5, -0.5], "path")
    made = modulate(both, turns(x, [2.0, 0.5])).check()
    assert {n: t.tolist() for n, t in made.ledger().items()} == {"outcome": [2.0, 0.5], "path": [1.0, -0.25]}


def test_nothing_to_conserve() -> None:
    x = one([2, 1])
    assert modulate(x, turns(x, [0.0, 0.0]), conserve="mass").values.tolist() == [0.0, 0.0]
    empty = one([0, 0])
    assert modulate(empty, turns(empty, [1.0, 3.0]), conserve="mass").values.tolist() == [1.0, 3.0]
    with pytest.raises(InvalidArgument, match="conserve the mass"):
        modulate(x, turns(x, [1.0, -1.0]), conserve="mass")


def test_the_guard_stops_at_zero() -> None:
    a = one([1, 1, 1], 0.2)
    total = a + turns(a, [-0.5, 0.25, None], "roles")
    made = keep_sign(total, of=a).check()
    assert made.values.tolist() == pytest.approx([0.0, 0.45, 0.2])
    assert made.ledger()["sign guard"].tolist() == pytest.approx([0.3, 0.0, 0.0])
    dead = a * 0.0
    assert keep_sign(dead + turns(a, [-0.5, 0.25, 0.0], "roles"), of=dead).values.tolist() == [-0.5, 0.25, 0.0]


def test_bad_arguments_are_named() -> None:
    x, other = one([1, 1]), one([1, 1])
    w = turns(x, [1.0, 1.0])
    for call, name in (
        (lambda: modulate(x, w, conserve="all"), "conserve"),  # type: ignore[arg-type]
        (lambda: modulate(other, w), "weight"),
        (lambda: keep_sign(x, of=w), "of"),
        (lambda: exp_clip(w, limit=-1.0), "limit"),
        (lambda: within_rollout(w, eps=-1.0), "eps"),
        (lambda: exp_clip(w, limit=1e9), "limit"),
        (lambda: bounded_signed(w, x, strength=2.0), "strength"),
        (lambda: bounded_signed(w, x, strength=0.2, bound=0.0), "strength"),
        (lambda: bounded_signed(x, w), "advantage"),
        (lambda: inverse_root(turns(x, [0.0, 1.0])), "count"),
        (lambda: where_true(w, then=-1.0), "then"),
        (lambda: hindsight_ratio(w, x), "hindsight"),
        (lambda: hindsight_ratio(w, w, limit=0.0), "limit"),
    ):
        with pytest.raises(InvalidArgument, match=name):
            call()
