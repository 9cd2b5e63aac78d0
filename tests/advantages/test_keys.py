"""Labels that two prompts share are two keys."""

from __future__ import annotations

import pytest
import torch

from apportion.advantages.group_stat import group_stat
from apportion.advantages.keys import step_index, within_group
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal


def test_equal_labels_meet_inside_a_group_only() -> None:
    batch = Batch.of(groups=["a", "b", "a"], turns=[2, 2, 1])
    key = within_group(batch, Level.TURN, step_index(batch))
    assert key.tolist() == [0, 1, 2, 3, 0]
    x = Signal.of(batch, Level.TURN, [1.0, 5.0, 2.0, 6.0, 0.0], name="x")
    assert group_stat(x, key=key, scale="none").values.tolist() == [0.5, 0.0, 0.0, 0.0, -0.5]


def test_steps_are_counted_over_turns_and_over_tokens() -> None:
    batch = Batch.of(groups=["a", "b"], turns=[2, 0], tokens=[2, 1])
    assert step_index(batch).tolist() == [0, 1]
    assert step_index(batch, Level.TOKEN).tolist() == [0, 1, 2]


def test_codes_of_52_bits_stay_apart() -> None:
    batch = Batch.of(groups=["a", "a", "a"])
    codes = torch.tensor([2.0**52 - 1, 2.0**52 - 2, 2.0**52 - 1], dtype=torch.float64)
    assert within_group(batch, Level.TRAJECTORY, codes).tolist() == [1, 0, 1]


def test_another_number_of_labels_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="labels"):
        within_group(Batch.of(groups=["a", "a"]), Level.TRAJECTORY, torch.zeros(3))
