"""`CreditGRPOTrainer`: TRL's GRPO trainer with per-token credit from a recipe.

    generate --TRL--> completions, masks --to_trajectory--> rollouts --observe--> verdicts --assign--> (B, T) advantages

Three methods of TRL's trainer are overridden and all call super: `_generate`, to keep which tokens the model wrote (TRL
zeroes that mask where it drops a row from the loss), `_calculate_rewards`, to see what the rewards saw, and
`_generate_and_score_completions`, to put our advantages in place of its scalar. Its loss accepts advantages of shape
(B, T). They run once per generation, whatever num_iterations and steps_per_generation are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer

from apportion.errors import InvalidArgument, LedgerMismatch, MissingInput
from apportion.integrations.trl.compatibility import (
    OnAggregation,
    check_class,
    check_on_aggregation,
    check_settings,
    check_version,
    for_trainer,
)
from apportion.integrations.trl.completions import local_rollouts
from apportion.integrations.trl.gathering import gathered
from apportion.integrations.trl.logs import log_credit, log_table
from apportion.recipe import Credit, Recipe, State
from apportion.recipes import load
from apportion.rewards import observe
from apportion.rollouts import Trajectory

__all__ = ["CreditGRPOTrainer", "CreditMixin", "OnAggregation"]

STATE_FILE = "apportion_state.json"


class CreditMixin:
    """Per-token credit for a GRPOTrainer subclass of yours: `class Mine(CreditMixin, MyTrainer)`.

    Works with plain prompts, `tools`, `environment_factory` and `rollout_func`. An environment may record, per call
    that reaches it, `rewards` (numbers or None), `turn_columns` (mappings) and `calls` (names, or names with
    arguments), and say with `turn_defaults` what a turn without a call counts. A `rollout_func` may return, per
    rollout, `turn_rewards` and `turn_columns` (one entry per run of ones in `env_mask`), `rollout_status`
    ("terminated", "truncated" or "aborted") and `rollout_error`.

    Not supported: `AsyncGRPOTrainer`, SDPO, RLOO and GMPO, whose advantages are one number per completion.

    Args (besides those of the trainer):
        recipe: a recipe's name, the path of a recipe file, or a `Recipe`. The trainer's own reward functions reach it
            as trajectory columns: "reward" (their weighted sum; unknown where every one gave None) and one by each
            name (absent where it gave None). A rank observes its own rollouts; credit is assigned over all of them.
        recipe_args: settings for a recipe given by name or file.
        on_aggregation: what to do when the recipe assumes another loss aggregation than `loss_type` computes:
            "rescale" the advantages so that the gradient is the recipe's, keep the "trainer"'s as it is, or "refuse".
        observe_timeout: seconds that one observation may take; late is Failed, which leaves the group.
        observe_concurrency: async observations under way at once.
        observe_failure_limit: share of one observer's failed verdicts, over all ranks, above which training stops.
    """

    # What the trainer this is mixed into provides.
    accelerator: Any
    args: Any
    environments: Any
    loss_type: str
    max_completion_length: int
    model: Any
    num_generations: int
    num_generations_eval: int
    processing_class: Any
    reward_func_names: list[str]
    reward_weights: Tensor
    state: Any
    _logs: Any
    _metrics: Any
    _get_output_dir: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        order = [base.__name__ for base in cls.__mro__]
        if "GRPOTrainer" in order and order.index("GRPOTrainer") < order.index("CreditMixin"):
            raise InvalidArgument("bases", order[1:], f"class {cls.__name__}(CreditMixin, ...): the mixin comes first")

    def __init__(
        self,
        *args: Any,
        recipe: str | Path | Recipe = "grpo",
        recipe_args: Mapping[str, Any] | None = None,
        on_aggregation: OnAggregation = "rescale",
        observe_timeout: float | None = None,
        observe_concurrency: int = 64,
        observe_failure_limit: float = 0.5,
        **kwargs: Any,
    ) -> None:
        check_class(type(self))
        check_version()
        self.recipe = recipe if isinstance(recipe, Recipe) else load(recipe, **(recipe_args or {}))
        if isinstance(recipe, Recipe) and recipe_args:
            raise InvalidArgument("recipe_args", recipe_args, "none, since the recipe is made already")
        check_on_aggregation(on_aggregation)
        # Nothing to observe: this checks the limits.
        observe([], [], timeout=observe_timeout, concurrency=observe_concurrency, failure_limit=observe_failure_limit)
        self.recipe_state: State = dict(self.recipe.initial_state)
        self.last_credit: Credit | None = None
        self.last_rollouts: list[Trajectory] = []
        self._on_aggregation = on_aggregation
        self._observe_timeout, self._observe_concurrency = observe_timeout, observe_concurrency
        self._observe_failure_limit = observe_failure_limit
        self._scored: dict[str, Any] = {}
        self._tool_masks: list[list[int]] | None = None
        super().__init__(*args, **kwargs)
        whole = int(self.args.generation_batch_size)
        pieces = whole // max(int(self.args.per_device_train_batch_size), 1)
        check_settings(self.recipe, self.args, on_aggregation, micro_batches=pieces)

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        made = super()._generate(*args, **kwargs)  # type: ignore[misc]
        self._tool_masks = made[2]
        return made

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Tensor:
        rewards: Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)  # type: ignore[misc]
        self._scored = {
            "inputs": inputs,
            "prompts": prompts,
            "completions": completions,
            "ids": completion_ids_list,
            "rewards": rewards,
            "tool_masks": self._tool_masks,
            "environments": list(self.environments) if self.environments is not None else None,
        }
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        scored, self._scored = self._scored, {}
        rows, width = output["completion_ids"].shape
        if len(scored.get("ids", ())) != rows:
            raise InvalidArgument(
                "trainer", type(self).__name__, "a trainer that calls _calculate_rewards once for the rows it returns"
            )
        rollouts = local_rollouts(self, scored, output)
        everyone = gathered(rollouts, self._observed(rollouts))
        everyone.refuse_failing(self.recipe.observers, self._observe_failure_limit)
        training = self.model.training
        credit, state = self.recipe.assign(
            everyone.batch, everyone.verdicts, step=int(self.state.global_step), state=self.recipe_state
        )
        if training:
            self._keep(state)
        output["advantages"] = self._padded(credit, rows, width).to(output["completion_ids"].device)
        log_credit(self._metrics["train" if training else "eval"], credit, unjoined=everyone.unjoined)
        log_table(self._logs, credit)
        self.last_credit, self.last_rollouts = credit, rollouts
        return output

    def _observed(self, rollouts: Sequence[Trajectory]) -> Mapping[str, Sequence[Any]]:
        """Verdicts of the local rollouts; how many may fail is decided over all ranks."""
        try:
            return observe(
                self.recipe.observers,
                rollouts,
                timeout=self._observe_timeout,
                concurrency=self._observe_concurrency,
                failure_limit=1.0,
            )
        except MissingInput as error:
            if "turn column" not in error.missing or any(turn.columns for t in rollouts for turn in t.turns):
                raise
            where = "a rollout_func returns them as `turn_columns`, one mapping per turn"
            if self.environments is not None:
                where = (
                    "no call reached an environment in this batch: give it `turn_columns`, one mapping per call, and "
                    "`turn_defaults`, the columns of a turn without a call"
                )
            how = f"{error.how}. In TRL {where}; rules over the calls need none: recipe_args={{'rules': 'rules.py'}}"
            raise MissingInput(error.needed_by, error.missing, how) from error

    def _padded(self, credit: Credit, rows: int, width: int) -> Tensor:
        """float32[rows, width]: the advantages of this rank's rows, 0 on every token outside the loss."""
        values = credit.advantages
        if self._on_aggregation != "trainer":
            values = for_trainer(credit, self.loss_type, self.max_completion_length)
        narrow = values.values.to(torch.float32)
        if not bool(torch.isfinite(narrow).all()):
            raise LedgerMismatch(f"an advantage of {float(values.values.abs().max()):.3g} does not fit float32")
        longest = max(width, int(credit.batch.response_lengths.max()))
        first = self.accelerator.process_index * rows
        return credit.batch.pad(narrow, width=longest)[first : first + rows, :width]

    def _keep(self, state: State) -> None:
        if not self.recipe_state and state:
            try:
                same = json.loads(json.dumps(dict(state), allow_nan=False)) == dict(state)
            except (TypeError, ValueError):
                same = False
            if not same:
                raise InvalidArgument(
                    "state", dict(state), "numbers, texts, lists and objects with text keys: it is saved as JSON"
                )
        self.recipe_state = state

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)  # type: ignore[misc]
        if self.args.should_save:
            folder = Path(self._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
            record = {"recipe": self.recipe.name, "state": dict(self.recipe_state)}
            (folder / STATE_FILE).write_text(json.dumps(record, allow_nan=False))

    def _load_optimizer_and_scheduler(self, checkpoint: Any) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)  # type: ignore[misc]
        if checkpoint is None:
            return
        path = Path(checkpoint) / STATE_FILE
        if not path.is_file():
            raise InvalidArgument(
                "resume_from_checkpoint",
                str(checkpoint),
                f"a checkpoint with {STATE_FILE}; to go on from another trainer's weights, give them as the model",
            )
        record = json.loads(path.read_text())
        if record["recipe"] != self.recipe.name:
            raise InvalidArgument("recipe", self.recipe.name, f"{record['recipe']!r}, as in {path}")
        self.recipe_state = record["state"]


class CreditGRPOTrainer(CreditMixin, GRPOTrainer):  # type: ignore[misc]
    """TRL's `GRPOTrainer` with credit from a recipe; takes every argument of it and those of `CreditMixin`.

    Example:
        A script that trains with `GRPOTrainer(model=..., reward_funcs=..., args=..., train_dataset=...)` becomes
        `CreditGRPOTrainer(recipe="dr_grpo", model=..., ...)`; `recipe="rlvp"` also wants `recipe_args={"rules": FILE}`.
    """
