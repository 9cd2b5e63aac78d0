"""Plain lists in, a signal out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from apportion.advantages import grpo
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level


def test_none_and_nan_are_missing() -> None:
    x = rewards_signal([1, None, float("nan"), True], groups=["a", "a", "b", "b"])
    assert x.known.tolist() == [True, False, False, True]
    assert x.values.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert x.batch.group.tolist() == [0, 0, 1, 1]


def test_tokens_make_token_credit_possible() -> None:
    assert rewards_signal([1.0], tokens=[2]).spread(Level.TOKEN).values.tolist() == [1.0, 1.0]
    assert not rewards_signal([1.0]).batch.has_tokens


def test_every_wrong_length_is_listed() -> None:
    with pytest.raises(InvalidArgument, match=r"'rewards': 2, 'groups': 1, 'tokens': 3"):
        rewards_signal([1.0, 0.0], groups=["a"], tokens=[1, 2, 3])


def test_an_infinite_reward_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="finite"):
        rewards_signal([float("inf")])


@pytest.mark.parametrize("rewards", [["good"], [1.0, "timeout"], [None, "timeout"], [[1.0], [0.0]], 1.0])
def test_what_is_not_a_reward_per_rollout_is_refused(rewards: object) -> None:
    with pytest.raises(InvalidArgument, match="rewards"):
        rewards_signal(rewards)  # type: ignore[arg-type]


def test_a_rollout_without_a_token_cannot_be_scored() -> None:
    x = rewards_signal([5.0, 0.0], tokens=[0, 2])
    assert x.known.tolist() == [False, True]
    assert grpo(x).values.tolist() == [0.0, 0.0]


def test_float32_rewards_keep_float32_resolution() -> None:
    noisy = torch.tensor([0.3, 0.3, 0.3])
    noisy[1] = torch.nextafter(noisy[1], torch.tensor(1.0))
    for rewards in (noisy, noisy.numpy(), noisy.tolist()):
        same = (grpo(rewards_signal(rewards)).values == 0).all()
        assert bool(same) == (not isinstance(rewards, list))


@pytest.mark.parametrize("kind", [torch.tensor, np.array])
@pytest.mark.parametrize("rewards", [[1, 0, 0, 0], [True, False, False, False]])
def test_whole_numbers_and_flags_are_rewards(kind: type, rewards: list[int]) -> None:
    assert grpo(rewards_signal(kind(rewards))).values.tolist() == [1.5, -0.5, -0.5, -0.5]


@pytest.mark.parametrize("lost", [None, float("nan")])
def test_lost_group_ids_do_not_make_a_group(lost: object) -> None:
    with pytest.raises(InvalidArgument, match=r"groups=\[1, 2\]"):
        rewards_signal([1.0, 0.0, 1.0], groups=["q", lost, lost])


def test_no_rewards_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        rewards_signal([])
