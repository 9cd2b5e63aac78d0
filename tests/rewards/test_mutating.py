"""Which calls change something: declared, read from definitions, guessed, or unknown."""

from __future__ import annotations

from typing import Any

import pytest

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import before, called, mutating, mutations, path, tool_effects
from apportion.rollouts import Action, Trajectory, Turn
from apportion.verdicts import Abstained, Scored
from tests.rewards.builders import acted, broken_call, call, kinds, said, values
from tests.rewards.test_linear import seen

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "get_secret_and_burn", "mutating": True, "parameters": {}}},
    {"type": "function", "mutating": False, "function": {"name": "submit_query"}},
    {"name": "remove_filter", "inputSchema": {}, "annotations": {"readOnlyHint": True, "destructiveHint": True}},
    {"name": "find_or_make", "annotations": {"readOnlyHint": False, "title": "x"}},
    {"name": "show_once", "annotations": {"destructiveHint": False}},
    {"name": "list_plain", "description": "nothing declared"},
]


@pytest.mark.parametrize(
    ("tool", "changes", "why"),
    [
        ("get_secret_and_burn", True, "its definition says mutating: true"),
        ("submit_query", False, "its definition says mutating: false"),
        ("remove_filter", False, "its definition says readOnlyHint: true"),
        ("find_or_make", True, "its definition says readOnlyHint: false"),
        ("show_once", True, "its definition says destructiveHint: false"),
        ("list_plain", False, "guessed from the verb 'list'"),
        ("cancelReservation", True, "guessed from the verb 'cancel'"),
        ("reservation.cancel", True, "guessed from the verb 'cancel'"),
        ("HTTPGet", False, "guessed from the verb 'get'"),
        ("search_book", False, "guessed from the verb 'search'"),
        ("bookkeeper", None, "not declared, and its name says nothing"),
        ("bash", None, "not declared, and its name says nothing"),
        ("", None, "not declared, and its name says nothing"),
        (None, None, "the call names no tool"),
    ],
)
def test_what_is_known_about_a_tool(tool: str | None, changes: bool | None, why: str) -> None:
    effect = tool_effects(TOOLS).of(tool)
    assert (effect.changes, effect.why) == (changes, why)


def test_what_is_declared_by_hand_goes_first() -> None:
    effects = tool_effects(TOOLS, changes=["remove_filter", "bash"], reads=["cancel_dry_run"], undeclared="unknown")
    asked = ("remove_filter", "bash", "cancel_dry_run", "list_plain", "update_x")
    assert [effects.of(tool).changes for tool in asked] == [True, True, False, None, None]


@pytest.mark.parametrize(
    "options",
    [
        {"tools": [{"description": "no name"}]},
        {"tools": ["ls"]},
        {"tools": [{"name": "a", "mutating": "yes"}]},
        {"tools": [{"name": "a", "annotations": []}]},
        {"tools": [{"name": "a", "annotations": {"readOnlyHint": 1}}]},
        {"tools": [{"name": "a", "mutating": True, "annotations": {"readOnlyHint": True}}]},
        {"tools": [{"name": "a", "mutating": True, "function": {"name": "a", "mutating": False}}]},
        {"tools": [{"name": "a", "mutating": True}, {"name": "a", "mutating": False}]},
        {"changes": ["a"], "reads": ["a"]},
        {"changes": "abc"},
        {"reads": [""]},
        {"undeclared": "no"},
    ],
)
def test_declarations_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        tool_effects(**options)
    with pytest.raises(InvalidArgument):
        mutations(**options)


def test_effects_are_made_once_or_told_once() -> None:
    effects = tool_effects(changes=["bash"])
    assert mutations(effects).effects is effects
    with pytest.raises(InvalidArgument, match="tools"):
        mutating(effects, reads=["x"])


def flags(*turns: list[Action] | Turn, **options: Any) -> list[Any]:
    made = tuple(turn if isinstance(turn, Turn) else Turn(actions=tuple(turn)) for turn in turns)
    return list(seen(mutations(**options), [Trajectory(id="r", group="q", turns=made)])[0])


def test_one_flag_per_turn_with_the_call_and_the_reason() -> None:
    found = flags(
        [call("get_user"), call("cancel")], [call("get_user")], [], [call("bash")], [call("bash"), call("buy")]
    )
    assert values(found) == [1.0, 0.0, 0.0, None, 1.0]
    assert found[0].evidence == "changes something: action 1, cancel: guessed from the verb 'cancel'"
    assert found[1].evidence == "only looks: action 0, get_user: guessed from the verb 'get'"
    assert found[3].reason.startswith("nobody knows what it changes: action 0, bash: not declared")


def test_what_did_not_parse_or_arrive() -> None:
    found = flags([broken_call()], [broken_call(), call("buy")], Turn(actions=(call("buy"),), executed=False))
    assert found[0] == Abstained("nobody knows what it changes: action 0, None: did not parse")
    assert values(found[1:]) == [1.0, 0.0]
    assert flags([broken_call(), call("get_x")])[0].reason.endswith("did not parse")
    assert flags(Turn(text="hello")) == [Scored(0.0, "no action")]


def test_hostile_names_cost_little() -> None:
    (found,) = flags([call("x" * 1_000_000)] * 100)
    assert isinstance(found, Abstained)
    assert len(found.reason) < 1_500


def test_all_mutating_tools_in_one_rule() -> None:
    rule = before(called("get_user"), mutating(), name="look_first")
    (found,) = seen(path([rule]), [acted([call("cancel")], [call("bash")], [call("get_user")], [call("buy")])])
    assert values(found) == [-0.25, 0.0, 0.0, 0.25]
    assert "cancel: guessed from the verb 'cancel'" in found[0].evidence
    assert "cannot tell" in found[1].evidence
    assert "bash: not declared" in found[1].evidence


def test_the_table_of_turns_is_needed() -> None:
    with pytest.raises(MissingInput, match="table of turns"):
        mutations().observe([Trajectory(id="r", group="q", response_ids=[1])])  # type: ignore[arg-type]
    assert kinds(seen(mutations(), [said("a", "b")])) == "SS"
    assert (mutations().role, mutations(name="m").name) == ("shaping", "m")
