"""Rewards on the last policy token."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import on_last_token
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Abstained, Failed, Presence, Scored
from tests.strategies import batches, signals


def test_not_on_the_observation_that_ends_the_episode() -> None:
    batch = Batch.from_mask(torch.tensor([[1, 1, 0, 1, 0, 0]]), ["q"])
    placed = on_last_token(Signal.of(batch, Level.TRAJECTORY, [1.0], name="r"))
    assert batch.pad(placed.values).tolist() == [[0, 0, 0, 1, 0, 0]]


@given(st.data(), batches())
@pytest.mark.parametrize("level", [Level.TURN, Level.TRAJECTORY])
def test_nothing_is_lost_that_a_token_could_earn(level: Level, data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, level, missing=False))
    placed = on_last_token(x)
    assert placed.residual() == 0.0
    total = placed.pool(Level.TRAJECTORY, "sum").values
    owner = batch.owner(level, Level.TRAJECTORY)
    for i in range(len(batch)):
        mine = x.values[owner == i].tolist()
        if level == Level.TURN and batch.tokens is not None:
            # Turns before the first policy token of the trajectory have no token that could have caused them.
            lengths = batch.tokens[owner == i].tolist()
            first = next((k for k, n in enumerate(lengths) if n), len(lengths))
            mine = mine[first:]
        elif not batch.tokens_per_trajectory[i]:
            mine = []
        assert float(total[i]) == pytest.approx(sum(mine), abs=1e-9)


def test_a_silent_turn_pays_the_token_before_it() -> None:
    batch = Batch.of(groups=["q", "q"], turns=[3, 2], tokens=[0, 2, 0, 0, 1])
    x = Signal.of(batch, Level.TURN, [9.0, None, 1.0, 9.0, 0.5], name="r")
    placed = on_last_token(x)
    assert placed.values.tolist() == [0.0, 1.0, 0.5]
    assert placed.known.tolist() == [False, True, True]


def test_a_silent_turn_that_failed_spoils_the_token_before_it() -> None:
    batch = Batch.of(groups=["q"], turns=[2], tokens=[2, 0])
    x = Signal.from_verdicts(batch, Level.TURN, [Scored(1.0), Failed("-")], name="r")
    assert on_last_token(x).presence.tolist() == [Presence.KNOWN, Presence.FAILED]


def test_tokens_of_missing_turns_are_missing() -> None:
    batch = Batch.of(groups=["q"], turns=[3], tokens=[2, 1, 1])
    x = Signal.from_verdicts(batch, Level.TURN, [Abstained("-"), Failed("-"), Scored(1.0)], name="r")
    state = [Presence.ABSENT, Presence.ABSENT, Presence.FAILED, Presence.KNOWN]
    assert on_last_token(x).presence.tolist() == state


def test_a_rollout_without_tokens_takes_nothing_from_its_neighbour() -> None:
    placed = on_last_token(rewards_signal([1.0, 5.0, 2.0], tokens=[1, 0, 2]))
    assert placed.values.tolist() == [1.0, 0.0, 2.0]
    assert on_last_token(rewards_signal([5.0], tokens=[0])).values.tolist() == []


def test_only_turns_and_trajectories_are_placed() -> None:
    x = rewards_signal([1.0], tokens=[2])
    with pytest.raises(InvalidArgument, match="TURN or TRAJECTORY"):
        on_last_token(x.spread(Level.TOKEN))
    with pytest.raises(InvalidArgument, match="text only"):
        on_last_token(rewards_signal([1.0]))
