"""Rollouts through `CreditLoop` without an engine: what would travel to the estimator, and what it makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.differential import needs
from tests.integrations.verl_adapter.cpu_platform import tiny

protocol = needs.trainer("verl.protocol", extra="verl")
ray_trainer = needs.trainer("verl.trainer.ppo.ray_trainer", extra="verl")
omegaconf = needs.trainer("omegaconf", extra="verl")
loops = needs.trainer("verl.experimental.agent_loop.agent_loop", extra="verl")
ours = needs.trainer("apportion.integrations.verl.agent_loop", extra="verl")


def algorithm(estimator: str, *, kl: bool = False, **settings: Any) -> Any:
    """The `algorithm` section of a configuration."""
    section = {"adv_estimator": estimator, "gamma": 1.0, "lam": 1.0, "use_kl_in_reward": kl}
    return omegaconf.OmegaConf.create({**section, **({"apportion": settings} if settings else {})})


def output(ids: Sequence[int], mask: Sequence[int], **fields: Any) -> Any:
    """What an agent loop of veRL's returns."""
    return loops.AgentLoopOutput(
        prompt_ids=[5, 6],
        response_ids=list(ids),
        response_mask=list(mask),
        response_logprobs=[-1.0] * len(ids),
        num_turns=2,
        metrics=loops.AgentLoopMetrics(),
        extra_fields=dict(fields),
    )


class _Given:
    """An agent loop that returns what it was given."""

    def __init__(self, given: Any, config: Any) -> None:
        self.given, self.tokenizer = given, tiny.tokenizer()
        self.config = SimpleNamespace(algorithm=config)

    async def run(self, sampling_params: dict[str, Any], **_: Any) -> Any:
        return self.given


class Loop(ours.CreditLoop, _Given):  # type: ignore[misc,name-defined]
    pass


def played(
    given: Any, config: Any, *, score: float, info: Mapping[str, Any] | None = None, **row: Any
) -> dict[str, Any]:
    """The fields that veRL would store of one session."""
    made = asyncio.run(Loop(given, config).run({}, **row))
    made.reward_score = score
    made.extra_fields["reward_extra_info"] = dict(info or {})
    fields: dict[str, Any] = made.as_dict()
    return fields


def computed(fields: Sequence[Mapping[str, Any]], uids: Sequence[str], config: Any) -> tuple[Tensor, Tensor]:
    """The advantages of veRL's dispatcher, and the mask."""
    rewards = torch.nn.utils.rnn.pad_sequence([one["rm_scores"] for one in fields], batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([one["response_mask"] for one in fields], batch_first=True)
    data = protocol.DataProto.from_dict(
        {"token_level_rewards": rewards, "response_mask": mask}, non_tensors={"uid": np.array(uids, dtype=object)}
    )
    made = ray_trainer.compute_advantage(data, adv_estimator=config.adv_estimator, config=config)
    return made.batch["advantages"], mask
