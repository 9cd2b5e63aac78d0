"""UI-S1: a step that misses the expert cuts the return on both of its sides."""

from __future__ import annotations

import pytest

from apportion.errors import InvalidArgument, MissingInput
from apportion.recipes.ui_s1 import ui_s1
from apportion.rollouts import Trajectory
from tests.recipes.builders import advantages, rollout


def steps(name: str, scores: list[float | None], matched: list[int | None], *, reward: float = 0.0) -> Trajectory:
    pairs = zip(scores, matched, strict=True)
    rows: list[dict[str, float | None]] = [{"score": s} if m is None else {"score": s, "matched": m} for s, m in pairs]
    return rollout(name, rows, reward=reward)


ONE, TWO = steps("1", [1, 0.1, 1], [1, 0, 1]), steps("2", [1, 1, 1], [1, 1, 1])


def test_returns_among_the_steps_of_one_place() -> None:
    """Returns [1, 0.1, 1] and [1.75, 1.5, 1], centred place by place."""
    made = advantages(ui_s1(mode="mean", episode_weight=0.0), [ONE, TWO])
    assert made == pytest.approx([-0.375, -0.7, 0.0, 0.375, 0.7, 0.0])


def test_scores_among_all_steps_of_the_prompt() -> None:
    """The mean of the six scores is 0.85."""
    made = advantages(ui_s1(mode="mean", step_weight=0.0), [ONE, TWO])
    assert made == pytest.approx([0.15, -0.75, 0.15, 0.15, 0.15, 0.15])


def test_the_outcome_counts_once_per_step_or_once_per_rollout() -> None:
    """Outcomes 1 (three steps) and 0 (one step): means 0.75 and 0.5."""
    rollouts = [steps("1", [1, 1, 1], [1, 1, 1], reward=1.0), steps("2", [1], [1], reward=0.0)]
    for unit, expected in (("element", [0.25, -0.75]), ("trajectory", [0.5, -0.5])):
        recipe = ui_s1(mode="mean", step_weight=0.0, episode="outcome", unit=unit)  # type: ignore[arg-type]
        assert advantages(recipe, rollouts)[2:] == pytest.approx(expected)


def test_equal_scores_and_lengths_teach_nothing() -> None:
    assert advantages(ui_s1(), [TWO, steps("3", [1, 1, 1], [1, 1, 1])]) == [0.0] * 6


def test_with_a_constant_score_and_no_match_the_outcome_alone_is_left() -> None:
    rollouts = [steps(str(i), [0.5, 0.5], [0, 0], reward=float(i)) for i in range(2)]
    made = advantages(ui_s1(episode="outcome", unit="trajectory", eps=0.0), rollouts)
    assert made == pytest.approx([-0.7071, -0.7071, 0.7071, 0.7071], abs=1e-4)


def test_a_step_of_unknown_match_cuts_like_a_miss() -> None:
    made = advantages(ui_s1(mode="mean", episode_weight=0.0), [steps("1", [1, 1], [1, None]), TWO])
    assert made == pytest.approx([-0.375, -0.25, 0.375, 0.25, 0.0])


def test_what_is_missing_or_wrong_is_said() -> None:
    with pytest.raises(MissingInput, match="turn column 'score'"):
        ui_s1().score([rollout("a", [{"matched": 1}])])
    with pytest.raises(MissingInput, match=r"turn column 'matched'.*did what the expert did"):
        ui_s1().score([rollout("a", [{"score": 1}])])
    with pytest.raises(InvalidArgument, match="episode"):
        ui_s1(episode="sum")  # type: ignore[arg-type]


def test_a_step_without_a_score_is_in_no_statistic() -> None:
    """At place 0 the second rollout is alone, whatever follows the first one's step of unknown score."""
    made = advantages(
        ui_s1(mode="mean", episode_weight=0.0), [steps("1", [None, 1], [1, 1]), steps("2", [1, 1], [1, 1])]
    )
    assert made == [0.0] * 4
