"""weighted_mean renormalises; pass marks must be reachable."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.rewards import passes, reachable, weighted_mean
from apportion.verdicts import Abstained, Failed, Scored
from tests.rewards.builders import cells, fixed, fixed_turns, kinds, observed, rollouts, values
from tests.rewards.test_linear import Drawn, assert_same, seen

POSITIVE = st.sampled_from([1.0, 0.5]) | st.floats(0.01, 100)


@given(observed(3), st.lists(POSITIVE, min_size=3, max_size=3))
def test_it_is_the_mean_of_what_is_scored(drawn: Drawn, weights: list[float]) -> None:
    trajectories, parts = drawn
    found = cells(seen(weighted_mean(zip(parts, weights, strict=True)), trajectories))
    columns = [cells(part.observe(trajectories)) for part in parts]
    for mean, *given_cells in zip(found, *columns, strict=True):
        known = [(w, cell.value) for w, cell in zip(weights, given_cells, strict=True) if isinstance(cell, Scored)]
        if known:
            expected = sum(w * value for w, value in known) / sum(w for w, _ in known)
            assert isinstance(mean, Scored)
            assert mean.value == pytest.approx(expected, abs=1e-9)
        else:
            assert isinstance(mean, Failed if any(isinstance(cell, Failed) for cell in given_cells) else Abstained)


@given(observed(2), st.floats(0.01, 100))
def test_only_the_ratio_of_weights_matters(drawn: Drawn, scale: float) -> None:
    trajectories, (a, b) = drawn
    one, other = weighted_mean([(a, 0.3), (b, 0.7)]), weighted_mean([(a, 0.3 * scale), (b, 0.7 * scale)])
    assert_same(seen(one, trajectories), seen(other, trajectories), tolerance=1e-9)


def test_a_failed_judge_is_renormalised_away_or_makes_the_whole_unknown() -> None:
    task, judge = fixed("task", 1.0), fixed("judge", Failed("timeout"))
    (verdict,) = seen(weighted_mean([(task, 0.7), (judge, 0.3)]), rollouts(1))
    assert verdict == Scored(1.0, "task 1 x0.7; renormalised without judge failed (timeout)")
    assert kinds(seen(weighted_mean([(task, 0.7), (judge, 0.3)], failed="unknown"), rollouts(1))) == "F"


def test_weight_zero_never_decides() -> None:
    free, other = fixed("free", 9.0, 9.0, 9.0), fixed("other", 1.0, None, Failed("down"))
    assert values(seen(weighted_mean([(free, 0), (other, 1)]), rollouts(3))) == [1.0, None, None]
    assert kinds(seen(weighted_mean([(free, 0), (other, 1)]), rollouts(3))) == "SAF"
    broken = fixed("broken", Failed("down"))
    assert kinds(seen(weighted_mean([(broken, 0), (fixed("a", 1.0), 1)], failed="unknown"), rollouts(1))) == "S"


def test_a_total_of_zero_is_refused_before_anything_is_asked() -> None:
    judge = fixed("judge", 1.0)
    with pytest.raises(InvalidArgument, match="a total above 0"):
        weighted_mean([(judge, 0), (fixed("b", 1.0), 0), (fixed("c", 1.0), 0)])
    assert judge.asked == []


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [(fixed("a", 1.0), -1.0), (fixed("b", 1.0), 2.0)],
        [(fixed("a", 1.0), float("nan"))],
        [(fixed("a", 1.0), 1.0), (fixed("a", 1.0), 1.0)],
        [(fixed("a", 1.0), 1.0), (fixed_turns("b", 1.0), 1.0)],
    ],
)
def test_parts_are_checked(parts: Any) -> None:
    with pytest.raises(InvalidArgument):
        weighted_mean(parts)


def test_a_pass_mark_that_a_right_answer_cannot_reach_is_refused() -> None:
    mean = weighted_mean([(fixed("answer", 1.0), 0.7), (fixed("trace", 0.0), 0.3)])
    with pytest.raises(InvalidArgument, match=r"threshold=0\.85: expected at most 0\.7, .*'answer' alone"):
        passes(mean, at=0.85, main="answer")
    assert values(seen(passes(mean, at=0.7, main="answer"), rollouts(1))) == [1.0]
    total = 0.7 * fixed("answer", 1.0) + 0.3 * fixed("trace", 1.0)
    with pytest.raises(InvalidArgument, match="at most"):
        passes(total, at=0.85, main="answer")
    assert values(seen(passes(total, at=0.7, main="answer"), rollouts(1))) == [1.0]


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=5), st.floats(0, 2))
def test_reachable_agrees_with_the_mean(weights: list[float], mark: float) -> None:
    named = {f"p{at}": weight for at, weight in enumerate(weights)}
    alone = weights[0] / sum(weights)
    if mark > alone * (1 + 1e-9):
        with pytest.raises(InvalidArgument):
            reachable(named, main="p0", threshold=mark)
    elif mark < alone:
        assert reachable(named, main="p0", threshold=mark) == pytest.approx(alone)


def test_pass_marks_check_their_arguments() -> None:
    mean = weighted_mean([(fixed("a", 1.0), 1.0)])
    with pytest.raises(InvalidArgument, match="main"):
        passes(mean, at=0.5)
    with pytest.raises(InvalidArgument, match="main"):
        passes(mean, at=0.5, main="b")
    with pytest.raises(InvalidArgument, match="declares no parts"):
        passes(fixed("a", 1.0), at=0.5, main="a")
    with pytest.raises(InvalidArgument, match="at most 1"):
        passes(fixed("a", 1.0), at=1.5)
    with pytest.raises(InvalidArgument, match="a total above 0"):
        reachable({"a": 0.0}, main="a", threshold=0.0)


def test_passing_keeps_missing_and_says_by_how_much() -> None:
    found = seen(passes(fixed("a", 0.5, 0.4, None, Failed("down")), at=0.5), rollouts(4))
    assert found[:2] == [Scored(1.0, "0.5 reaches 0.5"), Scored(0.0, "0.4 is below 0.5")]
    assert kinds(found) == "SSAF"
