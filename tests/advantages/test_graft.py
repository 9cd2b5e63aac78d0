"""Peer replacement: who may be grafted, what it weighs, and the batch that comes out."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import balanced, graft, graftable, grpo, peer_weight
from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal


def test_all_fail_here_and_mixed_there() -> None:
    receiver = rewards_signal([0, 0, 0, 0, 0, 1, 0, 0, None, None], groups=list("aabbccddee"))
    peer = rewards_signal([1, 0, 1, 1, 1, 0, 0, 0, 1, 0], groups=list("aabbccddee"))
    assert graftable(receiver, peer) == {"a": 1}


def test_what_is_missing_counts_on_neither_side() -> None:
    receiver = rewards_signal([0, None, 0, 0], groups=list("aabb"))
    assert graftable(receiver, rewards_signal([1, 0, 1, None], groups=list("aabb"))) == {"a": 1}


def test_prompts_that_one_side_never_answered_are_left_out() -> None:
    assert graftable(rewards_signal([0, 0]), rewards_signal([1, 0], groups=["x", "x"])) == {}


@pytest.mark.parametrize(
    ("one", "other", "kept"),
    [
        ({"a": 1, "b": 3, "c": 2}, {"x": 1, "y": 1}, (["b", "c"], ["x", "y"])),
        ({"a": 2, "b": 3, "c": 2}, {"x": 1, "y": 1}, (["a", "b", "c"], ["x", "y"])),
        ({"a": 1}, {}, ([], [])),
    ],
)
def test_balance_keeps_ties(one: dict[str, int], other: dict[str, int], kept: tuple[list[str], list[str]]) -> None:
    assert balanced(one, other) == kept


def test_the_worked_weights() -> None:
    own = rewards_signal([-0.5, -0.8, -0.3, None, 5e3])
    w = peer_weight(own, Signal.of(own.batch, Level.TRAJECTORY, [-0.4] * 5, name="peer"))
    assert w.values.tolist() == pytest.approx([0.9048, 0.0, 1.0, 0.0, 1.0], abs=1e-4)
    assert w.known.tolist() == [True, False, True, False, True]


def test_a_weight_at_the_threshold_leaves() -> None:
    own = rewards_signal([-0.25, -0.25])
    peer = Signal.of(own.batch, Level.TRAJECTORY, [0.0, -0.001], name="peer")
    threshold = float(torch.exp(torch.tensor(-0.25, dtype=torch.float64)))
    assert peer_weight(own, peer, threshold=threshold).known.tolist() == [False, True]


@given(st.floats(-5, 0), st.floats(-5, 0), st.floats(0, 0.99))
def test_weights_lie_above_the_threshold_and_rise_with_the_likelihood(own: float, peer: float, delta: float) -> None:
    x = rewards_signal([own, own + 0.1])
    w = peer_weight(x, Signal.of(x.batch, Level.TRAJECTORY, [peer, peer], name="peer"), threshold=delta)
    assert all(delta < v <= 1 for v in w.values[w.known].tolist())
    assert float(w.values[0]) <= float(w.values[1])


def _batches() -> tuple[Signal, Signal]:
    mine = Batch.of(
        groups=["a", "b", "a", "b"],
        turns=[2, 1, 1, 1],
        tokens=[1, 1, 2, 1, 3],
        token_columns={"trainer_logps": torch.arange(8.0)},
    )
    theirs = Batch.of(
        groups=["a", "b", "a"],
        ids=["p0", "p1", "p2"],
        tokens=[2, 1, 3],
        token_columns={"trainer_logps": -torch.arange(6.0)},
    )
    receiver = grpo(Signal.of(mine, Level.TRAJECTORY, [0.0, 1.0, 0.0, 0.0], name="outcome"))
    path = Signal.of(mine, Level.TURN, [0.0, 0.0, -0.25, 0.0, 0.0], name="path")
    return receiver + path, grpo(Signal.of(theirs, Level.TRAJECTORY, [1.0, 1.0, 0.0], name="outcome"))


def test_the_batch_that_comes_out() -> None:
    receiver, peer = _batches()
    weight = Signal.of(peer.batch, Level.TRAJECTORY, [0.9, 1.0, None], name="peer_weight")
    made = graft(receiver, peer, prompts=["a"], weight=weight)
    assert made.batch.ids == ("1", "3", "p0", "p2")  # the peer last
    assert made.batch.columns["peer"].tolist() == [0, 0, 1, 1]
    assert [made.batch.group_ids[g] for g in made.batch.group.tolist()] == ["b", "b", "a", "a"]
    # The denominator of the ratio on the peer's tokens is the receiver's old policy.
    assert made.batch.token_columns["trainer_logps"].tolist() == [2.0, 3.0, 5.0, 6.0, 7.0, 0.0, -1.0, -3.0, -4.0, -5.0]
    root = 0.5**0.5
    assert made.advantages.level == Level.TURN
    assert made.advantages.values.tolist() == pytest.approx([root - 0.25, -root, 0.9 * root, 0.0])
    assert made.advantages.known.tolist() == [True, True, True, False]
    assert made.advantages.ledger()["path"].tolist() == [-0.25, 0.0, 0.0, 0.0]
    assert made.advantages.residual() <= 1e-12
    assert (made.prompts, made.dropped) == (1, 1)


def test_the_advantages_are_the_peers_own() -> None:
    receiver, peer = _batches()
    one = Signal.of(peer.batch, Level.TRAJECTORY, [1.0] * 3, name="peer_weight")
    made = graft(receiver.spread(Level.TOKEN), peer, prompts=["a"], weight=one)
    assert made.advantages.values[5:].tolist() == peer.spread(Level.TOKEN).values[[0, 1, 3, 4, 5]].tolist()


@given(st.floats(0.8, 1.0), st.sampled_from([-1.0, 1.0]), st.floats(0.5, 2.0))
def test_a_weight_may_move_into_the_advantage(w: float, advantage: float, ratio: float) -> None:
    def clipped(a: float) -> float:
        return min(ratio * a, min(max(ratio, 0.8), 1.2) * a)

    assert w * clipped(advantage) == pytest.approx(clipped(w * advantage))


def test_every_group_or_none_may_be_replaced() -> None:
    receiver, peer = _batches()
    one = Signal.of(peer.batch, Level.TRAJECTORY, [1.0] * 3, name="peer_weight")
    assert graft(receiver, peer, prompts=["a", "b"], weight=one).batch.ids == ("p0", "p1", "p2")
    same = graft(receiver, peer, prompts=[], weight=one)
    assert same.batch.ids == receiver.batch.ids
    assert torch.equal(same.advantages.values, receiver.values)


def test_what_does_not_go_together_is_refused() -> None:
    receiver, peer = _batches()
    one = Signal.of(peer.batch, Level.TRAJECTORY, [1.0] * 3, name="peer_weight")
    with pytest.raises(InvalidArgument, match=r"zz.*receiver's batch"):
        graft(receiver, peer, prompts=["zz"], weight=one)
    with pytest.raises(InvalidArgument, match="weight"):
        graft(receiver, peer, prompts=["a"], weight=receiver)
    unscored = replace(peer, batch=replace(peer.batch, token_columns={}))
    with pytest.raises(MissingInput, match="trainer_logps"):
        graft(receiver, unscored, prompts=["a"], weight=replace(one, batch=unscored.batch))
    with pytest.raises(InvalidArgument, match="threshold"):
        peer_weight(one, one, threshold=1.0)
    with pytest.raises(InvalidArgument, match="own"):
        peer_weight(receiver, receiver)
    with pytest.raises(InvalidArgument, match="outcome"):
        graftable(receiver, one)
