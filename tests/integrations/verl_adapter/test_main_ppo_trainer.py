"""A real training run of veRL through apportion's trainer, with a critic: what reached the actor is the library's."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from apportion.recipes import load
from apportion.rollouts import Trajectory
from tests.differential import needs

pytestmark = pytest.mark.skipif(os.environ.get("APPORTION_VERL_RUNS") != "1", reason="run with make test-verl")

needs.trainer("verl", extra="verl")

REWARD = '''
"""The outcome follows from which session it is."""


def reward(trajectory):
    return ((trajectory.columns["session"] + trajectory.columns["index"]) % 3) / 2
'''


def test_turn_gae_with_a_critic(tmp_path: Path) -> None:
    from tests.integrations.verl_adapter.cpu_platform import HERE, harness

    recipe = load("turn_gae")
    file = tmp_path / "rewards.py"
    file.write_text(REWARD)
    model, optimiser = "critic.model", "critic.fsdp"
    made = harness.run_main_ppo(
        tmp_path,
        {
            "algorithm.adv_estimator": "apportion_turn_gae",
            "trainer.v1.trainer_mode": "apportion_sync",
            "reward.custom_reward_function.path": "pkg://apportion.integrations.verl",
            "+reward.custom_reward_function.reward_kwargs.reward": file,
            "critic.enable": True,
            "critic.strategy": "fsdp2",
            "critic.ppo_micro_batch_size_per_gpu": 8,
            "critic.ppo_mini_batch_size": 2,
            f"{model}.path": tmp_path / "model",
            f"{model}.tokenizer_path": tmp_path / "model",
            f"+{model}.override_config.attn_implementation": "eager",
            f"{model}.use_remove_padding": False,
            f"{model}.enable_gradient_checkpointing": False,
            f"{optimiser}.dtype": "float32",
            f"{optimiser}.model_dtype": "float32",
            f"{optimiser}.use_torch_compile": False,
        },
        loop=f"{HERE}.loops.CreditScriptedLoop",
        limit=900,
    )
    assert made.returncode == 0, made.output[-4000:]
    assert len(made.actor) == 2
    for step in made.actor:
        found = {(one["uid"], tuple(one["ids"])): one for one in made.sessions}
        rollouts = []
        mask, values = step["response_mask"], step["values"].to(torch.float64).numpy()
        for i, (uid, row) in enumerate(zip(step["uid"], step["responses"].tolist(), strict=True)):
            one = next(found[key] for n in range(len(row), 0, -1) if (key := (uid, tuple(row[:n]))) in found)
            outcome = ((one["session"] + one["index"]) % 3) / 2
            own = np.asarray(mask[i], bool)
            rollouts.append(
                Trajectory(
                    id=str(i),
                    group=uid,
                    response_ids=row,
                    policy=own,
                    token_columns={"values": values[i]},
                    columns={"reward": outcome},
                )
            )
        wanted = recipe.score(rollouts)[0].padded(width=mask.shape[1])
        assert torch.allclose(step["advantages"], wanted, rtol=0, atol=1e-6)
        assert float(step["advantages"].abs().max()) > 1e-2
        assert float(np.abs(values[np.asarray(mask, bool)]).max()) > 0
    assert "apportion/rewards/outcome/mean" in made.output
