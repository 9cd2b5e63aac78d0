"""Real GRPOTrainer runs: what reaches the loss is the recipe's credit, to the last digit that float32 keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from apportion.advantages.aggregation import token_weights
from apportion.integrations.trl import CreditGRPOTrainer
from apportion.integrations.trl.compatibility import trainer_aggregation
from apportion.rollouts import Level
from tests.integrations.trl_adapter.tiny import trainer
from tests.integrations.trl_adapter.watching import Watching, watched_step

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")

# TRL reads CISPO's cap as the ratio itself, so its default of 0.2 would scale every first step down.
CAP = {"cispo": {"epsilon_high": 5.0}}
CLIPPED = ["grpo", "bnpo", "dr_grpo", "dapo", "luspo"]
OTHERS = ["cispo", "sapo", "vespo"]


def in_row_order(made: CreditGRPOTrainer, advantages: torch.Tensor, width: int) -> torch.Tensor:
    """Our credit as padded rows, in the shuffled order of the batch that reached the loss."""
    assert made.last_credit is not None
    ours = made.last_credit.padded(width=width)
    order = [int((ours - row).abs().sum(1).argmin()) for row in advantages]
    return ours[order]


@pytest.mark.parametrize("loss_type", [*CLIPPED, *OTHERS])
def test_the_first_step_uses_our_advantages_with_the_denominator_of_each_loss_type(
    tmp_path: Path, loss_type: str
) -> None:
    made, seen = watched_step(
        tmp_path,
        recipe="rlvp",
        on_aggregation="trainer",
        loss_type=loss_type,
        recipe_args={"variant": "c2"},
        **CAP.get(loss_type, {}),
    )
    advantages, mask = seen["advantages"], seen["mask"]
    assert advantages.shape == mask.shape
    assert torch.equal(in_row_order(made, advantages, mask.shape[1]), advantages)
    assert bool((advantages[mask == 0] == 0).all())
    assert any(len(set(row[m != 0].tolist())) > 1 for row, m in zip(advantages, mask, strict=True))
    batch = made.last_credit.batch  # type: ignore[union-attr]
    aggregation, constant = trainer_aggregation(loss_type, made.max_completion_length)
    weights = batch.pad(token_weights(batch, aggregation, constant=constant), width=mask.shape[1])
    per_row = {tuple(m.tolist()): w for m, w in zip(batch.pad(torch.ones(batch.n_tokens)), weights, strict=True)}
    weights = torch.stack([per_row[tuple(m.float().tolist())] for m in mask])
    if loss_type in CLIPPED:
        assert float(seen["loss"].detach()) == pytest.approx(-float((advantages * mask * weights).sum()), abs=1e-6)
    expected = (-(advantages * mask) * weights).to(torch.float32)
    assert float((seen["logps"].grad - expected).abs().max()) <= 1e-6


@pytest.mark.parametrize("loss_type", [*CLIPPED, *OTHERS])
@pytest.mark.parametrize("recipe", ["rlvp", "grpo", "dr_grpo"])
def test_rescaled_advantages_give_the_gradient_of_the_recipes_own_aggregation(
    tmp_path: Path, loss_type: str, recipe: str
) -> None:
    """The recipe's loss, whatever the trainer divides by: every loss_type yields one and the same gradient."""
    made, seen = watched_step(tmp_path, recipe=recipe, loss_type=loss_type, **CAP.get(loss_type, {}))
    credit = made.last_credit
    assert credit is not None
    constant = float(made.max_completion_length) if recipe == "dr_grpo" else None
    wanted = -credit.advantages.values * credit.loss_weights(constant=constant)
    total = seen["logps"].grad[seen["mask"] != 0].double()
    assert torch.allclose(total.sort().values, wanted.sort().values, atol=1e-6)
    assert torch.allclose(total.sum(), wanted.sum(), atol=1e-6)


def test_turns_are_runs_of_both_masks_and_carry_what_was_recorded(tmp_path: Path) -> None:
    made, _ = watched_step(tmp_path, recipe="rlvp")
    assert [t.n_turns for t in made.last_rollouts] == [1, 2, 3] * 2
    assert [[turn.columns["violations"] for turn in t.turns] for t in made.last_rollouts[:3]] == [
        [0],
        [0, 1],
        [0, 1, 0],
    ]
    assert [t.group for t in made.last_rollouts] == ["0.0"] * 3 + ["0.1"] * 3
    assert all(t.status == "terminated" for t in made.last_rollouts)
    assert all("<|im_end|>" not in turn.text for t in made.last_rollouts for turn in t.turns)
    assert made.last_credit is not None
    assert made.last_credit.rewards["violations"].values.sum() == 4


def test_a_reward_that_gives_none_leaves_the_group(tmp_path: Path) -> None:
    def sometimes(completion_ids: Any, **_: Any) -> list[float | None]:
        return [None if i == 1 else float(i % 2 == 0) for i in range(len(completion_ids))]

    made, seen = watched_step(tmp_path, recipe="dr_grpo", reward_funcs=sometimes)
    credit = made.last_credit
    assert credit is not None
    per_rollout = credit.advantages.pool(Level.TRAJECTORY, "mean")
    assert per_rollout.known.tolist() == [True, False, True, True, True, True]
    assert per_rollout.values.tolist()[:3] == [0.0, 0.0, 0.0]
    assert bool(torch.isfinite(seen["loss"]))


def test_evaluation_with_single_rollouts_leaves_the_state_alone(tmp_path: Path) -> None:
    made = trainer(
        tmp_path, recipe="rlvp", recipe_args={"gate": "reachable"}, num_generations_eval=1, per_device_eval_batch_size=2
    )
    made.evaluate(made.train_dataset.select(range(4)))
    assert made.recipe_state == {}
    assert made.last_credit is not None


def test_two_steps_between_generations_share_one_assignment(tmp_path: Path) -> None:
    made = trainer(
        tmp_path, kind=Watching, recipe="grpo", steps_per_generation=2, per_device_train_batch_size=3, max_steps=2
    )
    made.train()
    halves = [seen["advantages"] for seen in made.seen]
    assert [half.shape[0] for half in halves] == [3, 3]
    ours = made.last_credit.advantages.values.abs().sum()  # type: ignore[union-attr]
    assert sum(float(half.abs().sum()) for half in halves) > 0 or ours == 0
