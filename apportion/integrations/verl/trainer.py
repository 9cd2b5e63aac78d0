"""`CreditTrainer`: veRL's synchronous trainer, with everything that it stored in reach of the recipe.

    trainer.v1.trainer_mode=apportion_sync          beside algorithm.adv_estimator=apportion_<recipe>

    veRL: sample -> log-probs -> values -> KL, rejection -> estimator -> critic, actor
                                                            ^ ours: rows of the queue as trajectories, then the recipe

veRL's own step runs as it is; only the estimator of this one name is the trainer's, and sees values, log-probabilities,
columns of turns and rewards' parts, the step, and the state of the step before.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transfer_queue
from torch import Tensor
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from apportion.errors import InvalidArgument
from apportion.integrations.verl.settings import Settings, read
from apportion.integrations.verl.trainer_contract import ChangedTrainer, check_contract
from apportion.integrations.verl.trainer_credit import Given, credit_rows
from apportion.integrations.verl.trainer_hook import TRAINER
from apportion.integrations.verl.trainer_rows import FIELDS, Row, read_rows
from apportion.integrations.verl.trainer_state import folder_to_resume, read_state, write_state
from apportion.recipe import Credit, State

__all__ = ["CreditTrainer"]

LOG = logging.getLogger(__name__)


@register_trainer(TRAINER)
class CreditTrainer(PPOTrainerSync):  # type: ignore[misc]
    """See the module. Settings are those of `algorithm.apportion`; the actor's aggregation need not be told.

    Raises:
        ChangedTrainer: a veRL that it does not know, at start-up, with all that is missing.
        InvalidArgument: an estimator that is not one of apportion's, or a bad setting.
    """

    def __init__(self, config: Any) -> None:
        check_contract(PPOTrainerSync, config, transfer_queue, core_algos)
        self.settings = _settings(config)
        self.recipe_state: State = dict(self.settings.recipe.initial_state)
        self.last_credit: Credit | None = None
        self._rows: list[Row] = []
        # Any other mode would get the asynchronous replay buffer.
        config.trainer.v1.trainer_mode = "sync"
        super().__init__(config)
        # A name of this process alone: agent loops read the same setting and observe for the same recipe.
        core_algos.ADV_ESTIMATOR_REGISTRY[config.algorithm.adv_estimator] = self._estimate

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        data = transfer_queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(FIELDS))
        self._rows, self.last_credit = read_rows(data, batch.keys), None
        made = super()._compute_advantage(batch, metrics)
        if self._rows:
            name = self.config.algorithm.adv_estimator
            raise ChangedTrainer([f"PPOTrainerSync._compute_advantage does not ask {name}"])
        self._log(metrics)
        return made

    def _log(self, metrics: dict[str, Any]) -> None:
        if self.last_credit is not None:
            metrics.update({f"apportion/{name}": value for name, value in self.last_credit.diagnostics().items()})

    def _estimate(
        self, token_level_rewards: Tensor, response_mask: Tensor, config: Any = None, index: Any = None, **_: Any
    ) -> tuple[Tensor, Tensor]:
        """What veRL calls in place of the registered estimator."""
        rows, self._rows = self._rows, []
        mask = torch.as_tensor(response_mask).cpu() != 0
        if token_level_rewards.shape != mask.shape or mask.shape[0] != len(rows):
            expected = f"[{len(rows)}, T], as the mask {tuple(mask.shape)}"
            raise InvalidArgument("token_level_rewards", tuple(token_level_rewards.shape), expected)
        given = Given(rows=rows, rewards=token_level_rewards.cpu(), mask=mask)
        made = credit_rows(
            given, self.settings, step=self.global_steps, state=self.recipe_state, tokenizer=self.tokenizer
        )
        self.last_credit, self.recipe_state = made.credit, made.state
        return made.advantages.to(token_level_rewards.device), made.returns.to(token_level_rewards.device)

    def _save_checkpoint(self) -> None:
        # First: veRL names the step as the latest at the end.
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        write_state(folder, self.settings.recipe.name, self.recipe_state)
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        folder = folder_to_resume(self.config.trainer, self.global_steps)
        if folder is not None:
            self.recipe_state = read_state(folder, self.settings.recipe.name)


def _settings(config: Any) -> Settings:
    found = read(config.algorithm)
    if found is None:
        raise InvalidArgument("algorithm.adv_estimator", config.algorithm.adv_estimator, "one of apportion's")
    actor = config.actor_rollout_ref.actor
    told = {"loss_agg_mode": actor.loss_agg_mode, "loss_scale_factor": actor.get("loss_scale_factor")}
    for name, value in told.items():
        said = getattr(found, name)
        if said is not None and said != value:
            raise InvalidArgument(f"algorithm.apportion.{name}", said, f"the actor's {value!r}, or nothing")
    return replace(found, **told)
