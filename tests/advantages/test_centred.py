"""Dr.GRPO, RLOO, OPO, GPG and MaxRL: one centre each."""

from __future__ import annotations

import pytest
import torch

from apportion.advantages import dr_grpo, gpg, maxrl, opo, rloo
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal

ONE_IN_FOUR = [1.0, 0.0, 0.0, 0.0]
MIXED = {"rewards": [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0], "groups": list("aaaabbbb")}


def test_dr_grpo_centres_only() -> None:
    assert dr_grpo(rewards_signal(ONE_IN_FOUR)).values.tolist() == [0.75, -0.25, -0.25, -0.25]


def test_rloo_leaves_the_rollout_out() -> None:
    got = rloo(rewards_signal(ONE_IN_FOUR)).values.tolist()
    assert got == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])


def test_rloo_counts_known_rewards_only() -> None:
    assert rloo(rewards_signal([1.0, 0.0, None])).values.tolist() == [1.0, -1.0, 0.0]


@pytest.mark.parametrize("estimator", [rloo, dr_grpo, opo])
def test_a_singleton_has_no_baseline(estimator: object) -> None:
    x = rewards_signal([0.7], tokens=[3])
    assert estimator(x).values.tolist() == [0.0]  # type: ignore[operator]
    assert estimator(x, singleton="raw").values.tolist() == [0.7]  # type: ignore[operator]


def test_opo_weighs_by_length() -> None:
    assert opo(rewards_signal([1.0, 0.0], tokens=[100, 300])).values.tolist() == [0.75, -0.25]


def test_opo_needs_lengths() -> None:
    with pytest.raises(InvalidArgument, match="text only"):
        opo(rewards_signal([1.0, 0.0]))


def test_opo_does_not_count_a_missing_rollouts_length() -> None:
    assert opo(rewards_signal([1.0, 0.0, None], tokens=[1, 1, 100])).values.tolist() == [0.5, -0.5, 0.0]


def test_gpg_scales_up_for_dead_groups() -> None:
    x = rewards_signal(**MIXED)  # type: ignore[arg-type]
    assert gpg(x).values.tolist() == [0.0] * 4 + [1.5, -0.5, -0.5, -0.5]
    # veRL counts rewards that are not 0: 8/5 instead of 8/4.
    assert gpg(x, dialect="verl").values.tolist() == pytest.approx([0.0] * 4 + [1.2, -0.4, -0.4, -0.4])


def test_gpg_of_dead_groups_alone_is_zero() -> None:
    assert gpg(rewards_signal([1.0, 1.0, 0.0], groups=["a", "a", "b"])).values.tolist() == [0.0] * 3
    assert gpg(rewards_signal([0.0, 0.0]), dialect="verl").values.tolist() == [0.0, 0.0]


def test_gpg_counts_known_rewards_only() -> None:
    x = rewards_signal([1.0, 0.0, 1.0, 1.0, None, None], groups=list("aabbbb"))
    assert gpg(x).values.tolist() == [1.0, -1.0, 0.0, 0.0, 0.0, 0.0]  # alpha = 4 / 2


def test_gpg_of_a_singleton() -> None:
    x = rewards_signal([0.7])
    assert gpg(x).values.tolist() == [0.0]
    assert gpg(x, dialect="verl").values.tolist() == [0.7]
    assert gpg(x, dialect="verl", singleton="zero").values.tolist() == [0.0]


def test_gpg_has_a_normaliser() -> None:
    assert gpg(rewards_signal([1.0, 0.0]), norm=2.0).values.tolist() == [0.25, -0.25]
    with pytest.raises(InvalidArgument, match="norm"):
        gpg(rewards_signal([1.0, 0.0]), norm=0.0)
    with pytest.raises(InvalidArgument, match="dialect"):
        gpg(rewards_signal([1.0, 0.0]), dialect="trl")  # type: ignore[arg-type]


def test_maxrl_divides_by_the_mean() -> None:
    assert maxrl(rewards_signal(ONE_IN_FOUR)).values.tolist() == [3.0, -1.0, -1.0, -1.0]


def test_maxrl_of_all_failures_is_zero() -> None:
    assert maxrl(rewards_signal([0.0, 0.0, 0.5], groups=["a", "a", "b"])).values.tolist() == [0.0] * 3


def test_maxrl_refuses_negative_rewards() -> None:
    with pytest.raises(InvalidArgument, match=r"elements \[1\]"):
        maxrl(rewards_signal([1.0, -0.5, 0.0]))


@pytest.mark.parametrize("estimator", [dr_grpo, rloo, opo, gpg, maxrl])
def test_a_dead_group_stays_exactly_zero(estimator: object) -> None:
    x = rewards_signal([0.1] * 8 + [1.0, 0.0], groups=["a"] * 8 + ["b"] * 2, tokens=range(1, 11))  # type: ignore[arg-type]
    made = estimator(x)  # type: ignore[operator]
    assert (made.values[:8] == 0).all()
    assert (made.values[8:] != 0).all()


@pytest.mark.parametrize("estimator", [dr_grpo, rloo, opo, gpg, maxrl])
def test_gradients_agree_with_differences(estimator: object) -> None:
    x = rewards_signal([0.9, 0.2, 0.4], tokens=[1, 2, 3])
    raw = x.values.clone().requires_grad_()

    def values(v: torch.Tensor) -> torch.Tensor:
        return estimator(type(x).of(x.batch, x.level, v, name="r")).values  # type: ignore[operator, no-any-return]

    assert torch.autograd.gradcheck(values, (raw,))
