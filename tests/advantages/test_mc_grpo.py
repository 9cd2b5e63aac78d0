"""MC-GRPO: the median rollout leaves, the rest never explodes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import mc_grpo, token_weights
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from tests.strategies import batches, signals


def test_the_released_numbers() -> None:
    made = mc_grpo(rewards_signal([0.2, 0.5, 1.0]), eps=1e-3, rescale="released")
    assert made.values.tolist() == pytest.approx([-1.495, 0.0, 2.492], abs=1e-3)
    assert made.known.tolist() == [True, False, True]


def test_the_released_factor_keeps_its_digits() -> None:
    # Six of seven move; 7 / 6 of two integer tensors would be a float32.
    x = rewards_signal([0.0, 0.1, 0.2, 0.5, 0.6, 0.7, 1.0])
    made = mc_grpo(x, scale="none", rescale="released")
    assert made.values.tolist() == pytest.approx([7 / 6 * (r - 0.5) for r in x.values.tolist()], rel=1e-14)


@pytest.mark.parametrize(
    ("scale", "expected"), [("none", [-0.3, 0.0, 0.5]), ("mad", [-1.0, 0.0, 5 / 3]), ("std", [-0.7423, 0.0, 1.2372])]
)
def test_scales(scale: str, expected: list[float]) -> None:
    made = mc_grpo(rewards_signal([0.2, 0.5, 1.0]), scale=scale)  # type: ignore[arg-type]
    assert made.values.tolist() == pytest.approx(expected, abs=1e-4)


def test_binary_rewards_fall_back_to_the_std() -> None:
    rewards = torch.tensor([1.0, 0.0, 0.0])
    mad = (rewards - rewards.median()).abs().median()
    assert float((1.0 - rewards.median()) / (mad + 1e-3)) == pytest.approx(1000.0)  # times 3/1: the released 3000
    made = mc_grpo(rewards_signal(rewards.tolist()), eps=1e-3)
    assert float(made.values[0]) == pytest.approx(1.0 / (rewards.std().item() + 1e-3))


@given(st.lists(st.sampled_from([0.0, 1.0, 0.5, 0.5 + 1e-6, 1e-7]), min_size=1, max_size=9))
def test_nothing_explodes(rewards: list[float]) -> None:
    # (x - median) / std is at most sqrt(2 n); a mad that is trusted is at least a tenth of the std.
    bound = 10 * (2 * len(rewards)) ** 0.5 + 1e-6
    assert float(mc_grpo(rewards_signal(rewards)).values.abs().max()) <= bound


@given(st.data(), batches())
def test_exactly_one_rollout_per_group_leaves(data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, Level.TRAJECTORY))
    made = mc_grpo(x)
    for g in range(batch.size(Level.GROUP)):
        before, after = (int((s.known & (batch.group == g)).sum()) for s in (x, made))
        assert after == max(before - 1, 0)


def test_one_of_several_medians_leaves() -> None:
    made = mc_grpo(rewards_signal([0.0, 0.5, 0.5, 0.5, 1.0]))
    assert int(made.known.sum()) == 4
    assert sorted(made.values[made.known].tolist())[1:3] == [0.0, 0.0]


def test_the_pivot_counts_in_no_denominator() -> None:
    made = mc_grpo(rewards_signal([0.2, 0.5, 1.0], tokens=[1, 7, 3])).spread(Level.TOKEN)
    weights = token_weights(made.batch, "token-mean", in_loss=made.known)
    assert weights.tolist() == pytest.approx([0.25] + [0.0] * 7 + [0.25] * 3)


def test_an_even_group_uses_the_lower_median() -> None:
    made = mc_grpo(rewards_signal([0.0, 1.0, 2.0, 9.0]), scale="none")
    assert (made.values.tolist(), made.known.tolist()) == ([-1.0, 0.0, 1.0, 8.0], [True, False, True, True])


def test_dead_groups_are_exactly_zero() -> None:
    assert (mc_grpo(rewards_signal([0.1] * 5), rescale="released").values == 0).all()


@pytest.mark.parametrize("options", [{"scale": "mean"}, {"rescale": "all"}, {"eps": -1.0}, {"mad_floor": float("nan")}])
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        mc_grpo(rewards_signal([1.0, 0.0, 0.5]), **options)  # type: ignore[arg-type]


def test_only_whole_rollouts_can_be_dropped() -> None:
    with pytest.raises(InvalidArgument, match="TRAJECTORY"):
        mc_grpo(rewards_signal([1.0, 0.0]).spread(Level.TURN))
