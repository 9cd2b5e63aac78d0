"""veRL's own advantage step over a hand-made queue, with the estimator that is the trainer's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.integrations.doctor.verl_config import compose
from apportion.integrations.verl.encoding import FAILED, UNRECORDED, Layout, encode
from apportion.integrations.verl.trainer_contract import ChangedTrainer, check_contract
from apportion.integrations.verl.trainer_credit import Given, credit_rows
from apportion.integrations.verl.trainer_rows import read_rows
from apportion.integrations.verl.trainer_state import folder_to_resume, read_state, write_state
from apportion.recipes import load
from apportion.rollouts import Trajectory, Turn
from apportion.verdicts import Failed, Scored
from tests.differential import needs
from tests.integrations.verl_adapter.cpu_platform import tiny

queue = needs.trainer("transfer_queue", extra="verl")
ours = needs.trainer("apportion.integrations.verl.trainer", extra="verl")
core = needs.trainer("verl.trainer.ppo.core_algos", extra="verl")
omegaconf = needs.trainer("omegaconf", extra="verl")
tensordict = needs.trainer("tensordict", extra="verl")
base = needs.trainer("verl.trainer.ppo.v1.trainer_base", extra="verl")

MASKS = [[1, 1, 0, 1], [1, 1], [1, 0, 1, 1, 0], [1]]
UIDS = ["a", "b", "b", "a"]
REWARDS = [1.0, 0.0, 0.5, 0.25]
VALUES = [[0.1, 0.2, 0.9, 0.4], [0.3, 0.1], [0.5, 0.9, 0.2, 0.6, 0.9], [0.7]]
LOGPS = [[-1.0] * len(mask) for mask in MASKS]


def nested(rows: Sequence[Sequence[float]], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(row, dtype=dtype) for row in rows], layout=torch.jagged)


def scores(rewards: Sequence[float] = REWARDS) -> list[list[float]]:
    rows = []
    for mask, reward in zip(MASKS, rewards, strict=True):
        row = [0.0] * len(mask)
        row[max(i for i, m in enumerate(mask) if m)] = reward
        rows.append(row)
    return rows


def stored(facts: Sequence[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """The queue's fields, ragged."""
    rows = [[10 + i] * len(mask) for i, mask in enumerate(MASKS)]
    objects: Any = tensordict.NonTensorStack
    return {
        "uid": objects(*UIDS),
        "prompts": nested([[1, 2]] * 4, torch.int64),
        "responses": nested(rows, torch.int64),
        "response_mask": nested(MASKS, torch.int64),
        "rm_scores": nested(scores()),
        "rollout_log_probs": nested(LOGPS),
        "old_log_probs": nested(LOGPS),
        "extra_fields": objects(*(facts or [{} for _ in MASKS])),
        **more,
    }


class Trainer:
    """A `CreditTrainer` with a queue of one batch in place of the real one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, estimator: str, *overrides: str) -> None:
        monkeypatch.setattr(core, "ADV_ESTIMATOR_REGISTRY", dict(core.ADV_ESTIMATOR_REGISTRY))
        given = [f"algorithm.adv_estimator={estimator}", "trainer.v1.trainer_mode=apportion_sync", *overrides]
        self.trainer = ours.CreditTrainer(compose(overrides=given))
        self.trainer.global_steps, self.trainer.tokenizer = 3, tiny.tokenizer()
        self.put: dict[str, Tensor] = {}
        self.metrics: dict[str, Any] = {}
        self.fields: dict[str, Any] = {}
        monkeypatch.setattr(queue, "kv_batch_get", self.get)
        monkeypatch.setattr(queue, "kv_batch_put", self.keep)

    def get(self, keys: Any, partition_id: str, select_fields: Any = None) -> Any:
        found = {name: value for name, value in self.fields.items() if name in select_fields}
        return tensordict.TensorDict(found, batch_size=[len(keys)])

    def keep(self, keys: Any, partition_id: str, fields: Any = None, **_: Any) -> Any:
        self.put = {name: field.to_padded_tensor(0.0) for name, field in fields.items()}
        return SimpleNamespace(keys=keys, partition_id=partition_id)

    def step(self, fields: dict[str, Any]) -> Tensor:
        self.fields = fields
        keys = [f"{uid}_{i}_0" for i, uid in enumerate(UIDS)]
        self.trainer._compute_advantage(queue.KVBatchMeta(keys=keys, partition_id="train", tags=[{}] * 4), self.metrics)
        return self.put["advantages"]


def rollouts(rewards: Sequence[float] = REWARDS, turns: Any = None) -> list[Trajectory]:
    return [
        Trajectory(
            id=str(i),
            group=uid,
            prompt_ids=[1, 2],
            response_ids=[10 + i] * len(mask),
            policy=mask,
            behaviour_logps=LOGPS[i],
            token_columns={"values": np.array(VALUES[i])},
            columns={"reward": rewards[i]},
            turns=() if turns is None else turns[i],
        )
        for i, (uid, mask) in enumerate(zip(UIDS, MASKS, strict=True))
    ]


def test_the_mode_is_verls_own_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Trainer(monkeypatch, "apportion_ppo", "critic.enable=True").trainer
    assert made.trainer_mode == "sync"
    assert type(made.replay_buffer) is base.ReplayBuffer
    assert made.use_critic
    assert base.get_trainer_cls("apportion_sync") is ours.CreditTrainer


@pytest.mark.parametrize("recipe", ["ppo", "turn_gae", "vapo"])
def test_values_reach_a_recipe_with_a_critic(monkeypatch: pytest.MonkeyPatch, recipe: str) -> None:
    made = Trainer(monkeypatch, f"apportion_{recipe}", "critic.enable=True")
    found = made.step(stored(values=nested(VALUES)))
    batch = Batch.pack(rollouts())
    credit, _ = load(recipe).score(rollouts())
    assert torch.allclose(found, credit.padded(width=5), atol=1e-6)
    assert float(found.abs().max()) > 0.1
    targets = credit.returns.spread(credit.advantages.level)  # type: ignore[union-attr]
    wanted = batch.pad(torch.where(targets.known, targets.values, batch.token_columns["values"]).float(), width=5)
    assert torch.allclose(made.put["returns"], wanted, atol=1e-6)
    assert made.metrics["apportion/rewards/outcome/mean"] == pytest.approx(sum(REWARDS) / 4)


def test_turn_columns_from_extra_fields_and_carried_verdicts_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load("rlvp")
    counts = [[{"violations": 1, "fulfilments": 0}] * (2 if 0 in mask[:3] else 1) for mask in MASKS]
    facts = [{"turn_columns": columns} for columns in counts]
    override = "actor_rollout_ref.actor.loss_agg_mode=token-sum"
    asked = Trainer(monkeypatch, "apportion_rlvp", override).step(stored(facts))
    spans = [((0, 3), (3, 4)), ((0, 2),), ((0, 2), (2, 5)), ((0, 1),)]
    turns = [
        tuple(Turn(span=span, columns=c) for span, c in zip(row, columns, strict=True))
        for row, columns in zip(spans, counts, strict=True)
    ]
    wanted = recipe.score(rollouts(turns=turns))[0].padded(width=5)
    assert torch.allclose(asked, wanted, atol=1e-6)
    layout = Layout.of(recipe.observers)
    dense = []
    long = [mask + [0] * 6 for mask in MASKS]
    for mask, columns, reward in zip(long, counts, REWARDS, strict=True):
        verdicts = [[Scored(reward)], *([Scored(float(c[name])) for c in columns] for name in layout.names[1:])]
        dense.append(encode(layout, verdicts, score=reward, mask=np.array(mask, bool), kl_in_reward=False).tolist())
    more = {
        "response_mask": nested(long, torch.int64),
        "responses": nested([[1] * len(mask) for mask in long], torch.int64),
        "rm_scores": nested(dense),
        "rollout_log_probs": nested([[-1.0] * len(mask) for mask in long]),
        "old_log_probs": nested([[-1.0] * len(mask) for mask in long]),
    }
    carried = Trainer(monkeypatch, "apportion_rlvp", override).step(stored(**more))
    assert torch.allclose(carried[:, :5], wanted, atol=1e-6)


def test_a_column_that_no_rollout_carried_is_a_wrong_name(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout.of(load("rlvp").observers)
    long = [mask + [0] * 6 for mask in MASKS]
    turns = [1 + (0 in mask[:3] and len(mask) > 3) for mask in MASKS]
    dense = [
        encode(
            layout,
            [[Scored(1.0)], [UNRECORDED] * n, [UNRECORDED] * n],
            score=1.0,
            mask=np.array(mask, bool),
            kl_in_reward=False,
        ).tolist()
        for mask, n in zip(long, turns, strict=True)
    ]
    padded = nested([[-1.0] * len(mask) for mask in long])
    more = {"responses": nested([[1] * len(mask) for mask in long], torch.int64), "rm_scores": nested(dense)}
    more |= {"response_mask": nested(long, torch.int64), "rollout_log_probs": padded, "old_log_probs": padded}
    made = Trainer(monkeypatch, "apportion_rlvp", "actor_rollout_ref.actor.loss_agg_mode=token-sum")
    with pytest.raises(MissingInput, match="violations"):
        made.step(stored(**more))


def test_kl_moves_the_outcome_and_a_marker_survives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kl = ["algorithm.use_kl_in_reward=True", "algorithm.kl_ctrl.kl_coef=0.5"]
    made = Trainer(monkeypatch, "apportion_grpo", *kl)
    reference = nested([[-1.5] * len(mask) for mask in MASKS])
    found = made.step(stored(ref_log_prob=reference, rm_scores=nested(scores([1.0, FAILED, 0.5, 0.25]))))
    moved = [r - 0.25 * sum(mask) for r, mask in zip(REWARDS, MASKS, strict=True)]
    verdicts = [Scored(m) for m in moved]
    batch = Batch.pack(rollouts())
    credit, _ = load("grpo").assign(batch, {"outcome": [verdicts[0], Failed("lost"), *verdicts[2:]]})
    assert torch.allclose(found, credit.padded(width=5), atol=1e-5)
    assert not found[1].any()


def test_rejected_tokens_leave_the_loss_but_split_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Trainer(monkeypatch, "apportion_ppo", "critic.enable=True").trainer
    fields = stored(values=nested(VALUES))
    rows = read_rows(tensordict.TensorDict(fields, batch_size=[4]), [str(i) for i in range(4)])
    mask = fields["response_mask"].to_padded_tensor(0) != 0
    mask[2, 2], mask[3] = False, False
    rewards = fields["rm_scores"].to_padded_tensor(0.0)
    credited = credit_rows(
        Given(rows=rows, rewards=rewards, mask=mask), made.settings, step=1, state={}, tokenizer=tiny.tokenizer()
    )
    assert credited.credit is not None
    assert credited.credit.batch.turns.tolist() == [2, 1, 2]
    assert not credited.advantages[~mask].any()
    assert credited.advantages[2, 3] != 0


def test_values_of_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Trainer(monkeypatch, "apportion_ppo", "critic.enable=True", "+algorithm.apportion.whitening=none")
    found = made.step(stored(values=nested([[0.5] * len(mask) for mask in MASKS], torch.bfloat16)))
    assert found[3, 0] == -0.25


def test_columns_beside_the_score(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = [{"rollout_columns": {"greedy_reward": 0.5}, "reward_extra_info": {"format": 1.0}} for _ in MASKS]
    found = Trainer(monkeypatch, "apportion_remax").step(stored(facts))
    assert found[0].tolist() == pytest.approx([0.5, 0.5, 0, 0.5, 0])
    teacher = [[[0.0], [-2.0], *([[-3.0]] * (len(mask) - 1)), [9.0]] for mask in MASKS]
    fields = stored(facts, teacher_logprobs=nested(teacher))
    (first, *_) = read_rows(tensordict.TensorDict(fields, batch_size=[4]), list("abcd"))
    assert first.tokens["teacher_logps"].tolist() == [-2.0, -3.0, -3.0, -3.0]
    with pytest.raises(MissingInput, match="greedy_reward"):
        Trainer(monkeypatch, "apportion_remax").step(stored())


def test_what_is_stored_wrongly_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Trainer(monkeypatch, "apportion_grpo")
    with pytest.raises(InvalidArgument, match="segment_values: 2"):
        made.step(stored([{"token_columns": {"segment_values": [0.0, 1.0]}}] * 4))
    fields = stored()
    del fields["prompts"]
    with pytest.raises(InvalidArgument, match="'prompts'"):
        made.step(fields)


def test_a_changed_verl_is_told_at_start_up(monkeypatch: pytest.MonkeyPatch) -> None:
    config = compose(overrides=["algorithm.adv_estimator=apportion_grpo"])

    class Changed:
        def _compute_advantage(self, batch: Any, metrics: Any, timing: Any) -> None: ...

        def _save_checkpoint(self) -> None: ...

        _build_replay_buffer = _save_checkpoint

    with pytest.raises(ChangedTrainer) as caught:
        check_contract(Changed, config, SimpleNamespace(), core)
    said = str(caught.value)
    assert len(caught.value.missing) == 3
    for part in ("no Changed._load_checkpoint", "wants 'timing'", "no transfer_queue.kv_batch_get"):
        assert part in said
    omegaconf.OmegaConf.set_struct(config, False)
    del config.trainer["default_local_dir"]
    with pytest.raises(ChangedTrainer, match=r"no setting trainer\.default_local_dir"):
        check_contract(ours.PPOTrainerSync, config, queue, core)


def test_a_step_that_does_not_ask_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Trainer(monkeypatch, "apportion_grpo")
    monkeypatch.setattr(base.PPOTrainer, "_compute_advantage", lambda self, batch, metrics: batch)
    with pytest.raises(ChangedTrainer, match="does not ask apportion_grpo"):
        made.step(stored())


def test_settings_that_contradict_the_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgument, match="token-sum"):
        Trainer(monkeypatch, "apportion_grpo", "+algorithm.apportion.loss_agg_mode=token-sum")
    with pytest.raises(InvalidArgument, match="one of apportion's"):
        Trainer(monkeypatch, "grpo")
    refuse = Trainer(monkeypatch, "apportion_grpo", "+algorithm.apportion.on_aggregation=refuse")
    with pytest.raises(InvalidArgument, match="loss_agg_mode"):
        refuse.step(stored())
    rescaled = Trainer(monkeypatch, "apportion_grpo", "+algorithm.apportion.on_aggregation=rescale").step(stored())
    plain = Trainer(monkeypatch, "apportion_grpo").step(stored())
    own = torch.tensor([len([m for m in mask if m]) for mask in MASKS], dtype=torch.float32)
    assert torch.allclose(rescaled, plain * (own.sum() / (4 * own))[:, None], atol=1e-6)


def test_state_travels_with_the_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = Trainer(monkeypatch, "apportion_grpo", f"trainer.default_local_dir={tmp_path}").trainer
    monkeypatch.setattr(base.PPOTrainer, "_save_checkpoint", lambda self: None)
    monkeypatch.setattr(base.PPOTrainer, "_load_checkpoint", lambda self: setattr(self, "global_steps", 3))
    made.recipe_state = {"seen": [1, 2]}
    made._save_checkpoint()
    made.recipe_state = {}
    made._load_checkpoint()
    assert made.recipe_state == {"seen": [1, 2]}
    assert json.loads((tmp_path / "global_step_3" / "apportion_state.json").read_text())["recipe"] == "grpo"


def test_state_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="saved as JSON"):
        write_state(tmp_path, "grpo", {"x": object()})
    with pytest.raises(InvalidArgument, match="a checkpoint with"):
        read_state(tmp_path, "grpo")
    write_state(tmp_path, "grpo", {})
    with pytest.raises(InvalidArgument, match="'grpo', as in"):
        read_state(tmp_path, "rlvp")
    settings = SimpleNamespace(resume_mode="auto", default_local_dir=tmp_path, resume_from_path="/x/global_step_2")
    assert folder_to_resume(settings, 0) is None
    assert folder_to_resume(settings, 4) == tmp_path / "global_step_4"
    settings.resume_mode = "resume_path"
    assert folder_to_resume(settings, 2) == Path("/x/global_step_2")


def test_registered_when_verls_trainers_are_imported() -> None:
    code = (
        "import sys, verl\n"
        "before = 'apportion.integrations.verl.trainer' in sys.modules\n"
        "from verl.trainer.ppo.v1 import get_trainer_cls\n"
        "print(before, get_trainer_cls('apportion_sync').__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split()[-2:] == ["False", "CreditTrainer"]
