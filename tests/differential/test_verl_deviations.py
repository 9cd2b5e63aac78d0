"""Where veRL's numbers are deliberately not ours: both stand here, with the reason. veRL's functions are run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from apportion.advantages import (
    gpg,
    grpo,
    padded_advantages,
    pass_at_k_top,
    reinforce_pp,
    remax,
    rloo,
    token_weights,
    whiten,
)
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.differential.verl_rows import Config, Rows, core, functional


def rows_of(*outcome: float, groups: Sequence[str] | None = None, mask: list[list[int]] | None = None) -> Rows:
    return Rows(
        mask=torch.tensor([[1, 1]] * len(outcome) if mask is None else mask),
        outcome=torch.tensor(outcome, dtype=torch.float32),
        groups=list(groups or ["q"] * len(outcome)),
    )


@pytest.mark.parametrize(
    ("name", "value", "size", "theirs"),
    [
        ("grpo", 0.1, 8, -0.0074),
        ("grpo", 0.7, 8, 0.056),
        ("grpo", 1000.1, 8, -0.92),
        ("grpo_vectorized", 0.7, 16, 0.106),
        ("grpo_vectorized", 0.9, 16, 0.106),
        ("grpo", 0.9, 16, -0.056),
    ],
)
def test_equal_rewards(name: str, value: float, size: int, theirs: float) -> None:
    """The float32 residue of a mean, divided by a deviation that is another residue: advantages out of nothing.

    Which sign they have depends on the order of the additions, so the loop and the vectorised form disagree.
    """
    rows = rows_of(*[value] * size)
    made = rows.theirs(name)[:, 0]
    assert made.abs().max().item() == pytest.approx(abs(theirs), rel=0.02)
    assert torch.equal(made, made[:1].expand(size))
    assert not rows.ours(lambda x: grpo(x, dialect="verl")).any()


def test_a_lone_row() -> None:
    """veRL's GRPO divides by 1 + 1e-6; its two forms of RLOO disagree; its pass@k stops the training."""
    rows = rows_of(0.75)
    assert rows.to(torch.float64).theirs("grpo")[0, 0].item() == pytest.approx(0.75 / (1 + 1e-6), abs=1e-7)
    assert rows.ours(lambda x: grpo(x, dialect="verl"))[0, 0].item() == pytest.approx(0.75, abs=1e-7)
    assert rows.ours(grpo)[0, 0].item() == 0.0
    assert rows.theirs("rloo")[0, 0].item() == pytest.approx(0.75)
    assert rows.theirs("rloo_vectorized")[0, 0].item() == 0.0
    assert rows.ours(rloo)[0, 0].item() == 0.0
    with pytest.raises(ValueError, match="at least 2 samples"):
        rows.theirs("grpo_passk", config=Config())
    assert rows.ours(pass_at_k_top)[0, 0].item() == 0.0


def test_a_reward_on_a_masked_token() -> None:
    """An episode that ends on an observation. veRL counts its reward in some estimators and loses it in others.

    Here somebody has to say: "fold" gives it to the policy token before it, "drop" takes it away, in each of them.
    """
    mask, groups = torch.tensor([[1, 1, 0], [1, 1, 1]]), ["q", "q"]
    rewards = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    index = np.array(groups, dtype=object)
    counted, _ = core.compute_grpo_outcome_advantage(rewards.clone(), mask, index)
    assert counted[:, 0].tolist() == pytest.approx([0.7071, -0.7071], abs=1e-4)
    with pytest.raises(InvalidArgument, match="masked_rewards='fold'"):
        padded_advantages(grpo, rewards, mask, groups)
    ours = padded_advantages(lambda x: grpo(x, dialect="verl"), rewards, mask, groups, masked_rewards="fold")
    torch.testing.assert_close(ours, counted, rtol=1e-5, atol=1e-6)

    lost, _ = core.compute_reinforce_plus_plus_outcome_advantage(rewards, mask, Config(gamma=1.0))
    assert not lost.any()
    folded = padded_advantages(reinforce_pp, rewards, mask, groups, masked_rewards="fold")
    assert folded[:, 0].tolist() == pytest.approx([1.0954, -0.7303], abs=1e-4)
    dropped = padded_advantages(reinforce_pp, rewards, mask, groups, masked_rewards="drop")
    assert not dropped.any()


def test_a_row_without_policy_tokens() -> None:
    """veRL keeps a rejected or padding row in its group's baseline. Here a row that no token wrote has no reward."""
    rows = rows_of(1.0, 0.0, 0.0, mask=[[1, 1], [1, 0], [0, 0]])
    rows_rewards = torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 5.0]])
    theirs, _ = core.compute_grpo_outcome_advantage(rows_rewards.clone(), rows.mask, rows.index)
    assert theirs[:, 0].tolist() == pytest.approx([-0.378, -0.756, 0.0], abs=1e-3)
    ours = padded_advantages(lambda x: grpo(x, dialect="verl"), rows_rewards, rows.mask, rows.groups)
    assert ours[:, 0].tolist() == pytest.approx([0.7071, -0.7071, 0.0], abs=1e-4)


def test_the_scale_of_gpg() -> None:
    """The paper counts the rows of groups without variance, veRL the rewards that are 0."""
    rows = rows_of(1, 1, 1, 1, 1, 0, 0, 0, groups=["a"] * 4 + ["b"] * 4)
    assert rows.theirs("gpg")[:, 0].tolist() == pytest.approx([0.0] * 4 + [1.2, -0.4, -0.4, -0.4])
    assert rows.ours(gpg)[:, 0].tolist() == [0.0] * 4 + [1.5, -0.5, -0.5, -0.5]


def test_a_missing_reward() -> None:
    """One NaN spoils its group in veRL, or the whole batch where there is a whitening. Here it is missing."""
    rows = rows_of(1.0, 0.0, float("nan"), 1.0, 0.5, groups=["a", "a", "a", "b", "b"])
    poisoned = rows.theirs("grpo").isnan()[:, 0]
    assert poisoned.tolist() == [True, True, True, False, False]
    assert rows.theirs("reinforce_plus_plus_baseline").isnan()[:, 0].all()
    ours = padded_advantages(lambda x: grpo(x, dialect="verl"), rows.outcome, rows.mask, rows.groups)
    assert ours[:, 0].tolist() == pytest.approx([0.7071, -0.7071, 0.0, 0.7071, -0.7071], abs=1e-4)


def test_values_on_observation_tokens() -> None:
    """veRL's ReMax leaves what is still to come on tokens that the policy did not write; no loss looks at them."""
    rows = rows_of(0.5, mask=[[0, 1]])
    greedy = torch.tensor([0.125])
    assert rows.theirs("remax", reward_baselines=greedy).tolist() == [[0.5, 0.375]]
    assert rows.ours(lambda x: remax(x, baseline=greedy)).tolist() == [[0.0, 0.375]]


def test_whitening_where_everything_is_equal() -> None:
    """veRL multiplies the residue of the mean by 1e4, the root of its 1e-8."""
    mask = torch.ones(3, 3, dtype=torch.int64)
    values = torch.full((3, 3), 1000.1)
    theirs = functional.masked_whiten(values, mask)
    assert theirs.abs().max() > 0.5
    x = Signal.of((batch := Batch.from_mask(mask, ["q"] * 3)), Level.TOKEN, batch.unpad(values), name="x")
    assert not whiten(x, variance_eps=1e-8).values.any()


def test_whitening_a_single_token() -> None:
    """veRL raises in the middle of a step. Here there is nothing to whiten, and `whitening_skipped` says so."""
    rows = rows_of(0.7, mask=[[1, 0]])
    with pytest.raises(ValueError, match="sum of the mask is one"):
        rows.theirs("reinforce_plus_plus", config=Config(gamma=1.0))
    assert rows.ours(reinforce_pp)[0].tolist() == pytest.approx([0.7, 0.0])


def test_a_mask_of_booleans() -> None:
    """veRL's REINFORCE++ computes 1 - mask, which booleans do not have."""
    rows = rows_of(1.0, 0.0)
    boolean = Rows(mask=rows.mask != 0, outcome=rows.outcome, groups=rows.groups)
    with pytest.raises(RuntimeError, match="bool"):
        core.compute_reinforce_plus_plus_outcome_advantage(rows.rewards, boolean.mask, Config(gamma=1.0))
    whole = padded_advantages(reinforce_pp, rows.rewards, rows.mask, rows.groups)
    assert torch.equal(padded_advantages(reinforce_pp, rows.rewards, boolean.mask, rows.groups), whole)


def test_a_flag_that_does_nothing() -> None:
    """The configuration switches the deviation off; the vectorised form of veRL's GRPO never reads it."""
    rows, config = rows_of(1.0, 0.0, 0.0, 0.0), Config(norm_adv_by_std_in_grpo=False)
    assert rows.theirs("grpo_vectorized", config=config)[0, 0].item() == pytest.approx(1.5, abs=1e-4)
    assert rows.ours(lambda x: grpo(x, dialect="verl", scale="none"))[0, 0].item() == 0.75


def test_a_row_without_policy_tokens_counts_when_veRL_is_told_the_size_of_the_batch() -> None:
    """Its distributed trainer always tells: then a padding row is in the denominator. Here it never is."""
    mask = torch.tensor([[1, 1], [0, 0]])
    loss = torch.ones(2, 2)
    assert core.agg_loss(loss, mask, "seq-mean-token-mean").item() == pytest.approx(1.0)
    assert core.agg_loss(loss, mask, "seq-mean-token-mean", global_batch_size=2).item() == pytest.approx(0.5)
    assert token_weights(Batch.from_mask(mask, ["a", "a"]), "seq-mean-token-mean").sum().item() == 1.0


def test_infinite_rewards_are_named() -> None:
    with pytest.raises(InvalidArgument, match="inf"):
        rewards_signal([float("inf"), 0.0])
