"""Whitening over the batch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import whiten, whitening_skipped
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.strategies import batches, signals


@pytest.mark.parametrize(
    ("mask", "values", "reason"),
    [
        ([[1, 0]], [2.0], "one known element of 1, whitening needs two"),
        ([[0, 0]], [], "no known element of 0, whitening needs two"),
    ],
)
def test_too_few_tokens_are_left_alone_and_reported(mask: list[list[int]], values: list[float], reason: str) -> None:
    batch = Batch.from_mask(torch.tensor(mask), ["q"])
    x = Signal.of(batch, Level.TOKEN, batch.unpad(torch.tensor([[2.0, 7.0]])), name="return")
    assert whiten(x).values.tolist() == values
    assert whitening_skipped(x) == reason


def test_what_is_whitened_is_not_reported() -> None:
    assert whitening_skipped(rewards_signal([2.0, 7.0, None])) == ""


@given(st.data(), batches())
@pytest.mark.parametrize("ddof", [0, 1])
def test_zero_mean_and_unit_variance_over_known_tokens(ddof: int, data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, Level.TRAJECTORY)).spread(Level.TOKEN)
    made = whiten(x, ddof=ddof)
    known = made.values[x.known]
    if known.numel() < 2:
        assert torch.equal(made.values, x.values)
    elif float(x.values[x.known].max() - x.values[x.known].min()) < 1e-3:
        assert float(x.values[x.known].max() - x.values[x.known].min()) > 0 or (known == 0).all()
    else:
        assert float(known.mean()) == pytest.approx(0.0, abs=1e-6)
        assert float(known.std(correction=ddof)) == pytest.approx(1.0, rel=1e-6)


@given(st.data(), batches())
def test_token_weights_are_whitening_the_spread_tokens(data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, Level.TRAJECTORY))
    fine = x.spread(Level.TOKEN)
    if int(fine.known.sum()) < 2 or float(fine.values[fine.known].max() - fine.values[fine.known].min()) < 1e-3:
        return
    weighted = whiten(x, unit="token").spread(Level.TOKEN).values
    torch.testing.assert_close(weighted, whiten(fine).values, rtol=1e-9, atol=1e-9)


def test_epsilons_sit_where_they_say() -> None:
    x = rewards_signal([2.0, 0.0])
    assert whiten(x, eps=1.0).values.tolist() == pytest.approx([1 / (2**0.5 + 1), -1 / (2**0.5 + 1)])
    assert whiten(x, variance_eps=2.0).values.tolist() == pytest.approx([0.5, -0.5], abs=1e-15)
    assert whiten(x, ddof=0).values.tolist() == [1.0, -1.0]


def test_scaling_without_centring() -> None:
    assert whiten(rewards_signal([2.0, 0.0]), center="none", ddof=0).values.tolist() == [2.0, 0.0]


def test_a_constant_batch_is_exactly_zero() -> None:
    assert whiten(rewards_signal([0.1] * 8)).values.tolist() == [0.0] * 8
    assert whiten(rewards_signal([0.1] * 8), center="none").values.tolist() == [0.0] * 8


@pytest.mark.parametrize(
    "options", [{"ddof": 2}, {"eps": -1.0}, {"variance_eps": float("nan")}, {"center": "loo"}, {"unit": "row"}]
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        whiten(rewards_signal([1.0, 0.0]), **options)  # type: ignore[arg-type]


def test_gradients_agree_with_differences() -> None:
    batch = Batch.of(groups=["q"] * 3, tokens=[1, 2, 3])
    raw = torch.tensor([1.0, 0.3, -0.5], dtype=torch.float64, requires_grad=True)

    def values(v: torch.Tensor) -> torch.Tensor:
        return whiten(Signal.of(batch, Level.TRAJECTORY, v, name="x"), unit="token", variance_eps=1e-8).values

    assert torch.autograd.gradcheck(values, (raw,))
