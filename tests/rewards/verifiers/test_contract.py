"""What every verifier promises: it declares its needs, pickles, is the same in threads, pays the gold answer."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from apportion.errors import MissingInput
from apportion.rewards import (
    Verifier,
    call_match,
    choice_letter,
    game24,
    json_match,
    maths,
    outcome,
    schema_match,
    self_check,
    text_equal,
    text_f1,
    text_pattern,
    written_in,
)
from apportion.rollouts import Trajectory, Turn
from apportion.verdicts import Failed, Scored
from tests.rewards.builders import call, kinds, said

# A verifier, a reply that deserves 1, one that deserves 0, and the reference of both.
CASES: dict[str, tuple[Verifier, Any, Any, Any]] = {
    "maths": (maths(), "2/4", "1/3", "1/2"),
    "text_equal": (text_equal(), "Oslo", "Rome", "Oslo"),
    "text_f1": (text_f1(), "Oslo", "Rome", "Oslo"),
    "choice_letter": (choice_letter(), "B", "C", "B"),
    "json_match": (json_match(), '{"a": 1}', '{"a": 2}', {"a": 1}),
    "schema_match": (schema_match({"required": ["a"]}), '{"a": 1}', "{}", None),
    "game24": (game24(), "4 * 6", "4 + 6", "4 6"),
    "call_match": (call_match(order="parallel"), call("f"), call("g"), [{"name": "f", "arguments": {}}]),
}


def rollout(reply: Any, reference: Any, id: str) -> Trajectory:
    if isinstance(reply, str):
        return said(reply, id=id, reference=reference)
    return Trajectory(id=id, group="q", turns=(Turn(actions=(reply,)),), reference=reference)


def pair(name: str) -> tuple[Verifier, Trajectory, Trajectory]:
    verifier, right, wrong, reference = CASES[name]
    return verifier, rollout(right, reference, "right"), rollout(wrong, reference, "wrong")


@pytest.mark.parametrize("name", CASES)
def test_the_right_answer_has_the_maximum_and_both_say_why(name: str) -> None:
    verifier, right, wrong = pair(name)
    report = self_check(outcome(verifier), good=[right], bad=[wrong], best=1.0)
    assert report.ok, report.problems
    assert all(isinstance(verdict, Scored) and verdict.evidence for verdict in (*report.good, *report.bad))


@pytest.mark.parametrize("name", CASES)
def test_pickled_and_in_threads_it_says_the_same(name: str) -> None:
    verifier, right, wrong = pair(name)
    alone = [verifier(trajectory) for trajectory in (right, wrong)]
    again: Verifier = pickle.loads(pickle.dumps(verifier))
    assert again == verifier
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(again, [right, wrong] * 4))
    assert together == alone * 4


@pytest.mark.parametrize("part", [written_in("Latin"), text_pattern(r"\bOslo\b")])
def test_rewards_of_their_own_pickle(part: Any) -> None:
    rollout = said("Oslo Ж")
    assert pickle.loads(pickle.dumps(part)).observe([rollout]) == part.observe([rollout])


@pytest.mark.parametrize("name", CASES)
def test_needs_are_declared_and_missed(name: str) -> None:
    verifier, right, _ = pair(name)
    assert set(verifier.needs) <= {"text", "turns", "reference"}
    part = outcome(verifier)
    with pytest.raises(MissingInput):
        part.observe([Trajectory(id="r", group="q", response_ids=[1], reference=right.reference)])  # type: ignore[arg-type]
    without = [Trajectory(id="r", group="q", turns=right.turns)]
    if "reference" in verifier.needs:
        with pytest.raises(MissingInput, match="reference"):
            part.observe(without)
        assert verifier(without[0]) == Failed("no reference answer")
    else:
        assert kinds(part.observe(without)) == "S"  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CASES)
def test_a_lost_rollout_is_not_judged(name: str) -> None:
    verifier, right, _ = pair(name)
    lost = Trajectory(id="r", group="q", turns=right.turns, reference=right.reference, status="aborted", error="lost")
    assert kinds(outcome(verifier).observe([lost])) == "F"  # type: ignore[arg-type]
