"""The laws of rule sets over all kinds of rules, and rules that break each of them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.recipes.files import load_rules
from apportion.rewards import (
    Predicate,
    Rule,
    any_action,
    argument,
    at_most,
    before,
    called,
    happened,
    mutating,
    never_after,
    no_repeat,
    only_between,
    open_between,
    predicate,
    repeated,
    said,
    state,
    within,
)
from apportion.rollouts import Action, Trajectory, Turn
from tests.rewards.builders import broken_call, call
from tests.rewards.rule_laws import LAWS, check_rules

WHY = "for the test"
TOOLS = ("book", "get_user", "bash")

CALLS = st.builds(lambda name, x: call(name, x=x), st.sampled_from(TOOLS), st.sampled_from([1, "1", None]))
ACTIONS = st.just(broken_call()) | CALLS


@st.composite
def rollouts(draw: st.DrawFn) -> Trajectory:
    """Conversations with empty turns, broken calls, lost moves, recorded and unrecorded roles."""
    shape = draw(st.lists(st.lists(ACTIONS, max_size=3), max_size=5))
    turns, messages = [], [{"role": "user", "content": draw(st.sampled_from(["hi", "yes"]))}]
    for actions in shape:
        text, answer = draw(st.sampled_from(["", "ok?"])), draw(st.sampled_from(["yes", "no", ""]))
        columns = draw(st.sampled_from([{}, {"failing": 0}, {"failing": 1}]))
        executed = draw(st.booleans())
        turns.append(Turn(text=text, actions=tuple(actions), observation=answer, columns=columns, executed=executed))
        messages.append({"role": "assistant", "content": text})
        messages += [
            {"role": role, "content": answer} for role in draw(st.sampled_from([[], ["user"], ["tool", "user"]]))
        ]
    recorded = draw(st.booleans())
    return Trajectory(id="r", group="q", turns=tuple(turns), messages=tuple(messages if recorded else ()))


DEEDS = st.sampled_from(
    [called("book"), called("book", "bash"), mutating(), called("bash") & argument("x", equals=1), called("get_user")]
)
HEARD = st.sampled_from([said("user", contains="yes"), said("user"), ~said("user", contains="yes"), said("policy")])
STATES = st.sampled_from([state("failing", above=0), said("environment", matches="no"), repeated()])
EVENTS = DEEDS | HEARD | st.builds(lambda heard, deed: heard & happened(deed), HEARD, DEEDS)
SINCE = st.none() | EVENTS
CONDITIONS = (
    STATES
    | st.builds(
        lambda of, times, turns, since: happened(of, times=times, within=turns, since=since),
        EVENTS,
        st.integers(1, 2),
        st.none() | st.integers(0, 2),
        SINCE,
    )
    | st.builds(open_between, EVENTS, EVENTS)
)
ONE_RULE = st.one_of(
    st.builds(lambda a, b, s: before(a, b, since=s, name="before"), EVENTS, DEEDS, SINCE),
    st.builds(lambda a, b: before(a, b, same="x", counting="issued", name="same"), DEEDS, DEEDS),
    st.builds(lambda n, a, b: within(n, a, b, name="within"), st.integers(1, 3), EVENTS, DEEDS),
    st.builds(lambda a, b, c: only_between(a, b, c, name="only_between", max_credits=2), EVENTS, DEEDS, EVENTS),
    st.builds(lambda a: never_after(a, any_action(), unpaired=WHY, name="never_after"), EVENTS),
    st.builds(lambda n, a, s: at_most(n, a, since=s, unpaired=WHY, name="at_most"), st.integers(1, 2), DEEDS, SINCE),
    st.builds(lambda n: no_repeat(turns=n, unpaired=WHY, name="no_repeat"), st.none() | st.integers(0, 2)),
    st.builds(lambda a, c: Rule(name="never", violates=a & c, fulfils=a & ~c), DEEDS, CONDITIONS),
)
RULES = st.lists(ONE_RULE, min_size=1, max_size=4, unique_by=lambda rule: rule.name)


@pytest.mark.parametrize("law", LAWS)
@given(RULES, rollouts())
def test_every_kind_of_rule_obeys(law: str, rules: list[Rule], rollout: Trajectory) -> None:
    LAWS[law](rules, rollout)


@given(rollouts())
def test_the_example_file_obeys(rollout: Trajectory) -> None:
    rename = {"book": "book_reservation", "get_user": "get_user_details", "bash": "cancel_reservation"}
    turns = []
    for turn in rollout.turns:
        actions = [Action(rename.get(str(a.name)), a.arguments, error=a.error) for a in turn.actions]
        turns.append(Turn(text=turn.text, actions=tuple(actions)))
    check_rules(AIRLINE, [Trajectory(id="r", group="q", turns=tuple(turns), messages=rollout.messages)])


AIRLINE = load_rules(Path(__file__).parents[2] / "examples" / "rules" / "airline.toml")
ROLLOUT = Trajectory(id="r", group="q", turns=(Turn(actions=(call("book"),)), Turn(actions=(call("bash"),))))


def whenever(function: Any) -> Predicate:
    return predicate(function, words="bad")


COUNT = itertools.count()
BROKEN: dict[str, Rule] = {
    "pure": Rule(name="bad", violates=whenever(lambda action, before: next(COUNT) % 3 == 0), unpaired=WHY),
    "order_respecting": Rule(
        name="bad", fulfils=whenever(lambda action, before: len(before.trajectory.turns) > 1), credit=0.5
    ),
    "prefix_monotone": Rule(
        name="bad", violates=whenever(lambda action, before: len(before.trajectory.turns) < 2), unpaired=WHY
    ),
    "nothing_for_nothing": Rule(name="bad", fulfils=whenever(lambda action, before: True)),
}


@pytest.mark.parametrize("law", LAWS)
def test_every_law_has_teeth(law: str) -> None:
    with pytest.raises(AssertionError):
        LAWS[law]([BROKEN[law]], ROLLOUT)
    with pytest.raises(AssertionError):
        check_rules([BROKEN[law]], [ROLLOUT])
