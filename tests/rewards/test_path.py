"""The rule engine: what each rule says about hand-made rollouts, turn by turn."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import (
    Rule,
    any_action,
    argument,
    at_most,
    before,
    called,
    happened,
    never_after,
    no_repeat,
    observe,
    only_between,
    path,
    predicate,
    repeated,
    state,
    within,
)
from apportion.rollouts import Action, Trajectory, Turn
from apportion.verdicts import Abstained, Scored
from tests.rewards.builders import acted, broken_call, call, kinds, rollouts, said, values
from tests.rewards.test_linear import seen

READ, EDIT, RUN = call("read", path="a"), call("edit", path="a"), call("run", command="make")
WHY = "for the test"


def verdicts(rule: Rule, *turns: list[Action], **options: Any) -> list[Any]:
    return list(seen(path([rule], **options), [acted(*turns)])[0])


def scores(rule: Rule, *turns: list[Action], **options: Any) -> list[float | None]:
    return values(verdicts(rule, *turns, **options))


def test_before_penalises_and_pays() -> None:
    rule = before(called("read"), called("edit"), same="path", penalty=0.5, credit=0.125)
    assert scores(rule, [EDIT], [READ], [EDIT], [call("edit", path="b")]) == [-0.5, 0.0, 0.125, -0.5]
    assert scores(rule, [READ], [READ]) == [0.0, 0.0]
    assert scores(rule, [READ], [call("edit")]) == [0.0, -0.5]


def test_only_an_answered_call_counts_as_before() -> None:
    both = [READ, EDIT]
    assert scores(before(called("read"), called("edit")), both) == [-0.25]
    assert scores(before(called("read"), called("edit"), counting="issued"), both) == [0.25]
    assert scores(before(called("read"), called("edit"), counting="issued"), both[::-1]) == [-0.25]


def test_within_penalises_what_is_too_old_and_never_what_is_not_done() -> None:
    rule = within(2, called("quote"), called("buy"))
    quote, buy = call("quote"), call("buy")
    assert scores(rule, [quote], [RUN], [buy], [buy]) == [0.0, 0.0, 0.25, -0.25]
    assert scores(rule, [quote], [RUN], [RUN], [RUN]) == [0.0] * 4
    assert scores(rule, [buy], [quote], [buy]) == [-0.25, 0.0, 0.25]
    assert scores(rule, [quote, buy]) == [-0.25]


def test_only_between_opens_and_closes() -> None:
    rule = only_between(called("begin"), called("write"), called("commit"))
    begin, write, commit = call("begin"), call("write"), call("commit")
    assert scores(rule, [write], [begin], [write], [write, commit], [write]) == [-0.25, 0.0, 0.25, 0.25, -0.25]
    assert scores(rule, [begin, write]) == [-0.25]
    assert scores(rule, [begin], [commit, write]) == [0.0, -0.25]
    assert scores(rule, [begin], [commit], [begin], [write]) == [0.0, 0.0, 0.0, 0.25]


def test_never_after_looks_inside_the_turn_too() -> None:
    rule = never_after(called("submit"), called("edit"), unpaired=WHY)
    submit = call("submit")
    assert scores(rule, [EDIT], [submit], [EDIT]) == [0.0, 0.0, -0.25]
    assert scores(rule, [submit, EDIT]) == [-0.25]
    assert scores(rule, [EDIT, submit]) == [0.0]
    assert scores(never_after(called("submit"), any_action(), unpaired=WHY), [submit], [RUN]) == [0.0, -0.25]


def test_at_most_counts() -> None:
    rule = at_most(2, called("ask"), unpaired=WHY)
    ask = call("ask")
    assert scores(rule, [ask, ask], [ask], [RUN], [ask]) == [0.0, -0.25, 0.0, -0.25]
    assert scores(rule, [ask, ask, ask, ask]) == [-0.5]
    paid = at_most(1, called("ask"), fulfils=called("answer"), penalty=1.0, credit=0.5)
    assert scores(paid, [ask], [call("answer")], [ask]) == [0.0, 0.5, -1.0]


def test_no_repeat_compares_arguments_not_their_order() -> None:
    rule = no_repeat(unpaired=WHY)
    one, same, other = call("f", a=1, b=2), call("f", b=2, a=1), call("f", a=1, b=True)
    assert scores(rule, [one], [other], [same], [call("g", a=1, b=2)]) == [0.0, 0.0, -0.25, 0.0]
    assert scores(rule, [one, same]) == [-0.25]
    assert scores(no_repeat(called("g"), unpaired=WHY), [one], [one]) == [0.0, 0.0]
    assert scores(no_repeat(turns=1, unpaired=WHY), [one], [RUN], [one], [one]) == [0.0, 0.0, 0.0, -0.25]


def test_two_rules_on_one_turn_add() -> None:
    rules = [
        Rule(name="no_force", violates=argument("force", equals=True), unpaired=WHY, penalty=0.5),
        before(called("read"), called("edit")),
        Rule(name="search", fulfils=called("search"), credit=0.125),
    ]
    (found,) = seen(path(rules), [acted([call("edit", force=True), call("search")])])
    assert values(found) == [-0.5 - 0.25 + 0.125]


def test_violations_and_fulfilments_are_rewards_that_count() -> None:
    made = path([before(called("read"), called("edit"))], name="care")
    rollout = acted([EDIT, EDIT], [READ], [EDIT])
    counted = observe([made, made.violations, made.fulfilments], [rollout])
    assert {name: values(found) for name, found in counted.items()} == {
        "care": [-0.5, 0.0, 0.25],
        "care.violations": [2.0, 0.0, 0.0],
        "care.fulfilments": [0.0, 0.0, 1.0],
    }


def test_evidence_names_rule_turn_action_and_state() -> None:
    (first, second, third) = verdicts(
        before(called("read"), called("edit"), same="path", name="read_first"), [EDIT], [READ], [EDIT]
    )
    assert first.evidence == (
        "violation of read_first -0.25: turn 0, action 0, edit({'path': 'a'}): "
        "call of edit and not (an answered call of read with the same path) [no call of read with path 'a' so far]"
    )
    assert second.evidence == "no rule fired"
    assert third.evidence.startswith(
        "fulfilment of read_first +0.25: turn 2, action 0, edit({'path': 'a'}): call of edit and"
    )
    (told,) = verdicts(at_most(1, called("ask"), unpaired=WHY, why="ask once"), [call("ask"), call("ask")])
    assert told.evidence.endswith("ask({}): ask once [call of ask in turn 0]")


def test_a_violation_is_not_also_a_fulfilment() -> None:
    rule = Rule(name="r", violates=argument("force", equals=True), fulfils=called("push"))
    assert scores(rule, [call("push", force=True)], [call("push")]) == [-0.25, 0.25]


def test_credits_can_be_limited() -> None:
    rule = before(called("read"), called("edit"), max_credits=2)
    assert scores(rule, [READ], [EDIT, EDIT, EDIT], [EDIT]) == [0.0, 0.5, 0.0]


def test_a_call_that_did_not_parse_is_no_evidence_and_no_state() -> None:
    rule = before(called("read"), called("edit"))
    lost_read = Action(name="read", raw="read(", error="unbalanced")
    found = verdicts(rule, [lost_read], [EDIT, broken_call()], [])
    assert found[0] == Abstained("1 of 1 actions did not parse: unbalanced")
    assert found[1].value == -0.25
    assert "1 of 2 actions did not parse: unbalanced braces" in found[1].evidence
    assert found[2] == Scored(0.0, "no action")


@pytest.mark.parametrize(("unexecuted", "expected"), [("abstain", [None, -0.25]), ("count", [-0.25, -0.25])])
def test_a_move_that_never_arrived_changes_no_state(unexecuted: Any, expected: list[float | None]) -> None:
    turns = (Turn(actions=(EDIT, READ), executed=False), Turn(actions=(EDIT,)))
    rule = before(called("read"), called("edit"))
    assert (
        values(seen(path([rule], unexecuted=unexecuted), [Trajectory(id="r", group="q", turns=turns)])[0]) == expected
    )


def test_a_rule_abstains_where_the_state_is_unknown() -> None:
    rule = Rule(name="green", violates=called("push") & state("failing", above=0), unpaired=WHY)
    turns = (
        Turn(actions=(call("push"),), columns={"failing": 1}),
        Turn(actions=(call("push"),)),
        Turn(actions=(call("push"),)),
    )
    found = seen(path([rule]), [Trajectory(id="r", group="q", turns=turns)])[0]
    assert values(found) == [0.0, -0.25, 0.0]
    assert found[0].evidence == "abstention of green: turn 0, action 0, push({}): cannot tell"


def test_a_past_that_is_unknown_stays_unknown_until_it_is_certain() -> None:
    maybe = predicate(lambda action, before: None if action.name == "maybe" else action.name == "read", words="a read")
    rule = before(maybe, called("edit"))
    found = verdicts(rule, [call("maybe")], [EDIT], [READ], [EDIT])
    assert values(found) == [0.0, 0.0, 0.0, 0.25]
    assert "cannot tell" in found[1].evidence


def test_an_opening_that_is_unknown_stays_unknown_until_the_next_one() -> None:
    maybe = predicate(lambda action, before: None if action.name == "maybe" else action.name == "begin", words="begin")
    rule = only_between(maybe, called("write"), called("commit"))
    write = call("write")
    found = verdicts(rule, [call("maybe")], [write], [call("begin")], [write], [call("commit")], [write])
    assert values(found) == [0.0, 0.0, 0.0, 0.25, 0.0, -0.25]
    assert "cannot tell" in found[1].evidence


def test_nested_pasts_are_judged_by_the_state_of_their_own_time() -> None:
    # A careless edit is one without a read before it; a later read does not excuse it.
    careless = called("edit") & ~happened(called("read"))
    rule = never_after(careless, called("submit"), unpaired=WHY)
    submit = call("submit")
    assert scores(rule, [EDIT], [READ], [submit]) == [0.0, 0.0, -0.25]
    assert scores(rule, [READ], [EDIT], [submit]) == [0.0, 0.0, 0.0]


def test_a_predicate_shared_by_two_rules_remembers_once() -> None:
    read = happened(called("read"))
    rules = [
        Rule(name="a", violates=called("edit") & ~read, fulfils=called("edit") & read),
        Rule(name="b", violates=called("run") & ~read, fulfils=called("run") & read),
    ]
    (found,) = seen(path(rules), [acted([READ], [EDIT, RUN])])
    assert values(found) == [0.0, 0.5]


def test_rollouts_do_not_share_state() -> None:
    made = path([before(called("read"), called("edit"))])
    found = seen(made, [acted([READ], id="a"), acted([EDIT], id="b")])
    assert [values([entry]) for entry in found] == [[0.0], [-0.25]]


NAMES = st.sampled_from(["read", "edit", "ask"])
TURNS = st.lists(st.lists(NAMES, max_size=3), max_size=6)


@given(TURNS)
def test_the_engine_agrees_with_a_direct_reading_of_the_rules(names: list[list[str]]) -> None:
    rules = [
        before(called("read"), called("edit"), name="before"),
        within(2, called("read"), called("edit"), name="within"),
        at_most(2, called("ask"), unpaired=WHY, name="at_most"),
        never_after(called("ask"), called("read"), unpaired=WHY, name="never_after"),
        no_repeat(unpaired=WHY, name="no_repeat"),
    ]
    made = path(rules)
    rollout = acted(*[[call(name) for name in turn] for turn in names])
    expected = []
    done: list[tuple[int, str]] = []
    for turn, calls in enumerate(names):
        for position, name in enumerate(calls):
            reads = [at for at, what in done if what == "read" and at < turn]
            asks = [what for _, what in done if what == "ask"]
            found = {
                "before": (name == "edit" and not reads, name == "edit" and bool(reads)),
                "within": (
                    name == "edit" and not any(turn - at <= 2 for at in reads),
                    name == "edit" and any(turn - at <= 2 for at in reads),
                ),
                "at_most": (name == "ask" and len(asks) >= 2, False),
                "never_after": (name == "read" and bool(asks), False),
                "no_repeat": (name in [what for _, what in done], False),
            }
            expected += [
                (rule, "violation" if bad else "fulfilment", turn, position)
                for rule, (bad, good) in found.items()
                if bad or good
            ]
            done.append((turn, name))
    got = [(f.rule, f.kind, f.turn, f.action) for turn in made.findings(rollout) for f in turn]
    assert got == expected


@given(TURNS)
def test_value_is_credits_minus_penalties(names: list[list[str]]) -> None:
    rule = before(called("read"), called("edit"), penalty=0.5, credit=0.125)
    made = path([rule])
    rollout = [acted(*[[call(name) for name in turn] for turn in names])]
    bad, good = values(seen(made.violations, rollout)), values(seen(made.fulfilments, rollout))
    assert values(seen(made, rollout)) == [0.125 * d - 0.5 * v for v, d in zip(bad, good, strict=True)]  # type: ignore[operator]


def test_penalties_for_omission_are_refused_with_the_way_out() -> None:
    for omission in (~called("search"), any_action() & ~happened(called("search")), any_action()):
        with pytest.raises(InvalidArgument, match=r"penalty for omission.*Name the action that must not happen"):
            Rule(name="r", violates=omission, fulfils=called("search"))


def test_credits_for_no_action_in_particular_are_refused() -> None:
    for unearned in (any_action(), ~called("rm"), called("a") | ~called("b"), any_action() & ~happened(called("a"))):
        with pytest.raises(InvalidArgument, match="would pay for doing nothing of use"):
            Rule(name="r", fulfils=unearned)


def test_penalties_are_paired_or_say_why_not() -> None:
    with pytest.raises(InvalidArgument, match="penalties alone teach inaction"):
        Rule(name="r", violates=called("rm"))
    with pytest.raises(InvalidArgument, match="penalties alone teach inaction"):
        Rule(name="r", violates=called("rm"), fulfils=called("ls"), credit=0.0)
    for builder in (
        lambda: never_after(called("a"), called("b")),
        lambda: at_most(1, called("a")),
        no_repeat,
    ):
        with pytest.raises(InvalidArgument, match="unpaired"):
            builder()
    assert Rule(name="r", violates=called("rm"), unpaired="deleting is never part of the task").penalty == 0.25
    assert Rule(name="r", violates=called("rm"), penalty=0.0).credit == 0.25


@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"name": "r"},
        {"name": "r", "violates": lambda action, before: True, "unpaired": "x"},
        {"name": "r", "fulfils": called("a"), "credit": -1.0},
        {"name": "r", "violates": called("a"), "unpaired": "x", "penalty": float("nan")},
        {"name": "r", "fulfils": called("a"), "max_credits": 0},
    ],
)
def test_rules_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Rule(**options)


def test_paths_are_checked() -> None:
    rule = Rule(name="r", fulfils=called("a"))
    for rules in ([], [rule, rule], [called("a")]):
        with pytest.raises(InvalidArgument, match="rules"):
            path(rules)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="unexecuted"):
        path([rule], unexecuted="ignore")  # type: ignore[arg-type]
    for wrong in (
        lambda: happened(called("a"), times=0),
        lambda: within(0, called("a"), called("b")),
        lambda: repeated(within=-1),
        lambda: happened("read"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidArgument):
            wrong()
    with pytest.raises(InvalidArgument, match="stop='c'"):
        only_between(called("a"), called("b"), "c")  # type: ignore[arg-type]


def test_the_table_of_turns_is_needed() -> None:
    made = path([Rule(name="r", fulfils=called("a"))])
    with pytest.raises(MissingInput, match=r"table of turns, which is absent in r"):
        made.observe([Trajectory(id="r", group="q", response_ids=[1, 2])])  # type: ignore[arg-type]
    assert seen(made, rollouts(1)) == [[]]
    assert kinds(seen(made, [said("just text")])) == "S"


def test_rules_pickle_with_their_memory_intact() -> None:
    made = pickle.loads(pickle.dumps(path([before(called("read"), called("edit"), same="path")])))
    assert values(seen(made, [acted([READ], [EDIT])])) == [0.0, 0.25]


def test_hostile_rollouts_cost_linear_time_and_little_evidence() -> None:
    made = path(
        [
            before(called("read"), called("edit"), same="path"),
            no_repeat(unpaired=WHY),
            at_most(1, called("edit"), unpaired=WHY),
        ]
    )
    big = call("edit", path="x" * 100_000)
    started = time.process_time()
    (found,) = seen(made, [acted([call("edit", path=str(at)) for at in range(5_000)], [big] * 20)])
    assert time.process_time() - started < 5
    assert all(len(verdict.evidence) < 10_000 for verdict in found)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert kinds(seen(made, [acted([call("edit", path=deep)])])) == "S"
