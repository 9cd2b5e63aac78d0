"""Plain lists in, a signal out."""

from __future__ import annotations

import pytest

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


def test_no_rewards_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        rewards_signal([])
