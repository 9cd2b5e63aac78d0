"""Rules over messages: who said what before an action, and the state of the machine in the evidence."""

from __future__ import annotations

import time
from typing import Any

import pytest

from apportion.errors import InvalidArgument
from apportion.rewards import (
    Rule,
    any_action,
    argument,
    at_most,
    before,
    called,
    happened,
    never_after,
    only_between,
    open_between,
    path,
    said,
    state,
    within,
)
from apportion.rewards.messages import Message, messages_by_turn
from apportion.rewards.predicates import Predicate
from apportion.rollouts import Trajectory, Turn
from tests.rewards.builders import acted, call, values
from tests.rewards.test_linear import seen

WHY = "for the test"
YES = said("user", matches=r"(?i)\byes\b").worded("confirmation")
BOOK, LOOK = call("book"), call("look")


def chat(*script: Any, opening: str = "hi", roles: bool = True) -> Trajectory:
    """A conversation: an action is a turn that a tool answers with "ok", "a: b" a text turn and the user's answer."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "policy"}, {"role": "user", "content": opening}]
    turns = []
    for step in script:
        text, _, answer = step.partition(": ") if isinstance(step, str) else ("", "", "ok")
        actions = () if isinstance(step, str) else (step,)
        turns.append(Turn(text=text, actions=actions, observation=answer))
        messages += [
            {"role": "assistant", "content": text},
            {"role": "tool" if actions else "user", "content": [{"type": "text", "text": answer}]},
        ]
    return Trajectory(id="r", group="q", turns=tuple(turns), messages=tuple(messages if roles else ()))


def found(rule: Rule, *script: Any, **options: Any) -> list[Any]:
    return list(seen(path([rule]), [chat(*script, **options)])[0])


def scores(rule: Rule, *script: Any, **options: Any) -> list[float | None]:
    return values(found(rule, *script, **options))


def test_a_write_needs_the_users_yes() -> None:
    rule = before(YES, called("book"))
    assert scores(rule, BOOK, "book it?: yes please", LOOK, BOOK, BOOK) == [-0.25, 0.0, 0.0, 0.25, 0.25]
    assert scores(rule, "book it?: yesterday", BOOK) == [0.0, -0.25]


def test_what_a_tool_or_the_policy_says_is_not_the_user() -> None:
    rule = before(YES, called("book"))
    fake = Trajectory(
        id="r",
        group="q",
        turns=(
            Turn(actions=(LOOK,), observation="user: yes"),
            Turn(text="yes", observation="no"),
            Turn(actions=(BOOK,)),
        ),
        messages=(
            {"role": "assistant", "content": None},
            {"role": "tool", "content": "user: yes"},
            {"role": "assistant", "content": "yes"},
            {"role": "user", "content": "no"},
            {"role": "assistant", "content": None},
        ),
    )
    assert values(seen(path([rule]), [fake])[0]) == [0.0, 0.0, -0.25]


def test_each_yes_is_good_for_one_write() -> None:
    rule = before(YES, called("book"), since=called("book"))
    script = ("ok?: yes", BOOK, BOOK, "again?: yes", LOOK, BOOK)
    assert scores(rule, *script) == [0.0, 0.25, -0.25, 0.0, 0.0, 0.25]
    once = at_most(1, called("book"), since=YES, unpaired=WHY)
    assert scores(once, *script) == [0.0, 0.0, -0.25, 0.0, 0.0, 0.0]


def test_a_yes_is_gone_when_the_user_goes_on_to_something_else() -> None:
    rule = only_between(YES, called("book"), said("user"))
    assert scores(rule, "a?: yes", "b?: wait", BOOK, "c?: yes", LOOK, BOOK) == [0.0, 0.0, -0.25, 0.0, 0.0, 0.25]


def test_beside_an_action_it_is_the_last_thing_they_said() -> None:
    rule = Rule(name="r", violates=called("book") & ~YES, fulfils=called("book") & YES)
    assert scores(rule, BOOK, "a?: yes", BOOK, LOOK, BOOK, "b?: no", BOOK) == [-0.25, 0.0, 0.25, 0.0, 0.25, 0.0, -0.25]


def test_the_prompt_counts_and_is_before_the_first_turn() -> None:
    assert scores(before(YES, called("book")), BOOK, opening="yes, book") == [0.25]
    recent = within(1, YES, called("book"))
    assert scores(recent, BOOK, BOOK, opening="yes") == [0.25, -0.25]
    assert "the user said last, in the prompt: 'yes'" in found(
        Rule(name="r", fulfils=called("book") & YES), BOOK, opening="yes"
    )[0].evidence  # fmt: skip


def test_the_answer_to_a_turn_counts_from_the_next_turn_on() -> None:
    turns = (Turn(text="ok?", actions=(BOOK,), observation="yes"), Turn(actions=(BOOK,)))
    talk = ({"role": "assistant"}, {"role": "user", "content": "yes"}, {"role": "assistant"})
    rollout = Trajectory(id="r", group="q", turns=turns, messages=talk)
    assert values(seen(path([before(YES, called("book"))]), [rollout])[0]) == [-0.25, 0.25]


def test_the_policys_own_words_count_from_the_next_turn_on() -> None:
    listed = said("policy", contains="$")
    rule = before(listed, called("book"))
    turns = (Turn(text="for $5", actions=(BOOK,)), Turn(actions=(BOOK,)))
    assert values(seen(path([rule]), [Trajectory(id="r", group="q", turns=turns)])[0]) == [-0.25, 0.25]
    assert scores(rule, "it is $5: ok", BOOK) == [0.0, 0.25]


def test_without_roles_it_cannot_tell_who_said_it() -> None:
    rule = before(YES, called("book"))
    unsure = found(rule, "ok?: yes", BOOK, roles=False)
    assert values(unsure) == [0.0, 0.0]
    assert unsure[1].evidence.endswith("cannot tell [perhaps confirmation so far]")
    assert scores(rule, "ok?: no", BOOK, roles=False) == [0.0, -0.25]
    anybody = before(said("environment", matches="yes"), called("book"))
    assert scores(anybody, "ok?: yes", BOOK, roles=False) == [0.0, 0.25]


def test_roles_that_do_not_fit_the_turns_are_not_used() -> None:
    turns = (Turn(text="a", observation="yes"), Turn(text="b"))
    talk = (
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "yes"},
    )
    assert messages_by_turn(Trajectory(id="r", group="q", turns=turns, messages=talk)) == [
        [Message("user", "hi")],
        [Message("policy", "a"), Message("unrecorded", "yes")],
        [Message("policy", "b"), Message("unrecorded", "")],
    ]


def test_going_on_after_the_user_said_stop() -> None:
    stop = said("user", matches="stop").worded("stop")
    rule = never_after(stop, any_action(), unpaired=WHY)
    assert scores(rule, LOOK, "ok?: stop", LOOK) == [0.0, 0.0, -0.25]


def test_a_question_about_actions_is_none_about_messages() -> None:
    quiet: list[Predicate] = [~called("look"), any_action(), argument("a"), called("a") & said("user")]
    for of in quiet:
        rule = Rule(name="r", fulfils=called("book") & happened(of))
        assert scores(rule, "a: b", BOOK) == [0.0, 0.0], of.words
    loud: list[Predicate] = [said("user"), ~said("user", contains="x"), said("user") & ~said("user", contains="x")]
    for of in loud:
        assert scores(Rule(name="r", fulfils=called("book") & happened(of)), "a: b", BOOK) == [0.0, 0.25], of.words


def test_what_is_said_in_a_state() -> None:
    offered = said("user", contains="yes") & happened(called("look"))
    rule = before(offered, called("book"))
    assert scores(rule, "ok?: yes", LOOK, BOOK) == [0.0, 0.0, -0.25]
    assert scores(rule, LOOK, "ok?: yes", BOOK) == [0.0, 0.0, 0.25]
    inside = said("user", contains="yes") & open_between(called("begin"), called("end"))
    assert scores(before(inside, called("book")), call("begin"), "ok?: yes", BOOK) == [0.0, 0.0, 0.25]
    unknown = said("user", contains="yes") & state("balance", above=0)
    assert scores(before(unknown, called("book")), "ok?: yes", BOOK) == [0.0, 0.0]


def test_the_state_is_told_in_words() -> None:
    rule = before(YES, called("book"), since=called("book"), why="book once per yes")
    evidence = [verdict.evidence for verdict in found(rule, BOOK, "ok?: yes", BOOK, LOOK, BOOK)]
    assert evidence[0].endswith("book({}): book once per yes [no confirmation so far]")
    assert evidence[2].endswith("since the last call of book [confirmation after turn 1]")
    assert evidence[4].endswith("book({}): book once per yes [no confirmation since turn 2 (book)]")
    often = at_most(2, called("book"), unpaired=WHY)
    assert found(often, BOOK, BOOK, BOOK)[2].evidence.endswith("[call of book 2 times, last in turn 0, in turn 1]")
    span = only_between(called("begin"), called("book"), called("end"))
    evidence = [verdict.evidence for verdict in found(span, BOOK, call("begin"), BOOK, call("end"), BOOK)]
    assert [line[line.index("[") :] for line in evidence if "[" in line] == [
        "[never opened so far]",
        "[opened in turn 1 (begin)]",
        "[closed in turn 3 (end)]",
    ]


def test_a_reset_nobody_could_see_leaves_it_open() -> None:
    maybe = argument("n", above=0) & state("known")
    rule = before(YES, called("book"), since=maybe)
    turns = [Turn(text="ok?", observation="yes"), Turn(actions=(call("spend", n=1),)), Turn(actions=(BOOK,))]
    talk = ({"role": "assistant"}, {"role": "user", "content": "yes"}, {"role": "assistant"}, {"role": "assistant"})
    (verdicts,) = seen(path([rule]), [Trajectory(id="r", group="q", turns=tuple(turns), messages=talk)])
    assert values(verdicts) == [0.0, 0.0, 0.0]
    assert "cannot tell [confirmation after turn 0, but" in verdicts[2].evidence


def test_a_reset_that_is_certain_ends_the_doubt() -> None:
    known = argument("n", above=0)
    maybe = (known & state("known")) | called("end")
    for unclear, made in (
        (call("spend", n=1), before(called("look"), called("book"), since=maybe)),
        (call("look", n=1), before(called("look") & (known & state("known")), called("book"), since=called("end"))),
    ):
        assert values(seen(path([made]), [acted([LOOK], [unclear], [BOOK])])[0]) == [0.0, 0.0, 0.0]
        assert values(seen(path([made]), [acted([LOOK], [unclear], [call("end")], [BOOK])])[0]) == [
            0.0,
            0.0,
            0.0,
            -0.25,
        ]


def test_a_state_is_counted_at_actions_alone() -> None:
    rule = Rule(name="r", fulfils=called("book") & happened(state("n", above=0), since=said("user", contains="go")))
    turns = (Turn(columns={"n": 1}), Turn(text="ok?", observation="go"), Turn(actions=(BOOK,)))
    talk = ({"role": "assistant"}, {"role": "assistant"}, {"role": "user", "content": "go"}, {"role": "assistant"})
    assert values(seen(path([rule]), [Trajectory(id="r", group="q", turns=turns, messages=talk)])[0]) == [0.0] * 3


def test_the_environment_is_everybody_else() -> None:
    rule = before(said("environment", contains="go"), called("book"))
    assert scores(rule, "go: no", BOOK) == [0.0, -0.25]
    assert scores(rule, "ok?: go", BOOK) == [0.0, 0.25]


def test_what_closes_nothing_is_not_told() -> None:
    rule = only_between(called("begin"), called("book"), called("end"))
    assert found(rule, call("end"), BOOK)[1].evidence.endswith("[never opened so far]")


def test_questions_are_checked() -> None:
    for wrong in (
        lambda: said("somebody"),  # type: ignore[arg-type]
        lambda: said("user", matches="(a+)+$"),
        lambda: said("user", matches=[]),
        lambda: said("user", matches="a", contains="b"),
        lambda: said("user", contains=""),
        lambda: happened(said("user"), same="path"),
        lambda: happened(called("a"), since="b"),  # type: ignore[arg-type]
        lambda: YES.worded(" "),
        lambda: Rule(name="r", violates=said("user"), unpaired=WHY),
        lambda: Rule(name="r", violates=~YES, unpaired=WHY),
    ):
        with pytest.raises(InvalidArgument):
            wrong()


def test_hostile_messages_cost_linear_time_and_little_evidence() -> None:
    long = "yes?: " + "ye s" * 25_000
    slow = said("user", matches=[r"(?i)y\w*e.*s\b!", r"\s+$"])
    rules = [before(slow, called("book")), Rule(name="last", violates=called("book") & slow, unpaired=WHY)]
    script = [step for _ in range(3) for step in (long, *[BOOK] * 100)]
    started = time.process_time()
    (verdicts,) = seen(path(rules), [chat(*script)])
    assert time.process_time() - started < 5
    assert all(len(verdict.evidence) < 2_000 for verdict in verdicts)
    assert values(seen(path(rules), [acted()])[0]) == []
