"""MT-GRPO: what the environment paid reaches the turn that earned it."""

from __future__ import annotations

import pytest

from apportion.advantages import grpo
from apportion.errors import InvalidArgument, MissingInput
from apportion.quick import rewards_signal
from apportion.recipes.mt_grpo import mt_grpo
from tests.recipes.builders import advantages, by, rollout

PAID, SOLVED = [0.5, 0.0, 0.5, 0.0], [1.0, 0.0, 0.0, 1.0]


def test_only_the_first_turn_answers_for_its_reward() -> None:
    rollouts = [rollout(str(i), by("paid", [PAID[i], 9.0 * i]), reward=SOLVED[i]) for i in range(4)]
    made = advantages(mt_grpo(), rollouts)
    assert made[0::2] == pytest.approx([1.7316, -1.7316, -0.0002, 0.0002], abs=1e-4)
    assert made[1::2] == pytest.approx([0.8659, -0.8659, -0.8659, 0.8659], abs=1e-4)


def test_equal_turn_rewards_leave_grpo() -> None:
    rollouts = [rollout(str(i), by("paid", [0.5] * (1 + i)), reward=SOLVED[i]) for i in range(4)]
    expected = grpo(rewards_signal(SOLVED), dialect="trl").values.tolist()
    for turns in ("first", "each"):
        made = advantages(mt_grpo(turns=turns), rollouts)
        assert made == pytest.approx([a for i, a in enumerate(expected) for _ in range(1 + i)])


def test_a_rollout_that_no_result_answered_is_compared_by_the_sum() -> None:
    """z of R + r_1 = [1.5, 0, 0.5, 1.0] for the rollout of one turn; the sum's mean is 0.75."""
    rollouts = [rollout(str(i), by("paid", [PAID[i]] * (1 if i == 3 else 2)), reward=SOLVED[i] + 0.0) for i in range(4)]
    made = advantages(mt_grpo(eps=0.0), rollouts)
    assert made[-1] == pytest.approx(0.25 / 0.6454972)


def test_each_turn_can_be_compared_with_turns_of_its_place() -> None:
    rollouts = [
        rollout("a", by("paid", [1.0, 0.0, 5.0]), reward=0.0),
        rollout("b", by("paid", [0.0, 1.0]), reward=0.0),
    ]
    made = advantages(mt_grpo(turns="each", eps=0.0), rollouts)
    assert made == pytest.approx([0.7071, -0.7071, 0.0, -0.7071, 0.7071], abs=1e-4)


def test_two_prompts_never_mix() -> None:
    one = [rollout(str(i), by("paid", [PAID[i], 0.0]), reward=SOLVED[i]) for i in range(4)]
    other = [rollout(f"p{i}", by("paid", [100.0 * i, 0.0]), group="p", reward=7.0 * i) for i in range(2)]
    mixed = [one[0], other[0], *one[1:], other[1]]
    assert advantages(mt_grpo(), mixed)[:2] == pytest.approx(advantages(mt_grpo(), one)[:2])


def test_a_turn_without_policy_tokens_is_in_no_pool() -> None:
    """The second rollout's first turn is silent: nothing to compare the other one with."""
    rollouts = [
        rollout("a", by("paid", [1.0, None]), tokens=[2, 1], reward=0.0),
        rollout("b", by("paid", [0.0, None]), tokens=[0, 1], reward=0.0),
    ]
    assert advantages(mt_grpo(), rollouts) == [0.0] * 4


def test_what_is_missing_or_wrong_is_said() -> None:
    with pytest.raises(MissingInput, match=r"record it as Turn\.reward"):
        mt_grpo().score([rollout("a", [{}, {}], reward=1.0)])
    with pytest.raises(MissingInput, match="turn column 'found'"):
        mt_grpo(turn_reward="found").score([rollout("a", [{}, {}], reward=1.0)])
    with pytest.raises(InvalidArgument, match="turns"):
        mt_grpo(turns="last")  # type: ignore[arg-type]
