"""Loss aggregation: the same advantages, other numbers; and carrying credit from one to another."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages.aggregation import Aggregation, reweight, token_weights
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from tests.strategies import batches, signals

EVERY = [(name, 4.0 if name.endswith("norm") else None) for name in get_args(Aggregation)]


def loss(lengths: list[int], advantages: list[float], aggregation: Aggregation, constant: float | None = None) -> float:
    a = rewards_signal(advantages, tokens=lengths).spread(Level.TOKEN)
    return float((token_weights(a.batch, aggregation, constant=constant) * -a.values).sum())


@pytest.mark.parametrize(
    ("lengths", "advantages", "aggregation", "constant", "expected"),
    [
        ([1, 3], [1, -1], "seq-mean-token-mean", None, 0.0),
        ([1, 3], [1, -1], "token-mean", None, 0.5),
        ([1, 3], [1, -1], "seq-mean-token-sum-norm", 4, 0.25),
        ([1, 3], [1, -1], "seq-mean-token-sum", None, 1.0),
        ([1, 3], [1, -1], "token-sum", None, 2.0),
        ([10, 100], [1, -1], "seq-mean-token-mean", None, 0.0),
        ([10, 100], [1, -1], "token-mean", None, 0.8182),
        ([10, 100], [1, -1], "seq-mean-token-sum-norm", 100, 0.45),
    ],
)
def test_the_same_advantages_give_other_losses(
    lengths: list[int], advantages: list[float], aggregation: Aggregation, constant: float | None, expected: float
) -> None:
    assert loss(lengths, advantages, aggregation, constant) == pytest.approx(expected, abs=1e-4)


def test_weights_keep_their_digits() -> None:
    batch = Batch.of(groups=["q"] * 3, tokens=[1, 2, 7])
    for name, constant in EVERY:
        weights = token_weights(batch, name, constant=0.1 if constant else None)  # type: ignore[arg-type]
        assert weights.dtype is torch.float64
        if constant:
            assert weights.tolist() == [1 / (3 * 0.1)] * 10


def test_what_left_the_loss_leaves_its_denominators() -> None:
    batch = Batch.of(groups=["q", "q"], tokens=[4, 6])
    finished = batch.spread(torch.tensor([True, False]), Level.TRAJECTORY, Level.TOKEN)
    per_token = torch.ones(10, dtype=torch.float64)
    for aggregation in ("token-mean", "seq-mean-token-mean"):
        assert float((token_weights(batch, aggregation, in_loss=finished) * per_token).sum()) == pytest.approx(1.0)
        nothing = token_weights(batch, aggregation, in_loss=torch.zeros(10, dtype=torch.bool))
        assert (nothing == 0).all()


def test_what_lies_under_the_mask_is_never_touched() -> None:
    # A NaN log-probability on a masked slot, multiplied by the mask afterwards, is still NaN.
    batch = Batch.from_mask(torch.tensor([[1, 0]]), ["q"])
    logps, old = torch.tensor([[-1.0, -1.0]]), torch.tensor([[-1.0, float("nan")]])
    ratio = torch.exp(batch.unpad(logps) - batch.unpad(old))
    assert float((token_weights(batch, "token-mean") * -2.0 * ratio).sum()) == -2.0


@given(st.data(), batches())
@pytest.mark.parametrize(("trainer", "c_trainer"), EVERY)
@pytest.mark.parametrize(("assumed", "c_assumed"), EVERY)
def test_reweighted_credit_gives_the_same_loss(
    assumed: Aggregation,
    c_assumed: float | None,
    trainer: Aggregation,
    c_trainer: float | None,
    data: st.DataObject,
    batch: Batch,
) -> None:
    a = data.draw(signals(batch, Level.TURN)).spread(Level.TOKEN)
    moved = reweight(a, assumed=assumed, trainer=trainer, assumed_constant=c_assumed, trainer_constant=c_trainer)
    have = token_weights(batch, assumed, in_loss=a.known, constant=c_assumed) * a.values
    want = token_weights(batch, trainer, constant=c_trainer) * moved.values
    torch.testing.assert_close(want, have, rtol=1e-9, atol=1e-12)
    assert moved.residual() <= 1e-12


@pytest.mark.parametrize(
    ("aggregation", "constant"),
    [("mean", None), ("token-mean", 4.0), ("seq-mean-token-sum-norm", None), ("seq-mean-token-sum-norm", 0.0)],
)
def test_bad_aggregations_are_named(aggregation: str, constant: float | None) -> None:
    with pytest.raises(InvalidArgument):
        token_weights(Batch.of(groups=["q"], tokens=[1]), aggregation, constant=constant)  # type: ignore[arg-type]
