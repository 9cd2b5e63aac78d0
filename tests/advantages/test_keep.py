"""Filters: what goes, why, and what a filter on a reward would have thrown away."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import (
    channel,
    group_center,
    grpo,
    keep_teaching,
    keep_varying,
    normalize_then_sum,
    return_to_go,
    teaches,
)
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.strategies import batches, signals


def test_groups_that_only_turns_tell_apart_survive_one_filter_and_die_in_the_other() -> None:
    # Both rollouts of "a" fail, but one passes a check on the way; both of "b" fail alike.
    batch = Batch.of(groups=["a", "a", "b", "b"], turns=[2, 2, 2, 2])
    outcome = Signal.of(batch, Level.TRAJECTORY, [0.0] * 4, name="outcome")
    passed = Signal.of(batch, Level.TURN, [0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], name="checks passed")
    credit = grpo(outcome) + 0.2 * group_center(return_to_go(passed))
    assert keep_teaching(credit).groups.tolist() == [True, False]
    assert keep_varying(outcome).groups.tolist() == [False, False]
    assert keep_teaching(credit).counts() == {
        "kept": 1,
        "missing": 0,
        "no_credit": 1,
        "constant": 0,
        "below": 0,
        "above": 0,
    }


def test_a_path_channel_keeps_a_group_in_which_everyone_violates() -> None:
    batch = Batch.of(groups=["a", "a"], turns=[1, 1])
    outcome = Signal.of(batch, Level.TRAJECTORY, [0.0, 0.0], name="outcome")
    path = Signal.of(batch, Level.TURN, [-0.25, -0.25], name="path")
    assert keep_teaching(grpo(outcome) + channel(path)).groups.tolist() == [True]
    assert keep_teaching(grpo(outcome) + group_center(path)).groups.tolist() == [False]


def test_the_sum_is_not_what_the_estimator_uses() -> None:
    one = rewards_signal([1.0, 0.0], name="one")
    other = Signal.of(one.batch, Level.TRAJECTORY, [0.0, 1.0], name="other")
    assert keep_varying(one + other).groups.tolist() == [False]
    assert keep_teaching(normalize_then_sum([one, other], weights=[1.0, 0.5])).groups.tolist() == [True]


def test_a_shaped_reward_keeps_other_groups_than_the_accuracy() -> None:
    accuracy = rewards_signal([1.0, 1.0, 1.0, 0.0], groups=list("aabb"))
    overlong = Signal.of(accuracy.batch, Level.TRAJECTORY, [-0.5, 0.0, 0.0, 1.0], name="overlong")
    assert keep_varying(accuracy).groups.tolist() == [False, True]
    assert keep_varying(accuracy + overlong).groups.tolist() == [True, False]


def test_bounds_and_missing_groups_are_counted_apart() -> None:
    groups = {"hard": "100000", "easy": "111110", "half": "10", "unknown": "--", "lone": "1-"}
    rewards = [None if r == "-" else float(r) for r in "".join(groups.values())]
    names = [name for name, row in groups.items() for _ in row]
    kept = keep_varying(rewards_signal(rewards, groups=names), low=0.2, high=0.8)
    assert {k: n for k, n in kept.counts().items() if n} == {"kept": 1, "below": 1, "above": 2, "missing": 1}
    assert kept.groups.tolist() == [False, False, True, False, False]
    half = rewards_signal([1.0, 0.0])
    assert keep_varying(half, low=0.5, high=0.5).groups.tolist() == [True]  # the bounds belong to what is kept


@pytest.mark.parametrize(("singleton", "stays"), [("keep", True), ("drop", False)])
def test_single_rollouts(singleton: str, stays: bool) -> None:
    assert keep_varying(rewards_signal([1.0]), singleton=singleton).groups.tolist() == [stays]  # type: ignore[arg-type]


def test_noise_is_no_variance() -> None:
    assert keep_varying(rewards_signal(torch.tensor([0.1, 0.1 + 1e-8]))).counts()["constant"] == 1


@given(st.data(), batches(tokens=None))
def test_every_group_has_one_reason(data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, Level.TRAJECTORY, failed=True))
    for kept in (keep_teaching(x), keep_varying(x, low=-1.0, high=0.5)):
        assert sum(kept.counts().values()) == batch.size(Level.GROUP)
        assert kept.counts()["kept"] == int(kept.groups.sum())
    assert torch.equal(keep_teaching(x).groups, teaches(x, level=Level.GROUP))
    # A group without variance has no group-centred credit: the two filters agree where there is no other signal.
    assert torch.equal(keep_teaching(grpo(x)).groups, keep_varying(x, singleton="drop").groups)


@pytest.mark.parametrize("options", [{"low": 0.9, "high": 0.1}, {"singleton": "maybe"}, {"low": float("nan")}])
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        keep_varying(rewards_signal([1.0, 0.0]), **options)  # type: ignore[arg-type]


def test_a_metric_is_per_rollout() -> None:
    with pytest.raises(InvalidArgument, match="TRAJECTORY"):
        keep_varying(rewards_signal([1.0, 0.0]).spread(Level.TURN))
