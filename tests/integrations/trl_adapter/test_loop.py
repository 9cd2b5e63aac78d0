"""TRL's other ways to run a step: masks, several iterations, evaluation, a reference model, plain conversations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from apportion.errors import InvalidArgument
from apportion.integrations.trl.compatibility import trainer_aggregation
from apportion.rollouts import Level
from tests.integrations.trl_adapter import tiny
from tests.integrations.trl_adapter.watching import Watching, watched_step

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")

CAP = {"cispo": {"epsilon_high": 5.0}}
CHAT = [{"prompt": [{"role": "user", "content": f"q{i}"}], "reference": str(i)} for i in range(4)]


def cut_short(prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
    """`three_turns`, where rollouts 1 and 4 stop without an end token."""
    rows = tiny.three_turns(prompts, trainer)
    for i in (1, 4):
        rows["completion_ids"][i][-1] = 50
    return rows


@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dr_grpo", "dapo", "luspo", "sapo"])
@pytest.mark.parametrize("recipe", ["rlvp", "grpo", "dr_grpo"])
def test_masked_truncated_completions_leave_every_denominator(tmp_path: Path, loss_type: str, recipe: str) -> None:
    """TRL counts their rows in its means over sequences; the gradient is the recipe's all the same."""
    made, seen = watched_step(
        tmp_path,
        recipe=recipe,
        loss_type=loss_type,
        rollout_func=cut_short,
        mask_truncated_completions=True,
        **CAP.get(loss_type, {}),
    )
    assert [t.status == "truncated" for t in made.last_rollouts] == [False, True, False] * 2
    assert [bool(t.own.any()) for t in made.last_rollouts if t.own is not None] == [True, False, True] * 2
    assert all(t.layout().turn_lengths.all() for t in made.last_rollouts)
    assert [len(t.turns) for t in made.last_rollouts] == [1, 2, 3] * 2
    credit = made.last_credit
    assert credit is not None
    assert credit.batch.status.tolist() == [0, 1, 0] * 2
    constant = float(made.max_completion_length) if recipe == "dr_grpo" else None
    assert credit.batch.own is not None
    wanted = (-credit.advantages.values * credit.loss_weights(constant=constant))[credit.batch.own]
    total = seen["logps"].grad[seen["mask"] != 0].double()
    assert torch.allclose(total.sort().values, wanted.sort().values, atol=1e-6)
    assert float(seen["logps"].grad[seen["mask"] == 0].abs().sum()) == 0.0


def test_masked_rows_stay_in_the_baseline(tmp_path: Path) -> None:
    """They were scored, so their group knows them; only their tokens are not trained on."""
    made, _ = watched_step(tmp_path, recipe="dr_grpo", rollout_func=cut_short, mask_truncated_completions=True)
    assert made.last_credit is not None
    outcome = made.last_credit.rewards["outcome"].values
    expected = outcome - outcome.view(2, 3).mean(1).repeat_interleave(3)
    per_rollout = made.last_credit.advantages.pool(Level.TRAJECTORY, "mean").values
    assert float(per_rollout[[1, 4]].abs().sum()) == 0.0
    assert torch.allclose(per_rollout[[0, 2, 3, 5]], expected[[0, 2, 3, 5]])


def test_several_iterations_train_on_one_assignment(tmp_path: Path) -> None:
    made, _ = watched_step(
        tmp_path,
        recipe="dr_grpo",
        num_iterations=2,
        steps_per_generation=2,
        per_device_train_batch_size=3,
        max_steps=4,
    )
    first, second, third, fourth = (seen["advantages"] for seen in made.seen)
    assert torch.equal(first, third)
    assert torch.equal(second, fourth)
    assert [t.id for t in made.last_rollouts] == [f"0.{i}" for i in range(6)]
    assert {seen["advantages"].shape for seen in made.seen} == {first.shape}


def test_micro_batches_of_one_step_add_up_to_the_recipes_gradient(tmp_path: Path) -> None:
    for loss_type in ("grpo", "dapo", "dr_grpo", "luspo"):
        made, _ = watched_step(
            tmp_path,
            recipe="rlvp",
            loss_type=loss_type,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=3,
        )
        assert made.last_credit is not None
        wanted = -made.last_credit.advantages.values * made.last_credit.loss_weights()
        total = torch.cat([seen["logps"].grad[seen["mask"] != 0] for seen in made.seen]).double()
        assert torch.allclose(total.sort().values, wanted.sort().values, atol=1e-6)


def test_bnpo_cannot_be_made_up_for_over_micro_batches(tmp_path: Path) -> None:
    split = {"loss_type": "bnpo", "per_device_train_batch_size": 2, "gradient_accumulation_steps": 3}
    with pytest.raises(InvalidArgument, match=r"'dapo'.*3 micro-batches"):
        tiny.trainer(tmp_path, recipe="rlvp", **split)
    tiny.trainer(tmp_path, recipe="rlvp", on_aggregation="trainer", **split)


def test_evaluation_during_training_keeps_its_metrics_apart(tmp_path: Path) -> None:
    """Evaluation batches may be larger than TRL's tables, and groups of one."""
    rows = [{"prompt": f"task {i}"} for i in range(10)]
    made: Any = tiny.trainer(
        tmp_path,
        recipe="rlvp",
        eval_dataset=tiny.dataset(rows),
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=8,
        num_generations_eval=1,
        log_completions=True,
        logging_strategy="steps",
        logging_steps=1,
        max_steps=2,
    )
    made.train()
    trained, evaluated = made.state.log_history[0], made.state.log_history[1]
    assert "apportion/credit/std" in trained
    assert evaluated["eval_apportion/groups/outcome/effective_n"] == 1.0
    assert "eval_frac_reward_zero_std" not in evaluated
    assert len(made._logs["advantages"]) == len(made._logs["prompt"]) == 6


def test_a_reference_model_keeps_its_own_term(tmp_path: Path) -> None:
    """With beta, TRL adds its KL; the part that the advantages drive stays ours."""
    words = tiny.tokenizer()
    tiny.model(len(words)).save_pretrained(tmp_path / "model")
    made, seen = watched_step(tmp_path, recipe="rlvp", model=str(tmp_path / "model"), beta=0.1)
    mask, advantages = seen["mask"], seen["advantages"]
    expected = -(advantages * mask) / mask.sum()
    # On the first step policy and reference agree, where the KL term and its gradient are 0.
    assert float((seen["logps"].grad - expected).abs().max()) <= 1e-6
    assert made.last_credit is not None


def test_plain_conversations_generated_by_the_model(tmp_path: Path) -> None:
    made, seen = watched_step(
        tmp_path,
        recipe="grpo",
        rollout_func=None,
        rows=CHAT,
        max_completion_length=8,
        reward_funcs=lambda completion_ids, **_: [float(ids[0] % 2) for ids in completion_ids],
    )
    for rollout in made.last_rollouts:
        (turn,) = rollout.turns
        assert rollout.messages[0]["role"] == "assistant"
        assert turn.text == rollout.messages[0]["content"]
        assert turn.span == (0, rollout.response_ids.size)  # type: ignore[union-attr]
        assert rollout.columns["prompt"] == CHAT[int(rollout.reference)]["prompt"]
    assert torch.equal(seen["advantages"] != 0, (seen["advantages"] != 0) & (seen["mask"] != 0))


def test_every_end_token_ends_a_rollout(tmp_path: Path) -> None:
    words = tiny.tokenizer()
    weights = tiny.model(len(words))
    weights.generation_config.eos_token_id = [2, 50]
    made, _ = watched_step(tmp_path, recipe="grpo", model=weights, rollout_func=cut_short)
    assert [t.status for t in made.last_rollouts] == ["terminated"] * 6


def test_a_rollout_func_says_how_rollouts_ended(tmp_path: Path) -> None:
    def broken(prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        rows = tiny.three_turns(prompts, trainer)
        rows["rollout_status"] = ["aborted", "truncated", *["terminated"] * 4]
        rows["rollout_error"] = ["sandbox lost", *[None] * 5]
        rows["turn_rewards"] = [[0.5] * (1 + i % 3) for i in range(6)]
        return rows

    made, _ = watched_step(tmp_path, recipe="dr_grpo", rollout_func=broken)
    assert [t.status for t in made.last_rollouts[:3]] == ["aborted", "truncated", "terminated"]
    assert [turn.reward for turn in made.last_rollouts[2].turns] == [0.5] * 3
    assert made.last_credit is not None
    assert made.last_credit.rewards["outcome"].known.tolist() == [False, *[True] * 5]

    def wrong(prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        return {**tiny.three_turns(prompts, trainer), "rollout_status": ["fine"] * 6}

    with pytest.raises(InvalidArgument, match="one of terminated, truncated, aborted"):
        watched_step(tmp_path, recipe="grpo", rollout_func=wrong)


def test_one_ratio_per_sequence_takes_per_token_credit(tmp_path: Path) -> None:
    _, seen = watched_step(
        tmp_path, recipe="rlvp", loss_type="grpo", importance_sampling_level="sequence", on_aggregation="trainer"
    )
    aggregation, _ = trainer_aggregation("grpo", 24)
    assert aggregation == "seq-mean-token-mean"
    mask, advantages = seen["mask"], seen["advantages"]
    lengths = mask.sum(1, keepdim=True)
    # The ratio's gradient spreads a row's mean advantage over its tokens.
    per_row = (advantages * mask).sum(1, keepdim=True) / lengths
    expected = -(per_row * mask) / lengths / mask.shape[0]
    assert float((seen["logps"].grad - expected).abs().max()) <= 1e-6


def test_a_trainer_that_scores_other_rows_than_it_returns_is_named(tmp_path: Path) -> None:
    class Filtering(Watching):
        def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
            made = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
            self._scored["ids"] = self._scored["ids"][:-1]
            return made

    with pytest.raises(InvalidArgument, match="calls _calculate_rewards once"):
        watched_step(tmp_path, kind=Filtering, recipe="grpo")
