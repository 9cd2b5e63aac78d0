"""Against veRL's own functions, as installed, through the door for padded tensors.

Batches are ragged, with observation tokens inside and after the rows, several turns, and groups of one to many whose
rows are shuffled. veRL's functions run in the type of the rewards: in float64 both sides agree to 1e-6, what is left
being its epsilons (1e-8 in the mean of a whitening, 1e-6 beside the deviation of a lone row); in float32, in which it
trains, to 2e-5. Where the two mean to differ, both numbers stand in a test with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from apportion.advantages import (
    dr_grpo,
    gdpo,
    gpg,
    grpo,
    on_last_token,
    opo,
    padded_advantages,
    pass_at_k_top,
    reinforce_pp,
    reinforce_pp_baseline,
    remax,
    return_to_go,
    rloo,
    token_weights,
    whiten,
)
from apportion.advantages.aggregation import Aggregation
from apportion.batch import Batch
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.differential.verl_rows import Config, Rows, core, functional

TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-5}
WHITENING = 1e-8


@st.composite
def batches(draw: st.DrawFn, *, smallest: int = 1) -> Rows:
    """Every row has a policy token, and every group `smallest` rows or more."""
    width = draw(st.integers(1, 7))
    row = st.lists(st.booleans(), min_size=width, max_size=width).filter(any)
    sizes = draw(st.lists(st.integers(smallest, 4), min_size=1, max_size=4))
    groups = draw(st.permutations([f"prompt {g}" for g, size in enumerate(sizes) for _ in range(size)]))
    mask = draw(st.lists(row, min_size=len(groups), max_size=len(groups)))
    outcome = draw(st.lists(st.integers(-8, 8).map(lambda k: k / 4), min_size=len(groups), max_size=len(groups)))
    return Rows(
        mask=torch.tensor(mask, dtype=torch.int64),
        outcome=torch.tensor(outcome, dtype=torch.float64),
        groups=list(groups),
    )


def agree(rows: Rows, name: str, estimator: Callable[[Signal], Signal], **options: Any) -> None:
    ours = rows.ours(estimator)
    assert not ours[rows.mask == 0].any()
    for dtype, tolerance in TOLERANCE.items():
        # Its ReMax leaves what is still to come on observation tokens too, where no loss looks at it.
        theirs = rows.to(dtype).theirs(name, **options) * rows.mask
        torch.testing.assert_close(ours, theirs.double(), rtol=tolerance, atol=tolerance)


# ----------------------------------------------------------------------------------------------------- the same numbers


@pytest.mark.parametrize("name", ["grpo", "grpo_vectorized"])
@given(rows=batches())
def test_grpo(name: str, rows: Rows) -> None:
    agree(rows, name, lambda x: grpo(x, dialect="verl"))


@given(rows=batches())
def test_grpo_without_standard_deviation(rows: Rows) -> None:
    agree(rows, "grpo", lambda x: dr_grpo(x, singleton="raw"), norm_adv_by_std_in_grpo=False)


@given(rows=batches())
def test_rloo(rows: Rows) -> None:
    agree(rows, "rloo", lambda x: rloo(x, singleton="raw"))
    agree(rows, "rloo_vectorized", rloo)


@given(rows=batches())
def test_opo(rows: Rows) -> None:
    agree(rows, "opo", lambda x: opo(x, singleton="raw"))


@given(rows=batches())
def test_gpg(rows: Rows) -> None:
    agree(rows, "gpg", lambda x: gpg(x, dialect="verl"))


@pytest.mark.parametrize("scale", ["std", "none"])
@given(rows=batches(smallest=2))
def test_pass_at_k(scale: Any, rows: Rows) -> None:
    config = Config(norm_adv_by_std_in_grpo=scale == "std")
    agree(rows, "grpo_passk", lambda x: pass_at_k_top(x, scale=scale, eps=1e-6), config=config)


def varied(values: Tensor, mask: Tensor) -> bool:
    """True when a whitening has something to divide by; see `test_verl_deviations`."""
    kept = values[mask != 0]
    return bool(len(kept) > 1 and kept.std() > 0.05)


@given(rows=batches())
def test_reinforce_pp_baseline(rows: Rows) -> None:
    centred = rows.ours(lambda x: dr_grpo(x, singleton="raw"))
    assume(varied(centred, rows.mask))
    estimator = lambda x: reinforce_pp_baseline(x, singleton="raw", variance_eps=WHITENING)  # noqa: E731
    agree(rows, "reinforce_plus_plus_baseline", estimator)


@pytest.mark.parametrize("discount", [1.0, 0.9])
@given(rows=batches())
def test_reinforce_pp(discount: float, rows: Rows) -> None:
    returns = rows.ours(lambda x: return_to_go(on_last_token(x), discount=discount))
    assume(varied(returns, rows.mask))
    estimator = lambda x: reinforce_pp(x, discount=discount, variance_eps=WHITENING)  # noqa: E731
    agree(rows, "reinforce_plus_plus", estimator, config=Config(gamma=discount))


@given(rows=batches(), seed=st.integers(0, 1000))
def test_reinforce_pp_on_rewards_per_token(rows: Rows, seed: int) -> None:
    dense = torch.randint(-8, 9, rows.mask.shape, generator=torch.Generator().manual_seed(seed)) / 4.0 * rows.mask

    def ours(estimator: Callable[[Signal], Signal]) -> Tensor:
        return padded_advantages(estimator, dense, rows.mask, rows.groups, level="token", dtype=torch.float64)

    assume(varied(ours(lambda x: return_to_go(x, discount=0.9)), rows.mask))
    theirs, _ = core.get_adv_estimator_fn("reinforce_plus_plus")(
        token_level_rewards=dense.double(), response_mask=rows.mask, config=Config(gamma=0.9)
    )
    made = ours(lambda x: whiten(return_to_go(x, discount=0.9), variance_eps=WHITENING))
    torch.testing.assert_close(made, theirs, rtol=1e-6, atol=1e-6)


@given(rows=batches())
def test_remax(rows: Rows) -> None:
    greedy = torch.arange(len(rows.groups), dtype=torch.float64) / 4
    agree(rows, "remax", lambda x: remax(x, baseline=greedy), reward_baselines=greedy)


@given(rows=batches(), seed=st.integers(0, 1000))
def test_remax_on_rewards_per_token(rows: Rows, seed: int) -> None:
    dense = torch.randint(-8, 9, rows.mask.shape, generator=torch.Generator().manual_seed(seed)) / 4.0 * rows.mask
    greedy = torch.arange(len(rows.groups), dtype=torch.float64) / 4

    def estimator(x: Signal) -> Signal:
        return remax(return_to_go(x), baseline=Signal.of(x.batch, Level.TRAJECTORY, greedy, name="greedy"))

    theirs, _ = core.get_adv_estimator_fn("remax")(
        token_level_rewards=dense.double(), reward_baselines=greedy, response_mask=rows.mask
    )
    ours = padded_advantages(estimator, dense, rows.mask, rows.groups, level="token", dtype=torch.float64)
    torch.testing.assert_close(ours, theirs * rows.mask, rtol=1e-9, atol=1e-9)


def gdpo_of_both(rows: Rows, second: Tensor, weights: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Ours and veRL's, on two rewards."""
    names = ["correct", "format"]
    theirs = rows.theirs(
        "gdpo",
        config=Config(gdpo_reward_keys=names, gdpo_reward_weights=list(weights)),
        non_tensor_batch=dict(zip(names, (rows.outcome.numpy(), second.numpy()), strict=True)),
        batch={
            "prompts": torch.ones(len(second), 2),
            "attention_mask": torch.ones(len(second), 2 + rows.mask.shape[1], dtype=torch.int64),
        },
    )

    def estimator(x: Signal) -> Signal:
        other = Signal.of(x.batch, Level.TRAJECTORY, second, name="format")
        return gdpo([x, other], weights=weights, final="token", dialect="verl", variance_eps=WHITENING)

    return rows.ours(estimator), theirs.double()


@given(rows=batches(smallest=2), weights=st.sampled_from([[1.0, 1.0], [2.0, 0.25]]))
def test_gdpo(rows: Rows, weights: list[float]) -> None:
    second = rows.outcome.flip(0) ** 2
    summed = rows.ours(lambda x: gdpo_sum(x, second, weights))
    assume(varied(summed, rows.mask))
    ours, theirs = gdpo_of_both(rows, second, weights)
    # It builds its rewards in float32 whatever it is given.
    torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-5)


def gdpo_sum(x: Signal, second: Tensor, weights: Sequence[float]) -> Signal:
    other = Signal.of(x.batch, Level.TRAJECTORY, second, name="format")
    return gdpo([x, other], weights=weights, final="none", dialect="verl")


@given(rows=batches(), seed=st.integers(0, 1000))
def test_masked_whiten(rows: Rows, seed: int) -> None:
    values = torch.randint(-8, 9, rows.mask.shape, generator=torch.Generator().manual_seed(seed)) / 4.0
    assume(varied(values, rows.mask))
    x = Signal.of((batch := Batch.from_mask(rows.mask, rows.groups)), Level.TOKEN, batch.unpad(values), name="x")
    theirs = functional.masked_whiten(values.double(), rows.mask)
    torch.testing.assert_close(whiten(x, variance_eps=WHITENING).values, batch.unpad(theirs), rtol=1e-6, atol=1e-6)


AGGREGATIONS: list[tuple[Aggregation, float | None]] = [
    ("token-mean", None),
    ("token-sum", None),
    ("seq-mean-token-sum", None),
    ("seq-mean-token-sum-norm", 5.0),
    ("seq-mean-token-mean", None),
]


@pytest.mark.parametrize(("aggregation", "constant"), AGGREGATIONS)
@given(rows=batches())
def test_loss_aggregation(aggregation: Aggregation, constant: float | None, rows: Rows) -> None:
    """The weight of a token's loss is its derivative, and rows without policy tokens count in no denominator."""
    mask = torch.cat([rows.mask, torch.zeros_like(rows.mask[:1])])
    loss = torch.zeros(mask.shape, dtype=torch.float64, requires_grad=True)
    core.agg_loss(loss, mask, aggregation, loss_scale_factor=constant).backward()
    batch = Batch.from_mask(mask, [*rows.groups, "padding"])
    ours = batch.pad(token_weights(batch, aggregation, constant=constant), width=mask.shape[1])
    torch.testing.assert_close(ours, loss.grad, rtol=1e-6, atol=1e-9)
