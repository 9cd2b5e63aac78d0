"""What rules found, and what they ask about that does not occur."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apportion.report.rule_use import RulesInUse, RuleUse
from apportion.rewards import (
    Predicate,
    Rule,
    argument,
    at_most,
    before,
    called,
    metric,
    outcome,
    path,
    reduce_turns,
    said,
    state,
)
from apportion.rollouts import Level, Trajectory, Turn
from tests.rewards.builders import Fixed, acted, broken_call, call
from tests.rewards.test_said import chat

WHY = "for the test"
READ, EDIT = call("read", path="a", lines=[1]), call("edit_file", path="a")
ROLLOUTS = [acted([EDIT], [READ], [EDIT, broken_call()]), acted([READ])]


def uses(*observers: Any, rollouts: Any = ROLLOUTS) -> list[RuleUse]:
    """What was found one after another; apart, and put together as JSON, it is the same."""
    made, merged = RulesInUse(observers), RulesInUse(observers)
    for part in (rollouts[:1], rollouts[1:]):
        alone = RulesInUse(observers)
        for one in (made, alone):
            one.add(part)
        merged.include(json.loads(json.dumps(alone.summary())))
    assert merged.uses() == made.uses()
    return made.uses()


def missing(violates: Predicate, rollouts: Any = ROLLOUTS) -> tuple[str, ...]:
    (use,) = uses(path([Rule(name="r", violates=violates, unpaired=WHY)]), rollouts=rollouts)
    return use.never_met


def test_findings_are_counted_once_however_often_they_are_observed() -> None:
    made = path(
        [before(called("read"), called("edit_file"), same="path"), at_most(1, called("edit_file"), unpaired=WHY)]
    )
    wanted = [RuleUse(rule="before", violations=1, fulfilments=1), RuleUse(rule="at_most", violations=1)]
    assert uses(outcome(), made, made.violations.named("v"), made.fulfilments) == wanted
    inside = [0.5 * made + Fixed("other", {}, Level.TURN), metric(made), reduce_turns(made, how="mean")]
    for observer in inside:
        assert uses(observer) == wanted
    assert uses(outcome()) == []


def test_what_it_cannot_tell_is_counted() -> None:
    (use,) = uses(path([Rule(name="r", violates=called("read") & state("s"), unpaired=WHY)]))
    assert (use.abstentions, use.never_met) == (2, ("no turn has the column 's'",))


@pytest.mark.parametrize(
    ("violates", "told"),
    [
        (called("edit_file"), ()),
        (called("edit"), ("tool 'edit' does not occur, but 'edit_file' does",)),
        (called("edit", "rm"), ("tool 'edit' or 'rm' does not occur, but 'edit_file' does",)),
        (called("rm", "read"), ()),
        (called("zzz"), ("tool 'zzz' does not occur",)),
        (called("read") & argument("file"), ("argument 'file' occurs in no call of its tools",)),
        (called("read") & argument("path", equals="other"), ()),
        (called("read") & argument("lines[7]"), ()),
        (called("edit_file") & argument("lines"), ("argument 'lines' occurs in no call of its tools",)),
        (argument("lines"), ()),
        (called("read") & said("user"), ("no message of the user was recorded",)),
        (called("read") & said("environment"), ()),
    ],
)
def test_what_does_not_occur_is_named(violates: Predicate, told: tuple[str, ...]) -> None:
    assert missing(violates) == told


def test_an_argument_that_should_be_the_same_has_to_occur() -> None:
    (use,) = uses(path([before(called("read"), called("edit_file"), same="file")]))
    assert use.never_met == ("argument 'file' occurs in no call of its tools",)
    assert use.violations == 2


def test_what_is_recorded_is_met() -> None:
    talk = [chat("a: b", call("read"))]
    assert missing(called("read") & said("user"), talk) == ()
    kept = [Trajectory(id="r", group="q", turns=(Turn(columns={"s": {"t": 1}}), Turn(actions=(READ,))))]
    assert missing(called("read") & state("s.t"), kept) == ()


def test_hostile_names_are_forgotten() -> None:
    rollouts = [acted([call(f"tool{at}" + "x" * 10_000) for at in range(3_000)])]
    assert missing(called("rm"), rollouts) == ("tool 'rm' does not occur",)
