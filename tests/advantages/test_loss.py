"""One number out of per-token losses: denominators, nothing to learn from, and NaN inside and outside the mask."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import Aggregation, aggregate_loss, token_weights
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from tests.strategies import batches

NAN, INF = float("nan"), float("inf")
EVERY = [(name, 100.0 if name.endswith("norm") else None) for name in get_args(Aggregation)]
CUT = Batch.of(groups=["q", "q"], tokens=[4, 6], status=["terminated", "truncated"])


@pytest.mark.parametrize(
    ("aggregation", "constant", "expected"),
    [
        ("seq-mean-token-mean", None, 0.0),
        ("token-mean", None, 90 / 110),
        ("seq-mean-token-sum-norm", 100.0, 0.45),
        ("seq-mean-token-sum", None, 45.0),
        ("token-sum", None, 90.0),
    ],
)
def test_a_long_failure_and_a_short_success(aggregation: Aggregation, constant: float | None, expected: float) -> None:
    # 10 tokens at advantage 1 and 100 at -1, on policy: theory and GRPO's own mean say 0, other means do not.
    batch = Batch.of(groups=["q", "q"], tokens=[10, 100])
    losses = -batch.spread(torch.tensor([1.0, -1.0]), Level.TRAJECTORY, Level.TOKEN)
    loss = aggregate_loss(losses, batch, aggregation, constant=constant)
    assert float(loss.value) == pytest.approx(expected, abs=1e-12)
    assert (loss.tokens, loss.trajectories, loss.no_signal) == (110, 2, False)


@pytest.mark.parametrize(("aggregation", "constant"), EVERY)
def test_rollouts_that_left_the_loss_leave_its_denominators(aggregation: Aggregation, constant: float | None) -> None:
    finished = CUT.spread(CUT.status == 0, Level.TRAJECTORY, Level.TOKEN)
    alone = Batch.of(groups=["q"], tokens=[4])
    kept = aggregate_loss(torch.ones(10), CUT, aggregation, in_loss=finished, constant=constant)
    assert float(kept.value) == float(aggregate_loss(torch.ones(4), alone, aggregation, constant=constant).value)
    assert (kept.tokens, kept.trajectories) == (4, 1)


@pytest.mark.parametrize(("aggregation", "constant"), EVERY)
def test_nothing_to_learn_from_is_zero_and_says_so(aggregation: Aggregation, constant: float | None) -> None:
    losses = torch.ones(10, requires_grad=True)
    loss = aggregate_loss(losses, CUT, aggregation, in_loss=torch.zeros(10), constant=constant)
    loss.value.backward()
    assert (float(loss.value.detach()), loss.tokens, loss.trajectories, loss.no_signal) == (0.0, 0, 0, True)
    assert losses.grad is not None
    assert (losses.grad == 0).all()
    empty = Batch.from_mask(torch.zeros(2, 3), ["q", "q"])
    assert aggregate_loss(torch.ones(2, 3), empty, aggregation, constant=constant).no_signal


@pytest.mark.parametrize("poison", [NAN, INF, -INF])
def test_what_lies_under_the_mask_does_no_harm_and_on_it_is_an_error(poison: float) -> None:
    mask = torch.tensor([[1, 0], [0, 1]])
    batch = Batch.from_mask(mask, ["q", "q"])
    losses = torch.tensor([[-2.0, poison], [poison, -4.0]])
    assert float(aggregate_loss(losses, batch, "token-mean").value) == -3.0
    losses[1, 1] = poison
    with pytest.raises(InvalidArgument, match=r"wherever the mask is 1: token 1 of '1'"):
        aggregate_loss(losses, batch, "token-mean")
    out = torch.tensor([True, False])
    assert float(aggregate_loss(losses, batch, "token-mean", in_loss=out).value) == -2.0


def test_a_ratio_of_unpadded_log_probabilities_has_a_clean_gradient() -> None:
    batch = Batch.from_mask(torch.tensor([[1, 0]]), ["q"])
    logps = torch.tensor([[-1.0, -1.0]], requires_grad=True)
    ratio = torch.exp(batch.unpad(logps) - batch.unpad(torch.tensor([[-1.0, NAN]])))
    loss = aggregate_loss(-2.0 * ratio, batch, "token-mean")
    loss.value.backward()
    assert float(loss.value.detach()) == -2.0
    assert logps.grad is not None
    assert logps.grad.tolist() == [[-2.0, 0.0]]


@given(st.data(), batches())
@pytest.mark.parametrize(("aggregation", "constant"), EVERY)
def test_packed_and_padded_losses_are_one_loss(
    aggregation: Aggregation, constant: float | None, data: st.DataObject, batch: Batch
) -> None:
    losses = torch.linspace(-1, 2, batch.n_tokens, dtype=torch.float64)
    chosen = torch.tensor(data.draw(st.lists(st.booleans(), min_size=batch.n_tokens, max_size=batch.n_tokens)))
    made = aggregate_loss(losses, batch, aggregation, in_loss=chosen.bool(), constant=constant)
    wide = aggregate_loss(batch.pad(losses, fill=NAN), batch, aggregation, in_loss=chosen.bool(), constant=constant)
    weights = token_weights(batch, aggregation, in_loss=chosen.bool(), constant=constant)
    assert float(made.value) == float(wide.value) == pytest.approx(float((weights * losses).sum()), abs=1e-12)
    assert made.no_signal == (not bool(chosen.any()))


@pytest.mark.parametrize(
    ("losses", "in_loss", "match"),
    [
        (torch.ones(9), None, "losses"),
        (torch.ones(3, 6), None, "padded"),
        (torch.ones(2, 5), None, "width"),
        (torch.ones(10), torch.ones(2), "in_loss"),
    ],
)
def test_shapes_that_do_not_fit_are_named(losses: torch.Tensor, in_loss: torch.Tensor | None, match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        aggregate_loss(losses, CUT, "token-mean", in_loss=in_loss)


def test_everything_may_come_as_lists() -> None:
    batch = Batch.from_mask([[1, 1, 0], [1, 0, 0]], ["q", "q"])
    losses = [[1.0, 2.0, None], [6.0, None, None]]
    assert float(aggregate_loss(losses, batch, "token-mean").value) == 3.0
    assert float(aggregate_loss([1.0, 2.0, 6.0], batch, "token-mean", in_loss=[1, 1, 0]).value) == 1.5
    with pytest.raises(InvalidArgument, match="losses"):
        aggregate_loss([[1.0, "x", 0.0], [6.0, 0.0, 0.0]], batch, "token-mean")
