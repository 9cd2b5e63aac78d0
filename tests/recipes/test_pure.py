"""PURE: the (soft) minimum of the steps, with a baseline per token or per turn."""

from __future__ import annotations

import math
from typing import Literal

import pytest

from apportion.advantages import rloo
from apportion.errors import InvalidArgument, MissingInput
from apportion.quick import rewards_signal
from apportion.recipes.pure import pure
from apportion.rollouts import Trajectory
from tests.recipes.builders import advantages, by, rollout


def scored(name: str, *scores: float | None, reward: float = 0.0, tokens: list[int] | None = None) -> Trajectory:
    return rollout(name, by("step_score", scores), reward=reward, tokens=tokens)


_WEIGHTS = [math.exp(-score / 0.1) for score in (0.9, 0.2, 0.5)]
A, B, C = (score * w / sum(_WEIGHTS) for score, w in zip((0.9, 0.2, 0.5), _WEIGHTS, strict=True))


def test_the_steps_of_the_specification_against_a_rollout_of_zeros() -> None:
    """The other rollout's baseline is what this one got per turn: (A + B + C) / 3."""
    assert pytest.approx([0.0008, 0.1903, 0.0237], abs=5e-5) == [A, B, C]
    made = advantages(pure(baseline="turn"), [scored("1", 0.9, 0.2, 0.5), scored("2", 0.0, 0.0)])
    per_turn = (A + B + C) / 3
    assert made == pytest.approx([A + B + C, B + C, C, -2 * per_turn, -per_turn])


def test_a_turn_answers_for_its_tokens() -> None:
    """min: the rollouts get .2 over 4 tokens and .5 over 3; each is held against the other's share per token."""
    rollouts = [scored("1", 0.9, 0.2, tokens=[1, 3]), scored("2", 0.5, tokens=[3])]
    made = advantages(pure(form="min"), rollouts)
    one, two = 0.5 / 3, 0.2 / 4
    assert made == pytest.approx([0.2 - 4 * one, *[0.2 - 3 * one] * 3, *[0.5 - 3 * two] * 3])


def test_scores_of_zero_leave_rloo() -> None:
    rollouts = [scored(str(i), *[0.0] * (i + 1), reward=float(i == 0)) for i in range(3)]
    expected = rloo(rewards_signal([1.0, 0.0, 0.0])).values.tolist()
    made = advantages(pure(baseline="turn"), rollouts)
    assert made == pytest.approx([a for i, a in enumerate(expected) for _ in range(i + 1)])


def test_equal_scores_and_lengths_leave_rloo_too() -> None:
    rollouts = [scored(str(i), 0.3, 0.3, reward=float(i == 0), tokens=[2, 2]) for i in range(2)]
    assert advantages(pure(form="min", step_weight=1.0), rollouts)[:2] == pytest.approx([1.0 + 0.3 - 0.3] * 2)


def test_turns_and_rollouts_without_scores_are_in_no_baseline() -> None:
    both = [scored("1", 0.5, None, 0.1, reward=1.0), scored("2", 0.4, 0.2)]
    made = advantages(pure(form="min", baseline="turn"), [*both, scored("3", None, None)])
    # RLOO over three outcomes: 1 and -.5; the process part over the two scored rollouts, two scored turns each.
    assert made[:3] == pytest.approx([1 + 0.1 - 0.2, 1 + 0.1 - 0.1, 1 + 0.1 - 0.1])
    assert made[3:5] == pytest.approx([-0.5 + 0.2 - 0.1, -0.5 + 0.2 - 0.05])
    assert made[5:] == pytest.approx([-0.5, -0.5])


def test_the_only_scored_rollout_has_nothing_to_compare_with() -> None:
    assert advantages(pure(baseline="turn"), [scored("1", 0.9, 0.2)]) == [0.0, 0.0]


def test_what_is_missing_or_wrong_is_said() -> None:
    with pytest.raises(MissingInput, match=r"turn column 'step_score'.*process reward model"):
        pure().score([rollout("a", [{}], reward=1.0)])
    with pytest.raises(InvalidArgument, match="baseline='token': expected 'turn' for text-only rollouts"):
        pure().score([scored("1", 0.9), scored("2", 0.1)])
    with pytest.raises(InvalidArgument, match="temperature"):
        pure(temperature=0.0)


def test_a_score_of_a_turn_in_which_the_policy_wrote_nothing_is_no_step() -> None:
    other = rollout("2", by("step_score", [0.2, 0.4]), tokens=[1, 1], reward=0.0)

    def made(baseline: Literal["token", "turn"], scores: list[float | None]) -> list[float]:
        first = rollout("1", by("step_score", scores), tokens=[1, 0, 1], reward=1.0)
        return advantages(pure(baseline=baseline), [first, other])

    for baseline in ("token", "turn"):
        assert made(baseline, [0.5, -1.0, 0.1]) == pytest.approx(made(baseline, [0.5, None, 0.1]))
