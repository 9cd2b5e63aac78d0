"""Novelty sharpening."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import grpo, novelty
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.strategies import batches, signals


def _logp(x: Signal, values: list[float | None]) -> Signal:
    return Signal.of(x.batch, Level.TRAJECTORY, values, name="logp")


def test_the_worked_numbers() -> None:
    a = rewards_signal([1.0, 1.0, 1.0])
    made = novelty(a, outcome=a, logp=_logp(a, [-0.2, -0.4, -0.6]))
    eta = [math.exp(s + 0.4) for s in (-0.2, -0.4, -0.6)]
    assert eta == pytest.approx([1.2214, 1.0, 0.8187], abs=1e-4)
    assert made.ledger()["novelty"].tolist() == pytest.approx([0.0, 0.0, 0.4532], abs=1e-4)
    assert made.values.tolist() == pytest.approx([1.0, 1.0, 1.4532], abs=1e-4)


def test_the_boost_is_capped_by_a_share_of_the_advantage() -> None:
    a = rewards_signal([1.0, 1.0])
    made = novelty(a, outcome=a, logp=_logp(a, [-0.1, -9.0]))
    assert made.values.tolist() == [1.0, 1.5]
    assert novelty(a, outcome=a, logp=_logp(a, [1e3, -1e3])).values.tolist() == [1.0, 1.5]


def test_failures_and_penalised_successes_are_left_alone() -> None:
    outcome = rewards_signal([1.0, 0.0, 1.0, 1.0])
    a = Signal.of(outcome.batch, Level.TRAJECTORY, [0.5, 0.5, -0.5, 0.5], name="a")
    made = novelty(a, outcome=outcome, logp=_logp(a, [-1.0, -9.0, -9.0, -9.0]))
    assert made.values.tolist() == [0.5, 0.5, -0.5, 0.75]


def test_a_rollout_without_a_log_probability_enters_no_mean() -> None:
    a = rewards_signal([1.0, 1.0, 1.0, 1.0])
    made = novelty(a, outcome=a, logp=_logp(a, [-0.2, -0.4, -0.6, None]))
    assert made.ledger()["novelty"].tolist() == pytest.approx([0.0, 0.0, 0.4532, 0.0], abs=1e-4)


def test_a_rollout_without_an_advantage_enters_no_mean() -> None:
    outcome = rewards_signal([1.0, 1.0, 1.0, 1.0])
    a = Signal.of(outcome.batch, Level.TRAJECTORY, [1.0, 1.0, 1.0, None], name="a")
    made = novelty(a, outcome=outcome, logp=_logp(a, [-0.2, -0.4, -0.6, -9.0]))
    assert made.ledger()["novelty"].tolist() == pytest.approx([0.0, 0.0, 0.4532, 0.0], abs=1e-4)


@given(st.data(), batches(tokens=None))
def test_only_raises_and_never_by_more_than_the_cap(data: st.DataObject, batch: Batch) -> None:
    a, logp = (data.draw(signals(batch, Level.TRAJECTORY, name=name, failed=True)) for name in ("a", "logp"))
    made = novelty(a, outcome=a, logp=logp, cap=0.5)
    boost = made.ledger()["novelty"]
    assert bool((boost >= 0).all())
    assert bool((boost <= 0.5 * a.values.clamp_min(0.0) + 1e-12).all())
    assert torch.equal(made.presence, a.presence)
    assert made.residual() <= 1e-12


@given(st.data(), batches())
def test_equally_likely_rollouts_change_nothing(data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, Level.TRAJECTORY))
    flat = Signal.of(batch, Level.TRAJECTORY, [-0.5] * len(batch), name="logp")
    assert torch.equal(novelty(grpo(x), outcome=x, logp=flat).values, grpo(x).values)


@pytest.mark.parametrize("options", [{"strength": -1.0}, {"cap": float("nan")}])
def test_bad_options_are_named(options: dict[str, float]) -> None:
    a = rewards_signal([1.0, 1.0])
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        novelty(a, outcome=a, logp=a, **options)


def test_signals_are_per_rollout_and_of_one_batch() -> None:
    a, other = rewards_signal([1.0, 1.0]), rewards_signal([1.0, 1.0])
    with pytest.raises(InvalidArgument, match="logp"):
        novelty(a, outcome=a, logp=other)
    with pytest.raises(InvalidArgument, match="outcome"):
        novelty(a, outcome=a.spread(Level.TURN), logp=a)
