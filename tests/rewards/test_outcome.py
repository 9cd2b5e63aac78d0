"""Outcomes: what is missing is never 0, and who ended the rollout decides what counts."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import after, exact, last_number, numeric, observe, outcome, set_match, summarise, whole_text
from apportion.rollouts import Trajectory
from apportion.verdicts import Failed, Scored
from tests.rewards.builders import fixed, fixed_turns, kinds, row, said, values
from tests.rewards.test_linear import seen


def check(reply: str, reference: Any, comparison: Any) -> Any:
    (verdict,) = seen(outcome(comparison), [said(reply, reference=reference)])
    return verdict


def test_a_column_is_the_outcome() -> None:
    rows = [row("a", reward=1), row("b", reward=False), row("c", reward=0.25)]
    assert values(seen(outcome(), rows)) == [1.0, 0.0, 0.25]
    assert seen(outcome(), rows[:1]) == [Scored(1.0, "column 'reward'")]
    assert outcome().name == "outcome"


def test_a_missing_value_is_unknown_not_zero() -> None:
    rows = [row("a", reward=1), row("b", reward=None), row("c"), row("d", reward=float("nan")), row("e", reward="1")]
    found = seen(outcome(), rows)
    assert kinds(found) == "SFFFF"
    assert [verdict.error for verdict in found[1:3]] == ["column 'reward' is null", "no column 'reward'"]


def test_a_verifier_that_timed_out_is_not_a_failure_of_the_agent() -> None:
    total = outcome() + fixed("format", 1.0)
    rollout = row("0", reward=None, verifier="timeout")
    assert kinds(seen(total, [rollout])) == "F"


def test_a_column_that_nobody_has_is_a_wrong_name() -> None:
    with pytest.raises(MissingInput, match=r"column 'score', which is absent in a, b; the columns are reward"):
        outcome("score").observe([row("a", reward=1), row("b", reward=0)])


def test_an_error_beats_the_recorded_reward() -> None:
    broken = Trajectory(id="x", group="q", status="aborted", error="SandboxError", columns={"reward": 0.0})
    found = seen(outcome(), [row("a", reward=1), row("b", reward=1), broken, row("d", reward=0)])
    assert found[2] == Failed("aborted by the infrastructure: SandboxError")
    assert values(found) == [1.0, 1.0, None, 0.0]
    assert kinds(seen(outcome("absent"), [broken])) == "F"


@pytest.mark.parametrize(
    ("policy", "expected"), [("zero", [1, 0, 0, 0]), ("keep", [1, 0, 1, 0]), ("exclude", [1, 0, None, None])]
)
def test_what_truncation_counts_for_is_declared(policy: Any, expected: list[float | None]) -> None:
    ends = ["terminated", "terminated", "truncated", "truncated"]
    rows = [
        Trajectory(id=str(at), group="q", status=end, columns={"reward": reward})  # type: ignore[arg-type]
        for at, (reward, end) in enumerate(zip([1, 0, 1, 0], ends, strict=True))
    ]
    found = seen(outcome(truncated=policy), rows)
    assert values(found) == expected
    assert all("truncated" in (v.evidence if isinstance(v, Scored) else v.error) for v in found[2:])
    assert summarise(found).failed == (2 if policy == "exclude" else 0)


def test_a_function_sync_or_async_is_the_outcome() -> None:
    async def judged(trajectory: Trajectory) -> float:
        await asyncio.sleep(0)
        return trajectory.columns["x"] / 2

    assert seen(outcome(judged), [row("a", x=1)]) == [Scored(0.5)]
    assert seen(outcome(lambda t: t.columns["x"] == 1, name="one"), [row("a", x=1), row("b", x=2)]) == [
        Scored(1.0),
        Scored(0.0),
    ]
    assert values(seen(outcome(fixed("r", 0.5)), [row("0")])) == [0.5]


@pytest.mark.parametrize(
    ("reply", "reference", "evidence"),
    [
        ("Oslo", "Oslo", "right_answer: 'Oslo'"),
        ("so\n  New   York ", "New York", "right_answer: 'New   York'"),
        ("Rome", ["Oslo", "Rome"], "right_answer: 'Rome'"),
        ("7", 7, "right_answer: '7'"),
        ("oslo", "Oslo", "wrong_answer: 'oslo', not 'Oslo'"),
        ("", "Oslo", "no_answer_found (last_line)"),
        ("Rome", ["Oslo", "Bonn"], "wrong_answer: 'Rome', not 'Oslo or Bonn'"),
    ],
)
def test_exact(reply: str, reference: Any, evidence: str) -> None:
    verdict = check(reply, reference, exact())
    assert verdict == Scored(float(evidence.startswith("right")), evidence)


def test_exact_may_ignore_case() -> None:
    assert check("OSLO", "Oslo", exact(case="ignore")).value == 1.0
    with pytest.raises(InvalidArgument, match="case"):
        exact(case="fold")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reply", "reference", "value"),
    [
        ("1,234", "1234", 1),
        ("$1234$", "$1{,}234$", 1),
        ("$18.00", "18", 1),
        ("0.28", "$28\\%$", 1),
        ("28", "$28\\%$", 0),
        ("2 2/3", "2", 0),
        ("2 2/3", "8/3", 1),
        ("2 3/4", "11/4", 1),
        ("4 10/3", "10", 0),
        ("0.30000000000000004", 0.3, 0),
        ("0.5", 0.5, 1),
        ("7", 7, 1),
    ],
)
def test_numbers_are_compared_exactly(reply: str, reference: Any, value: float) -> None:
    assert check(reply, reference, numeric(answer=whole_text)).value == value
    assert check(f"It is {reply}", reference, numeric()).value == value


def test_tolerances() -> None:
    assert check("3.14", 3.14159, numeric()).value == 0
    assert check("3.14", 3.14159, numeric(tol=0.01)).value == 1
    assert check("99", 100, numeric(relative=0.01)).value == 1
    assert check("98.9", 100, numeric(relative=0.01)).value == 0
    for options in ({"tol": -1.0}, {"relative": float("nan")}):
        with pytest.raises(InvalidArgument):
            numeric(**options)


@pytest.mark.parametrize("reference", ["The tower is five times as tall.", float("nan"), True, [5], "(1,234)"])
def test_a_reference_that_is_no_number_is_a_fault_of_the_data(reference: Any) -> None:
    verdict = check("5", reference, numeric())
    assert isinstance(verdict, Failed)
    assert verdict.error.startswith("reference_unusable")


def test_no_answer_is_told_apart_from_a_wrong_one() -> None:
    strict = numeric(answer=after("####"))
    assert check("The result is 17.", 17, strict) == Scored(0.0, "no_answer_found (After(marker='####'))")
    assert check("#### 18", 17, strict).evidence.startswith("wrong_answer")
    assert check("#### many", 17, strict).evidence.startswith("not_a_number")
    assert check("The result is 17.", 17, numeric(answer=last_number)).value == 1


@pytest.mark.parametrize(
    ("reply", "reference", "value"),
    [
        ("19, 12", [12, 19], 1),
        ("12,19", "19, 12", 1),
        ("19", "12, 19", 0),
        ("12, 19, 3", "12, 19", 0),
        ("1.0, b", ["b", 1], 1),
        ("b, b", ["b"], 1),
    ],
)
def test_sets_are_matched_whole(reply: str, reference: Any, value: float) -> None:
    assert check(reply, reference, set_match()).value == value


def test_sets_say_what_is_off() -> None:
    assert (
        check("3, 12", [12, 19], set_match()).evidence
        == "wrong_answer: '3, 12', not '{12, 19}' (1 missing, 1 too many)"
    )
    assert kinds([check("3", [], set_match())]) == "F"
    with pytest.raises(InvalidArgument, match="separator"):
        set_match(separator="")


def test_references_that_are_missing() -> None:
    with pytest.raises(MissingInput, match="a reference answer"):
        outcome(exact()).observe([said("x")])
    assert kinds(seen(outcome(exact()), [said("x", reference="x", id="a"), said("x", id="b")])) == "SF"
    assert kinds([check("x", [], exact())]) == "F"


def test_text_that_is_missing() -> None:
    tokens = Trajectory(id="r", group="q", response_ids=[1, 2], reference="x")  # type: ignore[arg-type]
    with pytest.raises(MissingInput, match="text of the policy's turns"):
        outcome(exact()).observe([tokens])
    silent = Trajectory(id="r", group="q", reference="x")
    assert seen(outcome(exact()), [silent]) == [Scored(0.0, "no_answer_found (last_line)")]


def test_messages_stand_in_for_turns() -> None:
    plain = ({"role": "assistant", "content": "Rome"}, {"role": "assistant", "content": None})
    assert values(seen(outcome(exact()), [Trajectory(id="r", group="q", reference="Rome", messages=plain)])) == [0.0]
    assert values(seen(outcome(exact()), [Trajectory(id="r", group="q", reference="Rome", messages=plain[:1])])) == [
        1.0
    ]
    messages = (
        {"role": "user", "content": "capital?"},
        {"role": "assistant", "content": [{"type": "text", "text": "Os"}, {"type": "text", "text": "lo"}]},
        {"role": "tool", "content": "Rome"},
    )
    rollout = Trajectory(id="r", group="q", reference="Oslo", messages=messages)
    assert values(seen(outcome(exact()), [rollout])) == [1.0]


def test_the_evidence_of_hostile_answers_is_short() -> None:
    assert len(check("x" * 1_000_000, "y", exact()).evidence) < 400


def test_arguments_and_levels() -> None:
    with pytest.raises(InvalidArgument, match="TRAJECTORY level"):
        outcome(fixed_turns("a", 1.0))
    with pytest.raises(InvalidArgument, match="truncated"):
        outcome(truncated="drop")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="source"):
        outcome("")
    made = pickle.loads(pickle.dumps(outcome(numeric(answer=after("####")))))
    assert values(observe([made], [said("#### 4", reference=4)])["outcome"]) == [1.0]
