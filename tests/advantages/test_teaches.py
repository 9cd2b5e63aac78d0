"""What a filter may drop: nothing that any stream of the loss still uses."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import group_statistics, grpo, normalize_then_sum, teaches
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.strategies import batches, signals


def test_a_rollout_without_advantage_may_still_teach() -> None:
    advantages = rewards_signal([0.0, 0.0, 0.3], name="advantages")
    ce_weight = Signal.of(advantages.batch, Level.TRAJECTORY, [0.0, 0.5, 0.0], name="ce_weight")
    assert teaches(advantages, ce_weight).tolist() == [False, True, True]
    assert teaches(advantages).tolist() == [False, False, True]


def test_streams_of_other_levels() -> None:
    batch = Batch.of(groups=["a", "a", "b"], turns=[2, 1, 1], tokens=[1, 1, 1, 2])
    path = Signal.of(batch, Level.TURN, [0.0, -0.25, 0.0, None], name="path")
    on_tokens = Signal.of(batch, Level.TOKEN, [0.0, 0.0, 0.0, 0.0, 0.1], name="ce_weight")
    whole = Signal.of(batch, Level.GROUP, [1.0, 0.0], name="kl_weight")
    assert teaches(path).tolist() == [True, False, False]
    assert teaches(path, on_tokens).tolist() == [True, False, True]
    assert teaches(whole).tolist() == [True, True, False]
    assert teaches(path, level=Level.GROUP).tolist() == [True, False]


def test_a_group_whose_sum_is_constant_is_kept_when_its_parts_differ() -> None:
    one = rewards_signal([1.0, 0.0], name="one")
    other = Signal.of(one.batch, Level.TRAJECTORY, [0.0, 1.0], name="other")
    assert group_statistics(one + other).constant.tolist() == [True]
    used = normalize_then_sum([one, other], weights=[1.0, 0.5])
    assert used.values.tolist() == pytest.approx([0.3536, -0.3536], abs=1e-4)
    assert teaches(used, level=Level.GROUP).tolist() == [True]
    assert teaches(grpo(one + other), level=Level.GROUP).tolist() == [False]


def test_what_is_missing_teaches_nothing() -> None:
    assert teaches(rewards_signal([None, 1.0])).tolist() == [False, True]


@given(st.data(), batches(tokens=None))
@pytest.mark.parametrize("level", [Level.TURN, Level.TRAJECTORY, Level.GROUP])
def test_a_finer_view_never_drops_more(level: Level, data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, data.draw(st.sampled_from([Level.TURN, Level.TRAJECTORY, Level.GROUP]))))
    kept = teaches(x, level=level)
    fine = x.spread(min(x.level, level))
    moving = batch.pool((fine.values != 0).double(), fine.level, level, "sum") > 0
    assert torch.equal(kept, moving)


def test_bad_streams_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="streams"):
        teaches()
    with pytest.raises(InvalidArgument, match="same batch"):
        teaches(rewards_signal([1.0]), rewards_signal([1.0]))


@pytest.mark.parametrize("scale_key", ["group", "batch"])
def test_a_dead_group_is_dead_whatever_the_advantages_are_scaled_by(scale_key: str) -> None:
    x = rewards_signal([1.0, 1.0, 0.0, 1.0], groups=list("aabb"))
    assert group_statistics(x).constant.tolist() == [True, False]
    used = grpo(x, scale_key=scale_key)  # type: ignore[arg-type]
    assert used.values.tolist()[:2] == [0.0, 0.0]
    assert teaches(used, level=Level.GROUP).tolist() == [False, True]
