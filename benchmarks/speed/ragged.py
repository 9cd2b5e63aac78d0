"""Rollouts as agents make them: 5 to 40 turns, 30 % observations, a third of the padded places is trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from apportion.batch import Batch

GROUP = 8


@dataclass(frozen=True, eq=False)
class Rollouts:
    """A batch with the same numbers padded and packed.

    Attributes:
        batch: turn lengths and all that follows from them.
        mask: int64[B, T].
        groups: B ids, shuffled.
        rewards: float32[B, T], on policy tokens.
        values: float32[B, T].
        packed_rewards: float32[N].
        packed_values: float32[N].
    """

    batch: Batch
    mask: Tensor
    groups: list[str]
    rewards: Tensor
    values: Tensor
    packed_rewards: Tensor
    packed_values: Tensor


def rollouts(size: int, width: int, *, turns: tuple[int, int] = (5, 40), seed: int = 0) -> Rollouts:
    """`size` responses of up to `width` tokens in groups of 8."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(int(0.1 * width), int(0.82 * width) + 1, size)
    counts = rng.integers(turns[0], turns[1] + 1, size)
    tokens, gaps = [], []
    for length, count in zip(lengths, counts, strict=True):
        written = np.maximum(1, rng.dirichlet(np.full(count, 4.0)) * 0.7 * length).astype(np.int64)
        seen = np.maximum(1, rng.dirichlet(np.full(count, 4.0)) * 0.3 * length).astype(np.int64)
        tokens.append(written)
        gaps.append(seen)
    groups = [f"prompt {i}" for i in rng.permutation(np.repeat(np.arange(-(-size // GROUP)), GROUP)[:size])]
    batch = Batch.of(
        groups=groups,
        turns=torch.from_numpy(counts),
        tokens=torch.from_numpy(np.concatenate(tokens)),
        gaps=torch.from_numpy(np.concatenate(gaps)),
    )
    width = max(width, int(batch.response_lengths.max()))
    generator = torch.Generator().manual_seed(seed)
    packed_rewards = torch.randn(batch.n_tokens, generator=generator)
    packed_values = torch.randn(batch.n_tokens, generator=generator)
    return Rollouts(
        batch=batch,
        mask=batch.pad(torch.ones(batch.n_tokens, dtype=torch.int64), width=width, fill=0),
        groups=groups,
        rewards=batch.pad(packed_rewards, width=width),
        values=batch.pad(packed_values, width=width),
        packed_rewards=packed_rewards,
        packed_values=packed_values,
    )
