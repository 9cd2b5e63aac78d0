"""The recipe's loss aggregation and the actor's: held against the gradient of veRL's own `agg_loss`."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import Tensor

from apportion.advantages.aggregation import token_weights
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.integrations.verl import aggregation
from apportion.recipes import load
from tests.integrations.verl_adapter.test_estimator import MASK, UIDS, algorithm, at_last, computed, core

MODES = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
HORIZON = 16
REWARDS = at_last([1.0, 0.25, 0.0, 0.0, 0.5])


def gradient(advantages: Tensor, mode: str) -> Tensor:
    """Of veRL's loss in the log-probabilities, the whole batch as one mini-batch."""
    logps = torch.zeros(MASK.shape, requires_grad=True)
    loss = core.agg_loss(
        -advantages * logps,
        MASK.float(),
        mode,
        batch_num_tokens=int(MASK.sum()),
        global_batch_size=len(MASK),
        loss_scale_factor=HORIZON,
    )
    loss.backward()
    assert logps.grad is not None
    return logps.grad


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("recipe", ["grpo", "rloo", "dr_grpo", "opo"])
def test_rescaled_advantages_give_the_recipes_gradient(recipe: str, mode: str) -> None:
    settings: dict[str, Any] = {"loss_agg_mode": mode, "on_aggregation": "rescale", "loss_scale_factor": HORIZON}
    made, _ = computed(REWARDS, config=algorithm(f"apportion_{recipe}", **settings))
    plain, _ = computed(REWARDS, config=algorithm(f"apportion_{recipe}"))
    keep = MASK.any(1)
    batch = Batch.from_mask(MASK[keep], [u for u, k in zip(UIDS, keep.tolist(), strict=True) if k])
    assumed = load(recipe).aggregation
    constant = HORIZON if assumed == "seq-mean-token-sum-norm" else None
    expected = torch.zeros(MASK.shape, dtype=torch.float64)
    expected[keep] = -batch.pad(token_weights(batch, assumed, constant=constant), width=6) * plain[keep]
    if mode == assumed:
        # Then nothing is rescaled, and veRL's mean over sequences counts the padding.
        expected *= keep.sum() / len(keep) if mode.startswith("seq-mean") else 1.0
    assert torch.allclose(gradient(made, mode), expected.float(), atol=1e-6)


def test_a_difference_is_said_once_and_refused_when_asked(caplog: pytest.LogCaptureFixture) -> None:
    aggregation._warn.cache_clear()
    with caplog.at_level(logging.WARNING, logger="apportion"):
        for _ in range(3):
            computed(REWARDS, config=algorithm("apportion_grpo", loss_agg_mode="token-mean"))
    assert caplog.text.count("assumes loss_agg_mode=seq-mean-token-mean; the trainer computes token-mean") == 1
    with pytest.raises(InvalidArgument, match="loss_agg_mode='token-mean': expected seq-mean-token-mean"):
        computed(REWARDS, config=algorithm("apportion_grpo", loss_agg_mode="token-mean", on_aggregation="refuse"))
    computed(REWARDS, config=algorithm("apportion_grpo", loss_agg_mode="seq-mean-token-mean", on_aggregation="refuse"))


def test_what_an_estimator_cannot_see_must_be_told() -> None:
    with pytest.raises(InvalidArgument, match=r"loss_agg_mode=None.*\$\{actor_rollout_ref\.actor\.loss_agg_mode\}"):
        computed(REWARDS, config=algorithm("apportion_grpo", on_aggregation="rescale"))
    with pytest.raises(InvalidArgument, match="loss_scale_factor=None"):
        computed(REWARDS, config=algorithm("apportion_dr_grpo", on_aggregation="rescale", loss_agg_mode="token-mean"))


def test_the_actors_mode_is_told_by_interpolation() -> None:
    from omegaconf import OmegaConf

    told = "${actor_rollout_ref.actor.loss_agg_mode}"
    section = {
        "adv_estimator": "apportion_grpo",
        "apportion": {"loss_agg_mode": told, "on_aggregation": "refuse"},
        "use_kl_in_reward": False,
    }
    whole = OmegaConf.create({"actor_rollout_ref": {"actor": {"loss_agg_mode": "token-sum"}}, "algorithm": section})
    with pytest.raises(InvalidArgument, match="loss_agg_mode='token-sum'"):
        computed(REWARDS, config=whole.algorithm)
