"""Padded batches as veRL's estimators and our door take them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apportion.advantages import padded_advantages
from apportion.signal import Signal
from tests.differential import needs

core = needs.trainer("verl.trainer.ppo.core_algos", extra="verl")
functional = needs.trainer("verl.utils.torch_functional", extra="verl")


class Config(SimpleNamespace):
    """What veRL's estimators ask of their configuration."""

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)


class Rows(SimpleNamespace):
    """A padded batch: `outcome` [B] sits on the last policy token of `rewards` [B, T]."""

    mask: Tensor
    outcome: Tensor
    groups: list[str]

    @property
    def rewards(self) -> Tensor:
        last = self.mask.shape[1] - 1 - self.mask.flip(1).argmax(1)
        placed = torch.zeros(self.mask.shape, dtype=self.outcome.dtype)
        return placed.index_put((torch.arange(len(self.mask)), last), self.outcome)

    @property
    def index(self) -> Any:
        return np.array(self.groups, dtype=object)

    def to(self, dtype: torch.dtype) -> Rows:
        return Rows(mask=self.mask, outcome=self.outcome.to(dtype), groups=self.groups)

    def theirs(self, name: str, **options: Any) -> Tensor:
        """A registered estimator of veRL."""
        made: Tensor = core.get_adv_estimator_fn(name)(
            token_level_rewards=self.rewards.clone(), response_mask=self.mask, index=self.index, **options
        )[0]
        return made

    def ours(self, estimator: Callable[[Signal], Signal]) -> Tensor:
        """The same through our door; float64, as the comparison is."""
        return padded_advantages(estimator, self.rewards, self.mask, self.groups, dtype=torch.float64)
