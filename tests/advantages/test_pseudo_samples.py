"""Pseudo-samples, and the virtual elements of `group_stat` below them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import group_stat, group_statistics, grpo, pseudo_samples
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from tests.strategies import batches, signals


def test_eight_successes_against_four_failures_that_nobody_sampled() -> None:
    made = pseudo_samples(rewards_signal([1.0] * 8), count=4)
    assert made.values.tolist() == pytest.approx([(1 - 2 / 3) / 0.492366] * 8, abs=1e-5)
    assert made.values.tolist() == pytest.approx([0.6770] * 8, abs=1e-4)
    assert grpo(rewards_signal([1.0] * 8)).values.tolist() == [0.0] * 8


@given(st.integers(2, 9), st.integers(1, 7))
def test_virtual_zeros_are_what_real_zeros_would_be(n: int, z: int) -> None:
    made = pseudo_samples(rewards_signal([1.0] * n), count=z)
    real = grpo(rewards_signal([1.0] * n + [0.0] * z))
    assert made.values.tolist() == pytest.approx(real.values[:n].tolist())


@given(st.integers(1, 6))
def test_more_pseudo_samples_push_harder(z: int) -> None:
    x = rewards_signal([1.0] * 8)
    assert float(pseudo_samples(x, count=z + 1).values[0]) > float(pseudo_samples(x, count=z).values[0]) > 0


def test_one_count_per_group_and_only_saturated_groups_use_it() -> None:
    x = rewards_signal([1, 1, 1, 0, 0, 0, 1, 1], groups=list("aabbccdd"))
    made = pseudo_samples(x, count=torch.tensor([1, 5, 5, 2]))
    one, two = grpo(rewards_signal([1, 1, 0])).values, grpo(rewards_signal([1, 1, 0, 0])).values
    root = math.sqrt(0.5)
    expected = [float(one[0])] * 2 + [root, -root, 0.0, 0.0] + [float(two[0])] * 2
    assert made.values.tolist() == pytest.approx(expected)


def test_a_lone_success_stays_alone_and_missing_stays_missing() -> None:
    made = pseudo_samples(rewards_signal([1.0, None, 1.0, 1.0, None], groups=list("aabbb")))
    assert made.values.tolist()[:2] == [0.0, 0.0]
    assert made.known.tolist() == [True, False, True, True, False]
    assert made.values.tolist()[2] == pytest.approx(float(grpo(rewards_signal([1, 1, 0, 0, 0, 0])).values[0]))


@given(st.data(), batches())
def test_without_pseudo_samples_it_is_grpo(data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, Level.TRAJECTORY))
    assert torch.equal(pseudo_samples(x, count=0).values, grpo(x).values)
    assert pseudo_samples(x).residual() <= 1e-12


@pytest.mark.parametrize("center", ["mean", "loo", "none"])
@pytest.mark.parametrize("scale", ["std", "mean", "none"])
def test_virtual_elements_in_every_centre_and_scale(center: str, scale: str) -> None:
    options = {"center": center, "scale": scale}
    made = group_stat(rewards_signal([1.0, 0.5, 1.0]), virtual=torch.tensor([2]), **options)  # type: ignore[arg-type]
    real = group_stat(rewards_signal([1.0, 0.5, 1.0, 0.0, 0.0]), **options)  # type: ignore[arg-type]
    assert made.values.tolist() == pytest.approx(real.values[:3].tolist())


def test_virtual_elements_make_no_group_larger() -> None:
    stats = group_statistics(rewards_signal([1.0, None]), virtual=torch.tensor([3]))
    assert (stats.count.tolist(), stats.mass.tolist(), stats.mean.tolist()) == ([1], [4.0], [0.25])
    assert (stats.low.tolist(), stats.high.tolist(), stats.constant.tolist()) == ([0.0], [1.0], [True])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"success": 0.0}, "success"),
        ({"scale": "mad"}, "scale"),
        ({"count": -1}, "count"),
        ({"count": torch.tensor([1, 2])}, "count"),
        ({"eps": -1.0}, "eps"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        pseudo_samples(rewards_signal([1.0, 1.0]), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"center": "median"}, {"scale": "mad"}, {"scale": "loo_std"}, {"scale_key": "batch"}]
)
def test_statistics_that_cannot_count_virtual_elements_refuse_them(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match="virtual"):
        group_stat(rewards_signal([1.0, 1.0]), virtual=torch.tensor([1]), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("virtual", [torch.tensor([1, 2]), torch.tensor([-1]), torch.tensor([float("inf")])])
def test_virtual_elements_are_one_number_per_group(virtual: torch.Tensor) -> None:
    with pytest.raises(InvalidArgument, match="virtual"):
        group_stat(rewards_signal([1.0, 1.0]), virtual=virtual)


def test_rewards_are_per_rollout() -> None:
    with pytest.raises(InvalidArgument, match="TRAJECTORY"):
        pseudo_samples(rewards_signal([1.0, 1.0]).spread(Level.TURN))
