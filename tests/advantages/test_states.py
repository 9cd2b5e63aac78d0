"""Values of states: neighbours share one, nothing crosses from one trajectory into another."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages.states import critic_values, state_values
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.strategies import batches, signals


@given(batches(), st.data())
@pytest.mark.parametrize("level", [Level.TURN, Level.TOKEN])
def test_a_state_has_one_value_whichever_side_it_is_seen_from(level: Level, batch: Batch, data: st.DataObject) -> None:
    start = data.draw(signals(batch, Level.TRAJECTORY, failed=True))
    after = data.draw(signals(batch, level, failed=True))
    v = state_values(start, after)
    row = batch.owner(level, Level.TRAJECTORY).tolist()
    for i, trajectory in enumerate(row):
        first = i == 0 or row[i - 1] != trajectory
        source, at = (start, trajectory) if first else (after, i - 1)
        assert v.before.values[i] == source.values[at]
        assert v.before.presence[i] == source.presence[at]


@given(batches(), st.data())
def test_both_makings_agree(batch: Batch, data: st.DataObject) -> None:
    start = data.draw(signals(batch, Level.TRAJECTORY, missing=False))
    after = data.draw(signals(batch, Level.TURN, missing=False))
    one = state_values(start, after)
    last = after.pool(Level.TRAJECTORY, "last")
    other = critic_values(one.before, last)
    assert torch.equal(one.before.values, other.before.values)
    assert torch.equal(one.after.values, other.after.values)


@given(batches(), st.data())
def test_differences_telescope(batch: Batch, data: st.DataObject) -> None:
    start = data.draw(signals(batch, Level.TRAJECTORY, missing=False))
    after = data.draw(signals(batch, Level.TURN, missing=False))
    total = state_values(start, after).difference.check().pool(Level.TRAJECTORY, "sum")
    last = torch.where(batch.turns > 0, after.pool(Level.TRAJECTORY, "last").values - start.values, 0.0)
    torch.testing.assert_close(total.values, last)


def test_an_unknown_state_leaves_both_turns_that_touch_it_without_a_difference() -> None:
    b = Batch.of(groups=["q"], turns=[4])
    start = Signal.of(b, Level.TRAJECTORY, [0.0], name="phi")
    v = state_values(start, Signal.of(b, Level.TURN, [0.25, None, 0.5, 1.0], name="phi"))
    assert v.difference.known.tolist() == [True, False, False, True]
    assert v.difference.values.tolist() == [0.25, 0.0, 0.0, 0.5]


def test_levels_and_batches_are_checked() -> None:
    b = Batch.of(groups=["q"], turns=[1], tokens=[1])
    whole, turn = Signal.zeros(b, Level.TRAJECTORY, name="v"), Signal.zeros(b, Level.TURN, name="v")
    stranger = Signal.zeros(Batch.of(groups=["q"]), Level.TRAJECTORY, name="v")
    for start, after in ((turn, turn), (whole, whole), (stranger, turn)):
        with pytest.raises(InvalidArgument):
            state_values(start, after)
        with pytest.raises(InvalidArgument):
            critic_values(after, start)
