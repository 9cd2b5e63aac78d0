"""Adding rewards: before or after normalising, with denominators of their own, behind gates."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from apportion.advantages import (
    channel,
    dr_grpo,
    gate,
    group_center,
    group_statistics,
    normalize_then_sum,
    per_channel,
    sum_then_normalize,
)
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Abstained, Failed, Scored

TWO_EPISODES = Batch.of(groups=["q", "q"], turns=[2, 2], tokens=[10, 10, 10, 10])


def by_turn(values: Signal) -> list[float]:
    """The first token of every turn; all tokens of a turn must agree."""
    rows = values.values.reshape(4, 10)
    assert (rows == rows[:, :1]).all()
    return rows[:, 0].tolist()


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([1.0, 0.0], [0.0125, -0.0125, -0.0125, -0.0125]),
        ([0.75, 0.0], [0.009375, -0.015625, -0.009375, -0.009375]),
    ],
)
def test_outcome_and_path_have_their_own_denominators(scores: list[float], expected: list[float]) -> None:
    # Episode 1 solves the task with one violation in its second turn; episode 2 fails without one. N = 40 and 10.
    outcome = dr_grpo(Signal.of(TWO_EPISODES, Level.TRAJECTORY, scores, name="outcome"))
    path = channel(Signal.of(TWO_EPISODES, Level.TURN, [0.0, -0.25, 0.0, 0.0], name="path"))
    made = per_channel([outcome, path], counted=["known", "nonzero"])
    assert by_turn(made) == pytest.approx(expected)
    assert made.residual() <= 1e-15
    assert float(made.ledger()["path"].sum()) == pytest.approx(-0.25)


def test_an_empty_channel_adds_nothing() -> None:
    outcome = Signal.of(TWO_EPISODES, Level.TRAJECTORY, [0.5, -0.5], name="outcome")
    quiet = Signal.zeros(TWO_EPISODES, Level.TURN, name="path")
    assert by_turn(per_channel([outcome, quiet], counted=["known", "nonzero"])) == [0.0125, 0.0125, -0.0125, -0.0125]


def test_a_turn_left_with_a_rounding_error_is_in_no_denominator() -> None:
    """Violations 1, 2, 2, 3 at 0.3 each: two turns sit at the mean, and are 0 or 1e-17 as the rollouts are ordered."""
    batch = Batch.of(groups=["q"] * 4, tokens=[1] * 4)
    for order in permutations([1.0, 2.0, 2.0, 3.0]):
        path = group_center(Signal.of(batch, Level.TURN, list(order), name="path") * -0.3)
        made = per_channel([path], counted=["nonzero"])
        assert sorted(made.values.tolist()) == pytest.approx([-0.15, 0.0, 0.0, 0.15], abs=1e-15)


def test_copied_tokens_are_in_no_denominator() -> None:
    batch = Batch.of(groups=["q"], tokens=[4], own=torch.tensor([False, False, True, True]))
    made = per_channel([Signal.of(batch, Level.TRAJECTORY, [1.0], name="outcome")], counted=["known"])
    assert made.values.tolist() == [0.0, 0.0, 0.5, 0.5]


def test_channels_of_text_only_rollouts_count_turns() -> None:
    batch = Batch.of(groups=["q", "q"], turns=[3, 1])
    made = per_channel([Signal.of(batch, Level.TRAJECTORY, [1.0, -1.0], name="o")], counted=["known"])
    assert made.values.tolist() == [0.25, 0.25, 0.25, -0.25]


@pytest.mark.parametrize("counted", [[], ["known"], ["known", "all"]])
def test_every_channel_names_its_denominator(counted: list[str]) -> None:
    outcome = Signal.of(TWO_EPISODES, Level.TRAJECTORY, [0.5, -0.5], name="outcome")
    with pytest.raises(InvalidArgument, match="counted"):
        per_channel([outcome, outcome], counted=counted)  # type: ignore[arg-type]


def test_a_channel_pushes_an_all_violating_group_down_and_a_centred_one_does_not() -> None:
    path = Signal.of(TWO_EPISODES, Level.TURN, [-0.25] * 4, name="path")
    assert (channel(path).values == -0.25).all()
    assert (group_center(path).values == 0).all()


def test_a_missing_path_verdict_is_neutral() -> None:
    verdicts = [Scored(-0.25), Failed("no sandbox"), Abstained("-"), Scored(0.0)]
    path = Signal.from_verdicts(TWO_EPISODES, Level.TURN, verdicts, name="path")
    outcome = Signal.of(TWO_EPISODES, Level.TRAJECTORY, [0.5, -0.5], name="outcome")
    assert by_turn(outcome + channel(path)) == [0.25, 0.5, -0.5, -0.5]


def test_centring_over_turns_or_trajectories() -> None:
    batch = Batch.of(groups=["q", "q"], turns=[3, 1], tokens=[1] * 4)
    x = Signal.of(batch, Level.TURN, [1.0, 1.0, 1.0, 0.0], name="progress")
    assert group_center(x).values.tolist() == [0.25, 0.25, 0.25, -0.75]
    assert group_center(x, unit="trajectory").values.tolist() == pytest.approx([0.5, 0.5, 0.5, -0.5])


def test_rewards_of_other_tasks_do_not_drag_a_total() -> None:
    maths = rewards_signal([1, 0, None, None], groups=list("aabb"), name="maths")
    code = Signal.of(maths.batch, Level.TRAJECTORY, [None, None, 1, 1], name="code")
    assert (maths + code).values.tolist() == [1, 0, 1, 1]
    for part, mean in ((maths, 0.5), (code, 1.0)):
        overall = group_statistics(part, key="batch")
        assert (float(overall.mean), int(overall.count)) == (mean, 2)
    assert sum_then_normalize([maths, code]).values.tolist() == pytest.approx([0.7071, -0.7071, 0, 0], abs=1e-4)


def test_a_mean_is_over_what_there_is() -> None:
    some = group_statistics(rewards_signal([0.5, None, None, 0.8, 0.6, 0.7]), key="batch")
    assert (float(some.mean), int(some.count)) == (pytest.approx(0.65), 4)
    assert int(group_statistics(rewards_signal([None, None]), key="batch").count) == 0


def test_a_part_of_weight_zero_cannot_spoil_a_sum() -> None:
    reward = rewards_signal([1.0, 0.0], name="reward")
    metric = Signal.from_verdicts(reward.batch, Level.TRAJECTORY, [Failed("nan"), Scored(1.0)], name="metric")
    made = sum_then_normalize([reward, metric], weights=[1.0, 0.0])
    assert made.values.tolist() == pytest.approx([0.7071, -0.7071], abs=1e-4)
    assert not metric.known.all()
    assert not sum_then_normalize([reward, metric]).known.all()


def test_a_group_whose_parts_differ_is_alive_though_its_sum_is_constant() -> None:
    r1 = rewards_signal([1.0, 0.0], name="r1")
    r2 = Signal.of(r1.batch, Level.TRAJECTORY, [0.0, 1.0], name="r2")
    assert group_statistics(r1 + r2).constant.tolist() == [True]
    made = normalize_then_sum([r1, r2], weights=[1.0, 0.5])
    assert made.values.tolist() == pytest.approx([0.3536, -0.3536], abs=1e-4)


def test_a_gate_names_what_it_took() -> None:
    accuracy = rewards_signal([1.0, 1.0, 0.0], name="accuracy")
    fine = Signal.of(accuracy.batch, Level.TRAJECTORY, [1.0, 0.0, 0.0], name="format")
    made = gate(accuracy, when=fine)
    assert made.values.tolist() == [1.0, 0.0, 0.0]
    assert made.ledger()["gate"].tolist() == [0.0, -1.0, 0.0]
    assert made.known.all()


@pytest.mark.parametrize(("missing", "expected"), [("open", [0.25, 0.25, 0.0]), ("closed", [0.0, 0.0, 0.0])])
def test_a_gate_over_an_unknown_condition(missing: str, expected: list[float]) -> None:
    batch = Batch.of(groups=["q", "q"], turns=[2, 1])
    credit = Signal.of(batch, Level.TURN, [0.25, 0.25, 0.25], name="fulfilled")
    solved = Signal.of(batch, Level.TRAJECTORY, [None, 0.0], name="outcome")
    assert gate(credit, when=solved, missing=missing).values.tolist() == expected  # type: ignore[arg-type]


def test_bad_gates_are_refused() -> None:
    x = rewards_signal([1.0])
    with pytest.raises(InvalidArgument, match="coarser"):
        gate(x, when=x.spread(Level.TURN))
    with pytest.raises(InvalidArgument, match="missing"):
        gate(x, when=x, missing="drop")  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", [[1.0], [0.0, 0.0], [1.0, 1.0, 1.0], [float("nan"), 1.0], [1.0, float("inf")]])
def test_weights_match_their_parts(weights: list[float]) -> None:
    x = rewards_signal([1.0, 0.0])
    for combine in (sum_then_normalize, normalize_then_sum):
        with pytest.raises(InvalidArgument, match="weights"):
            combine([x, x], weights=weights)
