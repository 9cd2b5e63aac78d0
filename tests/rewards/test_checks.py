"""Checks on rewards themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.rewards import constant_report, exact, observe, outcome, reward, self_check, summarise, tag_format
from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Failed, Scored
from tests.rewards.builders import VERDICTS, Slow, fixed, fixed_turns, said

GOLD = "find flights to Oslo"


def replies(*texts: str) -> list[Trajectory]:
    return [said(text, id=str(at), reference=GOLD) for at, text in enumerate(texts)]


def similarity(trajectory: Trajectory) -> float:
    """A similarity in [0, 1] compared with thresholds in percent."""
    score = float(trajectory.turns[-1].text == trajectory.reference)
    return 1.0 if score > 20 else 0.5 if score > 10 else 0.0


def test_a_perfect_answer_must_get_the_maximum() -> None:
    report = self_check(reward(similarity), good=replies(GOLD), bad=replies("?"), best=1.0)
    assert not report.ok
    assert "good '0' scores 0, not 1" in report.problems
    sound = self_check(outcome(exact()), good=replies(GOLD), bad=replies("?", ""), best=1.0)
    assert (sound.ok, sound.problems, len(sound.bad)) == (True, (), 2)


def test_a_stub_is_found_without_a_declared_maximum() -> None:
    stub = reward(name="stub")(lambda trajectory: 0.0)
    report = self_check(stub, good=replies(GOLD), bad=replies("?"))
    assert report.problems == ("bad '0' scores 0, not below every good one (0)",)


def test_good_ones_below_the_best_seen_are_problems() -> None:
    report = self_check(fixed("a", 1.0, 0.5, 0.7), good=[said(id="0"), said(id="1")], bad=[said(id="2")])
    assert report.problems == (
        "good '1' scores 0.5, not 1",
        "bad '2' scores 0.7, not below every good one (0.5)",
    )


def test_missing_verdicts_are_problems() -> None:
    part = Slow(fixed("a", None, Failed("down")))
    report = self_check(part, good=[said(id="0")], bad=[said(id="1")])
    assert report.problems == ("good '0': abstained (a does not apply)", "bad '1': failed (down)")


def test_turn_rewards_are_compared_turn_by_turn() -> None:
    part = fixed_turns("a", 1.0, 0.0)
    report = self_check(part, good=[said("", "", id="0")], bad=[said("", "", id="0")])
    assert "good '0' scores 0, not 1" in report.problems
    with pytest.raises(InvalidArgument, match="bad"):
        self_check(part, good=[said(id="0")], bad=[])


def test_a_constant_part_is_reported() -> None:
    rollouts = [
        Trajectory(id=f"{prompt}-{at}", group=str(prompt), columns={"reward": at % 2})
        for prompt in range(50)
        for at in range(4)
    ]
    seen = observe([reward(name="stub")(lambda t: 0.0), outcome()], rollouts)
    report = constant_report(seen)
    assert list(report) == ["stub"]
    assert (report["stub"].low, report["stub"].high, report["stub"].scored) == (0.0, 0.0, 200)
    assert constant_report({name: verdicts[:49] for name, verdicts in seen.items()}) == {}  # type: ignore[misc]


def test_a_part_that_never_says_anything_is_reported() -> None:
    assert list(constant_report({"a": [Abstained("x")] * 60, "b": [[Failed("x")] * 30] * 2})) == ["a", "b"]
    with pytest.raises(InvalidArgument, match="minimum"):
        constant_report({}, minimum=1)


def test_a_format_that_multi_line_replies_cannot_meet_would_show() -> None:
    seen = observe([tag_format()], [said(f"<think>\n{n}\n</think>\n<answer>\n4\n</answer>") for n in range(60)])
    assert {verdict.value for verdict in seen["format"]} == {1.0}  # type: ignore[union-attr]
    assert list(constant_report(seen)) == ["format"]


def test_means_leave_missing_out() -> None:
    script = [0.5, None, None, 0.8, 0.6, 0.7]
    verdicts: list[Any] = [Abstained("inactive") if value is None else Scored(value) for value in script]
    summary = summarise(verdicts)
    assert (summary.mean, summary.scored, summary.abstained) == (pytest.approx(0.65), 4, 2)
    empty = summarise([Abstained("inactive")] * 2)
    assert (empty.mean, empty.low, empty.failure_rate) == (None, None, 0.0)
    assert summarise([]).failure_rate is None


def test_plain_values_are_summarised_too() -> None:
    assert summarise([0.5, None, None, 0.8, 0.6, 0.7]) == summarise(
        [0.5, Abstained("-"), Abstained("-"), Scored(0.8), 0.6, 0.7]
    )
    nothing = summarise([None, None])
    assert (nothing.scored, nothing.mean, nothing.is_constant) == (0, None, True)
    late = summarise([1, 0, "timeout", 1, "timeout", 0, "timeout", 1])
    assert (late.scored, late.failed, late.mean, late.failure_rate) == (5, 3, pytest.approx(0.6), 0.375)
    # An error flag beside a score of 0: the 0 is not read.
    told = summarise([1.0, {"score": 0, "parse_error": True}, 0.0, float("nan")])
    assert (told.scored, told.failed, told.mean) == (2, 2, 0.5)
    assert summarise([[1.0, None], [0.0]]).mean == 0.5
    for wrong in ("0.5", {"a": 1.0}, 0.5):
        with pytest.raises(InvalidArgument, match="verdicts"):
            summarise(wrong)  # type: ignore[arg-type]


@given(st.lists(VERDICTS, max_size=8))
def test_summaries_count_everything_once(verdicts: list[Any]) -> None:
    summary = summarise(verdicts)
    assert summary.scored + summary.abstained + summary.failed == len(verdicts)
    if summary.mean is not None:
        assert summary.low is not None
        assert summary.high is not None
        assert summary.low - 1e-9 <= summary.mean <= summary.high + 1e-9
