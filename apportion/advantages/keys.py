"""Keys for `group_stat`: what, beside the prompt, two elements must share to be compared."""

from __future__ import annotations

import torch
from torch import Tensor

from apportion import segments
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level

__all__ = ["step_index", "within_group"]


def step_index(batch: Batch, level: Level = Level.TURN) -> Tensor:
    """int64[size(level)]: the place of every turn (token) in its trajectory, from 0.

    Example:
        >>> step_index(Batch.of(groups=["q", "q"], turns=[3, 2])).tolist()
        [0, 1, 2, 0, 1]
    """
    lengths = batch.lengths(level, Level.TRAJECTORY)
    first = segments.starts(lengths)[segments.owners(lengths)]
    return torch.arange(first.numel(), device=batch.device) - first


def within_group(batch: Batch, level: Level, labels: Tensor) -> Tensor:
    """int64[size(level)]: one number for every (group, label), so that equal labels of two prompts never meet.

    Args:
        batch: the structure.
        level: of the labels.
        labels: numbers of any type, [size(level)]; equal ones are the same label.

    Raises:
        InvalidArgument: another number of labels.

    Example:
        >>> b = Batch.of(groups=["a", "b", "a"])
        >>> within_group(b, Level.TRAJECTORY, torch.tensor([0.5, 0.5, 0.5])).tolist()
        [0, 1, 0]
    """
    if labels.shape != (batch.size(level),):
        raise InvalidArgument("labels", tuple(labels.shape), f"one label for each of {batch.size(level)} elements")
    distinct, number = torch.unique(labels, return_inverse=True)
    key: Tensor = batch.owner(level, Level.GROUP) * distinct.numel() + number
    return key
