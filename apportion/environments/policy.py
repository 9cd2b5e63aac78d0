"""A tiny causal language model, sampling of many episodes at once, and scoring of what was sampled.

    tiny_policy -> play_all (rollouts with behaviour log-probabilities) -> Trajectory -> token_logps (differentiable)

Everything samples at temperature 1 from the whole vocabulary: the log-probability that is recorded is the one that the
model would give the token in a fresh forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from apportion._extras import require
from apportion.environments.environment import MOVE_LENGTH, Environment
from apportion.environments.task import Task
from apportion.errors import InvalidArgument
from apportion.rollouts import Trajectory

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["play_all", "rollouts", "tiny_policy", "token_logps"]


def tiny_policy(task: Task[Any], *, seed: int, width: int = 64, layers: int = 2, heads: int = 4) -> PreTrainedModel:
    """A `LlamaForCausalLM` with random weights over the task's vocabulary; about 0.1 million parameters.

    Args:
        task: its vocabulary, and its longest episode as the number of positions.
        seed: decides the weights; torch's global generator is left as it was.
        width: hidden size.
        layers: transformer layers.
        heads: attention heads.

    Raises:
        MissingExtra: transformers is not installed.
    """
    transformers = require("transformers", extra="trl")
    config = transformers.LlamaConfig(
        vocab_size=len(task.vocabulary),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=task.prompt_length + task.max_turns * (MOVE_LENGTH + task.observation_length),
        initializer_range=0.1,
        bos_token_id=None,
        eos_token_id=None,
        attention_dropout=0.0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = transformers.LlamaForCausalLM(config)
    return model


def rollouts(
    policy: PreTrainedModel,
    task: Task[Any],
    seeds: Sequence[int],
    *,
    group_size: int,
    generator: torch.Generator,
    step: int | None = None,
) -> list[Trajectory]:
    """`group_size` rollouts of the episode of each seed, group after group.

    Ids are "task/seed/k", groups "task/seed".

    Args:
        policy: a causal language model over the task's vocabulary.
        task: what is played.
        seeds: one per prompt, all different.
        group_size: rollouts per prompt.
        generator: draws the tokens; on the policy's device.
        step: the training step, for the record.

    Raises:
        InvalidArgument: a seed given twice, or no rollouts at all.
    """
    twice = sorted({seed for seed in seeds if list(seeds).count(seed) > 1})
    if twice or not seeds:
        raise InvalidArgument("seeds", twice or list(seeds), "different seeds, at least one")
    if group_size < 1:
        raise InvalidArgument("group_size", group_size, "at least 1")
    environments = [Environment(task) for _ in range(len(seeds) * group_size)]
    for i, environment in enumerate(environments):
        environment.reset(seeds[i // group_size])
    logps = play_all(policy, environments, generator=generator)
    return [
        environment.trajectory(
            id=f"{task.name}/{seeds[i // group_size]}/{i % group_size}",
            group=f"{task.name}/{seeds[i // group_size]}",
            logps=logps[i],
            step=step,
        )
        for i, environment in enumerate(environments)
    ]


def play_all(
    policy: PreTrainedModel, environments: Sequence[Environment[Any]], *, generator: torch.Generator
) -> list[list[float]]:
    """Sample every environment's episode to its end, from wherever it stands.

    The policy is in evaluation mode meanwhile: in training mode transformers drops the cache under gradient
    checkpointing, and every token would be sampled as if there were no past.

    Args:
        policy: a causal language model over the vocabulary of the environments' task.
        environments: started episodes, at any turn; they end over.
        generator: draws the tokens.

    Returns:
        For each environment the log-probability (natural log) of every token sampled, in order.
    """
    logps: list[list[float]] = [[] for _ in environments]
    now = [environment.snapshot() for environment in environments]
    going = [i for i, episode in enumerate(now) if episode.status is None]

    def length(i: int) -> int:
        return len(now[i].response_ids)

    training = policy.training
    policy.eval()
    try:
        for _, rows in groupby(sorted(going, key=length), key=length):
            _play_equally_long(policy, environments, list(rows), logps, generator)
    finally:
        policy.train(training)
    return logps


@torch.no_grad()
def _play_equally_long(
    policy: PreTrainedModel,
    environments: Sequence[Environment[Any]],
    rows: list[int],
    logps: list[list[float]],
    generator: torch.Generator,
) -> None:
    transformers = require("transformers", extra="trl")
    cache = transformers.DynamicCache(config=policy.config)
    starts = [environments[i].snapshot() for i in rows]
    feed = torch.tensor([(*start.prompt_ids, *start.response_ids) for start in starts], device=policy.device)
    while rows:
        move, drawn = [], []
        for _ in range(MOVE_LENGTH):
            logits = policy(input_ids=feed, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
            scores = logits.float().log_softmax(-1)
            feed = torch.multinomial(scores.exp(), 1, generator=generator)
            move.append(feed)
            drawn.append(scores.gather(1, feed))
        tokens, sampled = torch.cat(move, 1).tolist(), torch.cat(drawn, 1).tolist()
        kept, answers = [], []
        for k, i in enumerate(rows):
            logps[i] += sampled[k]
            step = environments[i].step(tokens[k])
            if not step.done:
                kept.append(k)
                answers.append(step.observation_ids)
        rows = [rows[k] for k in kept]
        if rows:
            index = torch.tensor(kept, device=feed.device)
            cache.batch_select_indices(index)
            feed = torch.cat((feed[index], torch.tensor(answers, device=feed.device)), 1)


def token_logps(policy: PreTrainedModel, trajectories: Sequence[Trajectory]) -> tuple[Tensor, Tensor]:
    """Log-probability of every response token and the entropy of the distribution it came from.

    Args:
        policy: a causal language model.
        trajectories: B with prompts of one length; the longest response has T tokens.

    Returns:
        float[B, T] log-probabilities (natural log) and float[B, T] entropies (nats), at observation tokens too;
        meaningless beyond the end of a response. Both differentiable in the policy's weights.

    Raises:
        InvalidArgument: text-only trajectories, or prompts of several lengths.
    """
    prompts = [t.prompt_ids for t in trajectories if t.prompt_ids is not None and t.response_ids is not None]
    responses = [t.response_ids for t in trajectories if t.response_ids is not None]
    lengths = sorted({len(prompt) for prompt in prompts})
    if len(prompts) < len(trajectories) or len(lengths) != 1 or not lengths[0]:
        raise InvalidArgument("trajectories", lengths, "token ids everywhere, and prompts of one length, at least 1")
    width = max(len(response) for response in responses)
    # Padding lies behind every real token, where a causal model cannot see it.
    ids = np.zeros((len(trajectories), lengths[0] + width), np.int64)
    for row, prompt, response in zip(ids, prompts, responses, strict=True):
        row[: lengths[0]] = prompt
        row[lengths[0] : lengths[0] + len(response)] = response
    tokens = torch.from_numpy(ids).to(policy.device)
    logits = policy(input_ids=tokens[:, :-1], use_cache=False, logits_to_keep=width).logits
    scores = logits.float().log_softmax(-1)
    logps = scores.gather(-1, tokens[:, lengths[0] :, None]).squeeze(-1)
    return logps, -(scores.exp() * scores).sum(-1)
