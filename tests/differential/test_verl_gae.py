"""GAE against veRL's own, on ragged masks of several turns; and where the two are deliberately not the same."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from apportion import recipes
from apportion.advantages import gae, lambda_returns, padded_gae, whiten
from apportion.advantages.states import critic_values, last_values
from apportion.batch import Batch
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Abstained, Scored
from tests.differential.test_verl import TOLERANCE, WHITENING, batches, varied
from tests.differential.verl_rows import Rows, core


def critic(rows: Rows, seed: int) -> tuple[Tensor, Tensor]:
    """Rewards per policy token, and values everywhere: what stands on observation tokens must not matter."""
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randint(-8, 9, rows.mask.shape, generator=generator) / 4.0 * rows.mask
    return rewards.double(), torch.randint(-8, 9, rows.mask.shape, generator=generator).double() / 8


def theirs(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    made: tuple[Tensor, Tensor] = core.get_adv_estimator_fn("gae")(rewards, values, mask, gamma, lam)
    return made


RATES = st.tuples(st.sampled_from([1.0, 0.99, 0.9]), st.sampled_from([1.0, 0.95, 0.3, 0.0]))


@given(rows=batches(), seed=st.integers(0, 1000), rates=RATES)
def test_gae(rows: Rows, seed: int, rates: tuple[float, float]) -> None:
    rewards, values = critic(rows, seed)
    batch = Batch.from_mask(rows.mask, rows.groups)
    advantages, targets = padded_gae(rewards, values, batch, discount=rates[0], lam=rates[1])
    assume(varied(advantages, rows.mask))
    whitened = whiten(Signal.of(batch, Level.TOKEN, batch.unpad(advantages), name="a"), variance_eps=WHITENING)
    for dtype, tolerance in TOLERANCE.items():
        expected, returns = theirs(rewards.to(dtype), values.to(dtype), rows.mask, *rates)
        packed = whitened.values
        torch.testing.assert_close(packed, batch.unpad(expected).double(), rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(targets, (returns * rows.mask).double(), rtol=tolerance, atol=tolerance)
        ours, _ = padded_gae(rewards.to(dtype), values.to(dtype), batch, discount=rates[0], lam=rates[1])
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), advantages, rtol=tolerance, atol=tolerance)


@given(rows=batches(), seed=st.integers(0, 1000), rates=RATES)
def test_gae_of_signals(rows: Rows, seed: int, rates: tuple[float, float]) -> None:
    rewards, values = critic(rows, seed)
    batch = Batch.from_mask(rows.mask, rows.groups)
    states = critic_values(Signal.of(batch, Level.TOKEN, batch.unpad(values), name="value"), last_values(batch))
    reward = Signal.of(batch, Level.TOKEN, batch.unpad(rewards), name="reward")
    made = gae(reward, states, discount=rates[0], lam=rates[1])
    assume(varied(batch.pad(made.values, width=rows.mask.shape[1]), rows.mask))
    expected, returns = theirs(rewards, values, rows.mask, *rates)
    whitened = whiten(made, variance_eps=WHITENING).values
    torch.testing.assert_close(whitened, batch.unpad(expected), rtol=1e-6, atol=1e-6)
    targets = lambda_returns(reward, states, discount=rates[0], lam=rates[1])
    torch.testing.assert_close(targets.values, batch.unpad(returns), rtol=1e-9, atol=1e-9)


@given(rows=batches(), seed=st.integers(0, 1000))
def test_the_recipe(rows: Rows, seed: int) -> None:
    _, values = critic(rows, seed)
    plain = Batch.from_mask(rows.mask, rows.groups)
    columns = {"values": plain.unpad(values)}
    batch = Batch.of(groups=rows.groups, turns=plain.turns, tokens=plain.tokens, gaps=plain.gaps, token_columns=columns)
    verdicts = {
        "outcome": [Scored(float(one)) for one in rows.outcome],
        "bootstrap_value": [Abstained("terminated")] * len(batch),
    }
    made, _ = recipes.load("ppo", lam=0.9).assign(batch, verdicts)
    raw, _ = recipes.load("ppo", lam=0.9, whitening="none").assign(batch, verdicts)
    assume(varied(plain.pad(raw.advantages.values, width=rows.mask.shape[1]), rows.mask))
    expected, returns = theirs(rows.rewards, values, rows.mask, 1.0, 0.9)
    torch.testing.assert_close(made.advantages.values, plain.unpad(expected), rtol=1e-6, atol=1e-6)
    assert made.returns is not None
    torch.testing.assert_close(made.returns.values, plain.unpad(returns), rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------------------------------ deliberately not the same

MASK = torch.tensor([[1, 1, 0, 0, 1, 1]])
VALUES = torch.tensor([[0.5, 0.6, 9.0, -9.0, 0.7, 0.8]], dtype=torch.float64)


def returns_of_both(rewards: list[float], **options: object) -> tuple[list[float], list[float]]:
    """Critic targets before any whitening, ours and theirs."""
    given_rewards = torch.tensor([rewards], dtype=torch.float64)
    _, ours = padded_gae(given_rewards, VALUES, Batch.from_mask(MASK, ["q"]), **options)  # type: ignore[arg-type]
    _, found = theirs(given_rewards, VALUES, MASK, 1.0, 0.95)
    return ours[0].tolist(), found[0].tolist()


def test_a_reward_on_an_observation() -> None:
    """veRL reads rewards of masked tokens and throws them away; "fold" gives them to the token that earned them."""
    ours, found = returns_of_both([0, 0, 0.5, 0, 0, 1], masked_rewards="fold")
    assert found[:2] == pytest.approx([0.956725, 0.9755])
    assert ours[:2] == pytest.approx([0.931725 + 0.5, 0.8755 + 0.6])
    dropped, _ = returns_of_both([0, 0, 0.5, 0, 0, 1], masked_rewards="drop")
    assert dropped[:2] == pytest.approx(found[:2])


def test_a_rollout_cut_by_the_length_limit() -> None:
    """veRL counts every last token as an end, so what the critic still expected is a loss. Here a cut bootstraps."""
    ours, found = returns_of_both([0.0] * 6, last=torch.tensor([0.9], dtype=torch.float64))
    assert found[:2] == pytest.approx([-0.40065 + 0.5, -0.527 + 0.6])
    assert ours[:2] == pytest.approx([0.370987 + 0.5, 0.28525 + 0.6], abs=1e-6)
    declared, _ = returns_of_both([0.0] * 6)
    assert declared[:2] == pytest.approx(found[:2])


def test_targets_on_observation_tokens() -> None:
    """veRL leaves the advantage that is passing by, plus the value that stands there. No loss looks; here it is 0."""
    ours, found = returns_of_both([0, 0, 0, 0, 0, 1])
    assert found[2:4] == pytest.approx([9.29, -8.71])
    assert ours[2:4] == [0.0, 0.0]


def test_an_equal_advantage_everywhere() -> None:
    """veRL's whitening multiplies what rounding left of equal advantages by 1e4. Here that is exactly 0."""
    mask, rewards = torch.ones(3, 1, dtype=torch.int64), torch.full((3, 1), 1000.1)
    found, _ = theirs(rewards, torch.zeros(3, 1), mask, 1.0, 1.0)
    assert found.abs().max() > 0.05
    ours, _ = padded_gae(rewards, torch.zeros(3, 1), batch := Batch.from_mask(mask, ["q"] * 3))
    assert not whiten(Signal.of(batch, Level.TOKEN, batch.unpad(ours), name="a"), variance_eps=1e-8).values.any()


def test_a_mask_of_booleans() -> None:
    """veRL computes 1 - mask."""
    with pytest.raises(RuntimeError, match="bool"):
        theirs(torch.zeros(1, 6), VALUES, MASK != 0, 1.0, 0.95)
    ours, _ = padded_gae(torch.zeros(1, 6), VALUES.float(), Batch.from_mask(MASK != 0, ["q"]))
    assert ours.shape == (1, 6)
