"""`CreditGRPOTrainer`: TRL's GRPO trainer with per-token credit from a recipe.

    generate --TRL--> completions, masks --to_trajectory--> rollouts --observe--> verdicts --assign--> (B, T) advantages

Two methods of TRL's trainer are overridden and both call super: `_calculate_rewards`, to see what the rewards saw, and
`_generate_and_score_completions`, to put our advantages in place of its scalar. Its loss accepts advantages of shape
(B, T). Groups may straddle ranks, so verdicts and turn lengths are gathered and every rank assigns the whole batch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import Tensor
from trl import GRPOTrainer

from apportion.advantages.aggregation import reweight
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.integrations.trl.compatibility import check_aggregation, check_class, trainer_aggregation
from apportion.integrations.trl.rollouts import Completion, to_trajectory
from apportion.recipe import Credit, Recipe, State
from apportion.recipes import load
from apportion.rewards import observe
from apportion.rollouts import Level, Trajectory
from apportion.signal import Signal

__all__ = ["CreditGRPOTrainer", "CreditMixin", "OnAggregation"]

OnAggregation = Literal["rescale", "trainer", "refuse"]
STATE_FILE = "apportion_state.json"


class CreditMixin:
    """Per-token credit for a GRPOTrainer subclass of yours: `class Mine(CreditMixin, MyTrainer)`.

    Args (besides those of the trainer):
        recipe: a recipe's name, the path of a recipe file, or a `Recipe`. The trainer's own reward functions reach it
            as trajectory columns: "reward" (their weighted sum, missing only where every one gave None) and one by each
            name.
        recipe_args: settings for a recipe given by name or file.
        on_aggregation: what to do when the recipe assumes another loss aggregation than `loss_type` computes:
            "rescale" the advantages so that the gradient is the recipe's, keep the "trainer"'s as it is, or "refuse".
        observe_timeout: seconds that one observation may take; late is Failed, which leaves the group.
        observe_concurrency: async observations under way at once.
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

    def __init__(
        self,
        *args: Any,
        recipe: str | Path | Recipe = "grpo",
        recipe_args: Mapping[str, Any] | None = None,
        on_aggregation: OnAggregation = "rescale",
        observe_timeout: float | None = None,
        observe_concurrency: int = 64,
        **kwargs: Any,
    ) -> None:
        check_class(type(self))
        self.recipe = recipe if isinstance(recipe, Recipe) else load(recipe, **(recipe_args or {}))
        if isinstance(recipe, Recipe) and recipe_args:
            raise InvalidArgument("recipe_args", recipe_args, "none, since the recipe is made already")
        if on_aggregation not in ("rescale", "trainer", "refuse"):
            raise InvalidArgument("on_aggregation", on_aggregation, "'rescale', 'trainer' or 'refuse'")
        self.recipe_state: State = dict(self.recipe.initial_state)
        self.last_credit: Credit | None = None
        self.last_rollouts: list[Trajectory] = []
        self._on_aggregation = on_aggregation
        self._observe_timeout, self._observe_concurrency = observe_timeout, observe_concurrency
        self._scored: dict[str, Any] = {}
        super().__init__(*args, **kwargs)
        check_aggregation(self.recipe, self.loss_type, self.max_completion_length, on_aggregation)

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Tensor:
        rewards: Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)  # type: ignore[misc]
        self._scored = {
            "inputs": inputs,
            "completions": completions,
            "ids": completion_ids_list,
            "rewards": rewards,
            "environments": list(self.environments) if self.environments is not None else None,
        }
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        scored, self._scored = self._scored, {}
        rollouts = self._rollouts(scored, output)
        step = int(self.state.global_step)
        verdicts = observe(
            self.recipe.observers, rollouts, timeout=self._observe_timeout, concurrency=self._observe_concurrency
        )
        batch, everyone = self._gathered(rollouts, verdicts)
        training = self.model.training
        credit, state = self.recipe.assign(batch, everyone, step=step, state=self.recipe_state)
        if training:
            self.recipe_state = state
        mine = slice(
            self.accelerator.process_index * len(rollouts), (self.accelerator.process_index + 1) * len(rollouts)
        )
        width = output["completion_ids"].shape[1]
        longest = max(width, int(batch.response_lengths.max()))
        advantages = batch.pad(self._for_trainer(credit).values.to(torch.float32), width=longest)
        output["advantages"] = advantages[mine, :width].to(output["completion_ids"].device)
        self._log_credit(credit, "train" if training else "eval")
        self.last_credit, self.last_rollouts = credit, rollouts
        return output

    def _rollouts(self, scored: Mapping[str, Any], output: Mapping[str, Any]) -> list[Trajectory]:
        """The local completions as trajectories."""
        ids, size = scored["ids"], len(scored["ids"])
        first = self.accelerator.process_index * size
        per_prompt = self.num_generations if self.model.training else self.num_generations_eval
        written = output["completion_mask"].bool()
        if output.get("tool_mask") is not None:
            written = written & output["tool_mask"].bool()
        written = written.cpu().numpy()
        prompt_mask = output["prompt_mask"].bool().cpu().numpy()
        prompt_ids = output["prompt_ids"].cpu().numpy()
        logps = output.get("sampling_per_token_logps")
        table = scored["rewards"][first : first + size].to(torch.float64).tolist()
        weights = self.reward_weights.to(torch.float64).tolist()
        ends = self._end_ids()
        step = int(self.state.global_step)
        result = []
        for i, response in enumerate(ids):
            response = np.asarray(response, np.int64)
            values = {n: _or_none(v) for n, v in zip(self.reward_func_names, table[i], strict=True)}
            given = [w * v for w, v in zip(weights, values.values(), strict=True) if v is not None]
            row = scored["inputs"][i]
            environment = None if scored["environments"] is None else scored["environments"][i]
            completion = Completion(
                id=f"{step}.{first + i}",
                group=f"{step}.{(first + i) // per_prompt}",
                prompt_ids=prompt_ids[i][prompt_mask[i]],
                response_ids=response,
                written=written[i, : response.size],
                logps=None if logps is None else logps[i, : response.size].to(torch.float64).cpu().numpy(),
                completion=scored["completions"][i],
                row=row,
                rewards=values,
                reward=sum(given) if given else None,
                ended=bool(response.size) and int(response[-1]) in ends,
                step_rewards=_listed(getattr(environment, "rewards", row.get("turn_rewards"))),
                step_columns=_listed(getattr(environment, "turn_columns", row.get("turn_columns"))),
            )
            result.append(to_trajectory(completion, step=step, decode=self.processing_class.decode))
        return result

    def _end_ids(self) -> set[int]:
        """Every id that ends a response: the tokenizer's and all of the generation config's."""
        configured = getattr(self.model.generation_config, "eos_token_id", None)
        listed = configured if isinstance(configured, list) else [configured]
        return {int(i) for i in (*listed, self.processing_class.eos_token_id) if i is not None}

    def _gathered(
        self, rollouts: Sequence[Trajectory], verdicts: Mapping[str, Sequence[Any]]
    ) -> tuple[Batch, dict[str, list[Any]]]:
        """Structure and verdicts of all ranks, in rank order."""
        records = []
        for i, t in enumerate(rollouts):
            layout = t.layout()
            records.append(
                (
                    t.id,
                    t.group,
                    t.status,
                    layout.lead,
                    layout.turn_lengths.tolist(),
                    layout.gap_lengths.tolist(),
                    {name: rows[i] for name, rows in verdicts.items()},
                )
            )
        records = gather_object(records)
        ids, groups, status, lead, turns, gaps, found = zip(*records, strict=True)
        batch = Batch.of(
            groups=groups,
            ids=ids,
            status=status,
            lead=torch.tensor(lead),
            turns=[len(row) for row in turns],
            tokens=[n for row in turns for n in row],
            gaps=torch.tensor([n for row in gaps for n in row], dtype=torch.int64),
        )
        return batch, {name: [row[name] for row in found] for name in verdicts}

    def _for_trainer(self, credit: Credit) -> Signal:
        if self._on_aggregation == "trainer":
            return credit.advantages
        trainer, constant = trainer_aggregation(self.loss_type, self.max_completion_length)
        norm = credit.aggregation == "seq-mean-token-sum-norm"
        return reweight(
            credit.advantages,
            assumed=credit.aggregation,
            trainer=trainer,
            assumed_constant=float(self.max_completion_length) if norm else None,
            trainer_constant=constant,
        )

    def _log_credit(self, credit: Credit, mode: str) -> None:
        """Our metrics and columns, in place of TRL's, which describe advantages that are not trained on."""
        metrics = self._metrics[mode]
        metrics.pop("frac_reward_zero_std", None)
        for name, value in credit.diagnostics().items():
            metrics[f"apportion/{name}"].append(value)
        per_rollout = credit.advantages.pool(Level.TRAJECTORY, "mean")
        replaced = per_rollout.values.tolist()
        logged = self._logs["advantages"]
        for _ in replaced:
            logged.pop()
        logged.extend(replaced)
        for name, term in per_rollout.ledger().items():
            self._logs["extra"][f"credit/{name}"].extend(term.tolist())

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
            raise InvalidArgument("resume_from_checkpoint", str(checkpoint), f"a checkpoint that holds {STATE_FILE}")
        record = json.loads(path.read_text())
        if record["recipe"] != self.recipe.name:
            raise InvalidArgument("recipe", self.recipe.name, f"{record['recipe']!r}, as in {path}")
        self.recipe_state = record["state"]


class CreditGRPOTrainer(CreditMixin, GRPOTrainer):  # type: ignore[misc]
    """TRL's `GRPOTrainer` with credit from a recipe; takes every argument of it and those of `CreditMixin`.

    Example:
        A script that trains with `GRPOTrainer(model=..., reward_funcs=..., args=..., train_dataset=...)` becomes
        `CreditGRPOTrainer(recipe="rlvp", model=..., ...)`.
    """


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _listed(found: object) -> list[Any] | None:
    return list(found) if isinstance(found, (list, tuple)) else None
