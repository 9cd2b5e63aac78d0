"""A rank's part of a generation batch, read off TRL's trainer row by row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
import torch

from apportion.errors import InvalidArgument
from apportion.integrations.trl.rollouts import Completion, to_trajectory
from apportion.integrations.trl.steps import Recorded, recorded_by
from apportion.rollouts import Status, Trajectory

__all__ = ["local_rollouts"]


def local_rollouts(trainer: Any, scored: Mapping[str, Any], output: Mapping[str, Any]) -> list[Trajectory]:
    """The completions of this rank as trajectories.

    Args:
        trainer: a GRPOTrainer, in the middle of a step.
        scored: what `_calculate_rewards` was given and gave: inputs, prompts, completions, ids, rewards, environments;
            and "tool_masks", which tokens the model wrote (None = all).
        output: what `_generate_and_score_completions` returned.
    """
    ids, size = scored["ids"], len(scored["ids"])
    first, step = trainer.accelerator.process_index * size, int(trainer.state.global_step)
    per_prompt = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
    in_loss = output["completion_mask"].bool()
    if output.get("tool_mask") is not None:
        in_loss = in_loss & output["tool_mask"].bool()
    in_loss = in_loss.cpu().numpy()
    masks = scored["tool_masks"]
    prompt_mask = output["prompt_mask"].bool().cpu().numpy()
    prompt_ids = output["prompt_ids"].cpu().numpy()
    logps = output.get("sampling_per_token_logps")
    table = scored["rewards"][first : first + size].to(torch.float64).tolist()
    weights = trainer.reward_weights.to(torch.float64).tolist()
    names = trainer.reward_func_names
    # Of functions that share a name nobody could say which one is meant.
    once = {name for name, count in Counter(names).items() if count == 1}
    rolled = getattr(trainer, "rollout_func", None) is not None
    words = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
    ends = _end_ids(trainer, words)
    result = []
    for i, response in enumerate(ids):
        response = np.asarray(response, np.int64)
        values = [None if math.isnan(value) else value for value in table[i]]
        given = [w * v for w, v in zip(weights, values, strict=True) if v is not None]
        row = scored["inputs"][i]
        completion = Completion(
            id=f"{step}.{first + i}",
            group=f"{step}.{(first + i) // per_prompt}",
            prompt=scored["prompts"][i],
            prompt_ids=prompt_ids[i][prompt_mask[i]],
            response_ids=response,
            written=np.ones(response.size, bool) if masks is None else np.asarray(masks[i], bool),
            in_loss=in_loss[i, : response.size],
            logps=None if logps is None else logps[i, : response.size].to(torch.float64).cpu().numpy(),
            completion=scored["completions"][i],
            row=row,
            rewards={name: value for name, value in zip(names, values, strict=True) if name in once},
            reward=sum(given) if given else None,
            ended=bool(response.size) and int(response[-1]) in ends,
            status=_status(row) if rolled else None,
            error=row.get("rollout_error") if rolled else None,
            per_turn=_per_turn(row) if rolled else None,
            per_call=None if scored["environments"] is None else recorded_by(scored["environments"][i]),
            max_tool_rounds=getattr(trainer, "max_tool_calling_iterations", None),
        )
        result.append(
            to_trajectory(completion, step=step, decode=lambda part: words.decode(part, skip_special_tokens=True))
        )
    return result


def _end_ids(trainer: Any, words: Any) -> set[int]:
    """Every id that ends a response: the tokenizer's and all of the generation config's."""
    configured = getattr(trainer.model.generation_config, "eos_token_id", None)
    listed = configured if isinstance(configured, list) else [configured]
    return {int(i) for i in (*listed, words.eos_token_id) if i is not None}


def _status(row: Mapping[str, Any]) -> Status | None:
    said: Status | None = row.get("rollout_status")
    if said is not None and said not in get_args(Status):
        raise InvalidArgument("rollout_status", said, f"one of {', '.join(get_args(Status))}, or None")
    return said


def _per_turn(row: Mapping[str, Any]) -> Recorded | None:
    rewards, columns = row.get("turn_rewards"), row.get("turn_columns")
    return None if rewards is None and columns is None else Recorded(rewards=rewards, columns=columns)
