"""Predicates over one action and the state before it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.rewards import Before, any_action, argument, called, happened, predicate, state
from apportion.rewards.predicates import Predicate
from apportion.rollouts import Action, Trajectory, Turn
from tests.rewards.builders import acted, call

START = Before(Trajectory(id="r", group="q"))
ANSWERS = st.sampled_from([True, False, None])


def says(answer: bool | None) -> Predicate:
    return predicate(lambda action, before: answer, words=str(answer))


def holds(made: Predicate, action: Action) -> bool | None:
    return made.holds(action, START)


def kleene(answer: bool | None) -> float:
    return 0.5 if answer is None else float(answer)


@given(ANSWERS, ANSWERS, ANSWERS)
def test_the_operators_follow_kleene(one: bool | None, two: bool | None, three: bool | None) -> None:
    a, b, c = says(one), says(two), says(three)
    action = Action("x")
    assert kleene(holds(a & b, action)) == min(kleene(one), kleene(two))
    assert kleene(holds(a | b, action)) == max(kleene(one), kleene(two))
    assert kleene(holds(~a, action)) == 1 - kleene(one)
    assert holds(~(a & b), action) == holds(~a | ~b, action)
    assert holds(a & (b | c), action) == holds((a & b) | (a & c), action)
    assert holds(~~a, action) == one


EDIT = call(
    "edit", path="tests/a_test.py", options={"force": True, "tries": 3}, edits=[{"old": "x"}], note="", empty=None
)


@pytest.mark.parametrize(
    ("made", "answer"),
    [
        (called("edit"), True),
        (called("read", "edit"), True),
        (called("Edit"), False),
        (any_action(), True),
        (argument("path"), True),
        (argument("absent"), False),
        (argument("empty"), True),
        (argument("empty", equals=None), True),
        (argument("path", matches=r"_test\.py$"), True),
        (argument("path", contains="tests/"), True),
        (argument("options", contains="force"), False),
        (argument("options.force", equals=True), True),
        (argument("options.force", equals=1), False),
        (argument("options.tries", equals=3.0), True),
        (argument("options.tries", equals="3"), False),
        (argument("options.tries", above=2, below=None), True),
        (argument("options.tries", below=3), False),
        (argument("options.force", above=0), False),
        (argument("path", above=0), False),
        (argument("edits[0].old", one_of=["x", "y"]), True),
        (argument("edits[1].old"), False),
        (argument("path[0]"), False),
        (argument(("options", "force")), True),
        (argument("options", equals={"tries": 3, "force": True}), True),
    ],
)
def test_questions_about_a_call(made: Predicate, answer: bool) -> None:
    assert holds(made, EDIT) is answer


def test_numbers_that_are_none_pass_no_bound() -> None:
    for value in (float("nan"), float("inf"), float("-inf")):
        assert holds(argument("n", above=0), call("f", n=value)) is False
        assert holds(argument("n", below=0), call("f", n=value)) is False


def test_the_state_is_what_was_recorded_before_this_turn() -> None:
    turns = (
        Turn(columns={"tests": {"failing": 2}}, observation="2 failed"),
        Turn(columns={"tests": {"failing": 0}}),
        Turn(),
    )
    rollout = Trajectory(id="r", group="q", turns=turns)
    failing = state("tests.failing", above=0)
    answers = [failing.holds(Action("push"), Before(rollout, turn=turn)) for turn in range(3)]
    assert answers == [None, True, False]
    assert state("other").holds(Action("push"), Before(rollout, turn=1)) is None
    assert [Before(rollout, turn=turn).observation for turn in range(3)] == ["", "2 failed", ""]


@pytest.mark.parametrize("path", ["", "a..b", "a[x]", "[0]", ".a", (), ("a", 1.5)])
def test_paths_are_checked(path: Any) -> None:
    with pytest.raises(InvalidArgument, match="path"):
        argument(path)


def test_arguments_are_checked() -> None:
    with pytest.raises(InvalidArgument, match="one test"):
        argument("a", equals=1, above=0)
    for wrong in (3, "ab"):
        with pytest.raises(InvalidArgument, match="one_of"):
            argument("a", one_of=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="names"):
        called()
    with pytest.raises(InvalidArgument, match="matches"):
        argument("a", matches="(a+)+")
    with pytest.raises(InvalidArgument, match="function"):
        predicate("rm", words="x")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="words"):
        predicate(lambda action, before: True, words="")
    with pytest.raises(InvalidArgument, match="about"):
        predicate(lambda action, before: True, words="x", about="outcome")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="True, False or None"):
        holds(predicate(lambda action, before: 1, words="one"), Action("x"))  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError):
        called("a") & (lambda action: True)  # type: ignore[operator]


def test_what_was_left_out_is_no_deed() -> None:
    edit, search = called("edit"), called("search")
    state_only = predicate(lambda action, before: before.turn > 10, words="late", about="state")
    deeds = [edit, edit & ~happened(search), edit | search, happened(search), any_action() & happened(search)]
    omissions = [
        ~search,
        any_action(),
        any_action() & ~happened(search),
        edit | ~search,
        state_only,
        any_action() & state("progress", equals=0),
        ~~(~search),
    ]
    assert [made.commits for made in deeds] == [True] * len(deeds)
    assert [made.commits for made in omissions] == [False] * len(omissions)


def test_words_read_like_a_sentence() -> None:
    made = called("edit") & argument("path", matches=r"\.py$") & ~happened(called("read"), same="path", within=3)
    assert made.words == (
        r"call of edit and argument path matches '\\.py$' and "
        "not (an answered call of read with the same path in the last 3 turns)"
    )
    assert (called("a") | state("x.y", above=1)).words == "(call of a or state x.y above 1)"


def test_a_question_about_the_past_outside_a_rule_says_so() -> None:
    with pytest.raises(InvalidArgument, match=r"inside a rule of path"):
        holds(happened(called("a")), Action("a"))
    assert acted([Action("a")]).n_turns == 1
