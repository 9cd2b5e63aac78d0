"""What every set of rules obeys, whatever is in it; each law is a function of the rules and one rollout.

    pure                the same rollout is judged the same way again, after others and as a copy
    order_respecting    what was said up to an action does not change with what comes after it
    prefix_monotone     a longer rollout never takes an earlier violation back
    nothing_for_nothing no credit without an action, nor for actions that the rules do not know

A law raises AssertionError with the two results that should agree.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from apportion.rewards import Finding, Rule, path
from apportion.rollouts import Action, Trajectory
from apportion.verdicts import Scored

__all__ = ["LAWS", "check_rules"]

Law = Callable[[Sequence[Rule], Trajectory], None]
# No rule file names such a tool.
STRANGER = Action("a_tool_that_no_rule_names")


def pure(rules: Sequence[Rule], rollout: Trajectory) -> None:
    """The same rollout is judged the same way again, after others and as a copy."""
    first = path(rules).observe([rollout])
    again = path(rules)
    other = replace(rollout, id="other", turns=rollout.turns[::-1])
    assert list(again.observe([other, rollout, copy.deepcopy(rollout)]))[1:] == [*first, *first]
    assert list(again.observe([rollout])) == list(first)


def order_respecting(rules: Sequence[Rule], rollout: Trajectory) -> None:
    """What was said up to an action does not change with what comes after it."""
    whole = findings(rules, rollout)
    for prefix, turn, action in prefixes(rollout):
        assert findings(rules, prefix) == [f for f in whole if (f.turn, f.action) < (turn, action)]


def prefix_monotone(rules: Sequence[Rule], rollout: Trajectory) -> None:
    """A longer rollout never takes an earlier violation back."""
    before = 0
    for prefix, _, _ in prefixes(rollout):
        violations = sum(finding.kind == "violation" for finding in findings(rules, prefix))
        assert violations >= before
        before = violations


def nothing_for_nothing(rules: Sequence[Rule], rollout: Trajectory) -> None:
    """No credit without an action, nor for actions that the rules do not know."""
    assert list(path(rules).observe([replace(rollout, turns=(), messages=())])) == [[]]
    idle = replace(rollout, turns=tuple(replace(turn, actions=()) for turn in rollout.turns))
    for verdict in path(rules).score(idle):
        assert verdict == Scored(0.0, "no action")
    strange = replace(rollout, turns=tuple(replace(turn, actions=(STRANGER,)) for turn in rollout.turns))
    assert [str(finding) for finding in findings(rules, strange) if finding.kind == "fulfilment"] == []


LAWS: Mapping[str, Law] = {law.__name__: law for law in (pure, order_respecting, prefix_monotone, nothing_for_nothing)}


def check_rules(rules: Sequence[Rule], rollouts: Sequence[Trajectory]) -> None:
    """All laws on all rollouts."""
    for rollout in rollouts:
        for law in LAWS.values():
            law(rules, rollout)


def findings(rules: Sequence[Rule], rollout: Trajectory) -> list[Finding]:
    """Everything the rules said, in order."""
    return [finding for turn in path(rules).findings(rollout) for finding in turn]


def prefixes(rollout: Trajectory) -> Iterator[tuple[Trajectory, int, int]]:
    """Every beginning of a rollout, and the place of the first action that is not in it."""
    starts = [at for at, message in enumerate(rollout.messages) if message.get("role") == "assistant"]
    aligned = len(starts) == len(rollout.turns)
    for index, turn in enumerate(rollout.turns):
        for stop in range(len(turn.actions) + 1):
            cut = replace(turn, actions=turn.actions[:stop], observation="", columns={})
            messages = rollout.messages[: starts[index] + 1] if aligned else ()
            yield replace(rollout, turns=(*rollout.turns[:index], cut), messages=messages), index, stop
        stop = starts[index + 1] if aligned and index + 1 < len(starts) else len(rollout.messages)
        messages = rollout.messages[:stop] if aligned else ()
        yield replace(rollout, turns=rollout.turns[: index + 1], messages=messages), index + 1, 0
