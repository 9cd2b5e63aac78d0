"""Rules written in TOML: each kind is what the Python function makes, and what is wrong is located."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.recipes.files import load_rules
from apportion.rewards import (
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
    path,
    repeated,
    rules_from_toml,
    said,
    state,
    tool_effects,
    within,
)
from apportion.rewards.toml_events import _KINDS as EVENT_KINDS
from apportion.rewards.toml_events import Events
from tests.rewards.builders import call
from tests.rewards.test_said import chat

Write = Callable[[str], Path]
WHY = "for the test"
A, B, C = called("a"), called("b"), called("c")


@pytest.fixture
def file(tmp_path: Path) -> Write:
    def write(content: str) -> Path:
        made = tmp_path / "mine.toml"
        made.write_text(content, encoding="utf-8")
        return made

    return write


def only(found: list[Rule]) -> Rule:
    (rule,) = found
    return rule


KINDS: list[tuple[str, Rule]] = [
    ("before = { first = {call='a'}, then = {call='b'} }", before(A, B, name="r")),
    (
        "before = { first = {call='a'}, then = {call='b'}, same = 'x.y', since = {call='c'}, counting = 'issued' }",
        before(A, B, same="x.y", since=C, counting="issued", name="r"),
    ),
    ("within = { turns = 2, first = {call='a'}, then = {call='b'}, same='x' }", within(2, A, B, same="x", name="r")),
    ("only_between = { start = {call='a'}, action = {call='b'}, stop = {call='c'} }", only_between(A, B, C, name="r")),
    (
        "never_after = { first = {call='a'}, then = {call='b'} }\nunpaired = 'w'",
        never_after(A, B, unpaired="w", name="r"),
    ),
    (
        "at_most = { times = 2, action = {call='a'}, since = {call='c'} }\nfulfils = {call='b'}",
        at_most(2, A, since=C, fulfils=B, name="r"),
    ),
    ("no_repeat = {}\nunpaired = 'w'", no_repeat(unpaired="w", name="r")),
    ("no_repeat = { action = {call='a'}, turns = 3 }\nunpaired = 'w'", no_repeat(A, turns=3, unpaired="w", name="r")),
    ("never = { action = {call=['a', 'b']} }\nunpaired = 'w'", Rule(name="r", violates=called("a", "b"), unpaired="w")),
    ("fulfils = {call='a'}\ncredit = 0.5\nmax_credits = 2", Rule(name="r", fulfils=A, credit=0.5, max_credits=2)),
    (
        "before = { first = {call='a'}, then = {call='b'} }\npenalty = 1\ncredit = 2.0\nwhy = 'so'",
        before(A, B, penalty=1, credit=2.0, why="so", name="r"),
    ),
]


@pytest.mark.parametrize(
    ("text", "rule"), KINDS, ids=[text.partition(" ")[0] + str(i) for i, (text, _) in enumerate(KINDS)]
)
def test_every_kind_is_what_python_makes(file: Write, text: str, rule: Rule) -> None:
    made = only(rules_from_toml(file(f"[rules.r]\n{text}")))
    for field in ("name", "penalty", "credit", "unpaired", "max_credits", "why", "violation_words", "fulfilment_words"):
        assert getattr(made, field) == getattr(rule, field), field
    names = ("a", "b", "c")
    script = [call(names[at % 3], x={"y": at // 5}) for at in (0, 1, 1, 2, 1, 5, 6, 0, 1, 7, 4, 4)]
    assert path([made]).findings(chat(*script)) == path([rule]).findings(chat(*script))


EVENTS: list[tuple[str, Any]] = [
    ("{ all = [{ call = '*' }, { call = 'a' }] }", any_action() & A),
    (
        "{ call = ['a', 'b'], args = { x = 1, 'y.z' = { above = 2 } } }",
        called("a", "b") & argument("x", equals=1) & argument("y.z", above=2),
    ),
    ("{ call = 'a', args = { x = { present = true } } }", A & argument("x")),
    ("{ call = 'a', args = { x = { matches = '[.]py$' } } }", A & argument("x", matches="[.]py$")),
    ("{ call = 'a', args = { x = { one_of = [1, 'b'] } } }", A & argument("x", one_of=[1, "b"])),
    ("{ call = 'a', args = { 'x[0]' = [1, 2] } }", A & argument("x[0]", equals=[1, 2])),
    ("{ mutating = true }", mutating()),
    ("{ mutating = true, args = { x = true } }", mutating() & argument("x", equals=True)),
    ("{ all = [{ call = 'a' }, { any = [{ call = 'c' }, { not = { call = 'b' } }] }] }", A & (C | ~B)),
    ("{ all = [{ call = 'a' }, { state = 's.t', below = 1 }] }", A & state("s.t", below=1)),
    ("{ all = [{ call = 'a' }, { repeated = true, turns = 2 }] }", A & repeated(within=2)),
    ("{ all = [{ call = 'a' }, { said = 'user', contains = 'x' }] }", A & said("user", contains="x")),
    ("{ all = [{ call = 'a' }, { said = 'tool', matches = ['x', 'y'] }] }", A & said("tool", matches=["x", "y"])),
    (
        "{ all = [{ call = 'a' }, { earlier = { call = 'b' }, times = 2, since = { said = 'user' } }] }",
        A & happened(B, times=2, since=said("user")),
    ),
]


@pytest.mark.parametrize(("text", "predicate"), EVENTS, ids=range(len(EVENTS)))
def test_every_event_is_what_python_makes(file: Write, text: str, predicate: Any) -> None:
    made = only(rules_from_toml(file(f"[rules.r]\nfulfils = {text}")))
    assert made.fulfilment_words == predicate.words


def test_named_events_are_told_by_their_names(file: Write) -> None:
    rule = only(
        rules_from_toml(
            file(
                "[events]\nuser_said_yes = { said = 'user', matches = '\\byes\\b' }\nwrite = { any = ['w1', 'w2'] }\n"
                "w1 = { call = 'book' }\nw2 = { call = 'cancel' }\n"
                "[rules.r]\nbefore = { first = 'user_said_yes', then = 'write', since = 'write' }"
            )
        )
    )
    assert rule.violation_words == "write and not (an earlier user said yes since the last write)"
    found = path([rule]).findings(chat("ok?: yes", call("book"), call("cancel")))
    assert [finding.kind for turn in found for finding in turn] == ["fulfilment", "violation"]
    assert found[2][0].words.endswith("[no user said yes since turn 1 (book)]")


def test_tools_are_read_from_a_file_beside_it(file: Write, tmp_path: Path) -> None:
    tools = [{"function": {"name": "look", "mutating": True}}]
    (tmp_path / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    rule = only(
        rules_from_toml(
            file(
                "[tools]\ndefinitions = 'tools.json'\nreads = ['buy']\nchanges = ['x']\nundeclared = 'unknown'\n"
                "[rules.r]\nfulfils = { mutating = true }"
            )
        )
    )
    found = path([rule]).findings(chat(call("look"), call("buy"), call("x"), call("sell")))
    assert [len(turn) for turn in found] == [1, 0, 1, 0]


WRONG_RULES: list[tuple[str, str]] = [
    ("befor = {}", "mine.toml: rules.r.befor={}: expected another key: 'before'?"),
    ("no_repeat = {}\nnever = {}", "rules.r=['no_repeat', 'never']: expected exactly one of"),
    ("before = { frist = 'a', then = 'b' }", "rules.r.before.frist='a': expected another key: 'first'?"),
    ("before = { first = {call='a'} }", "rules.r.before={'first': {'call': 'a'}}: expected also then"),
    ("before = 3", "rules.r.before=3: expected a table with first, then"),
    (
        "before = { first = 'a', then = 'b' }",
        "rules.r.before.first='a': expected one of nothing; a tool is { call = 'a' }",
    ),
    ("before = { first = 3, then = 'b' }", "rules.r.before.first=3: expected the name of an event"),
    ("fulfils = { cal = 'a' }", "rules.r.fulfils={'cal': 'a'}: expected exactly one kind of event, 'call'?"),
    ("fulfils = { call = 'a', said = 'user' }", "expected exactly one kind of event"),
    ("fulfils = { call = 'a', arg = {} }", "rules.r.fulfils.arg={}: expected another key: 'args'?"),
    ("fulfils = { call = 3 }", "rules.r.fulfils.names=3: expected a non-empty string"),
    ("fulfils = { call = [] }", "rules.r.fulfils.names=()"),
    ("fulfils = { call = 'a', args = 3 }", "rules.r.fulfils.args=3: expected a table of arguments"),
    (
        "fulfils = { call = 'a', args = { o = { force = true } } }",
        "rules.r.fulfils.args.o={'force': True}: expected one of present, equals, one_of, "
        "contains, matches, above, below; an argument inside another one is written in quotes: 'o.force'",
    ),
    ("fulfils = { call = 'a', args = { o = { above = 1, below = 3 } } }", "one test"),
    ("fulfils = { call = 'a', args = { o = { present = false } } }", "rules.r.fulfils.args.o.present=False"),
    ("fulfils = { call = 'a', args = { o = { matches = '(a+)+' } } }", "rules.r.fulfils.args.o.matches='(a+)+'"),
    ("fulfils = { call = 'a', args = { 'o..p' = 1 } }", "rules.r.fulfils.args.o..p.path='o..p'"),
    ("fulfils = { said = 'usr' }", "rules.r.fulfils.who='usr'"),
    ("fulfils = { said = 'user', matches = [3] }", "rules.r.fulfils.matches=[3]"),
    ("fulfils = { mutating = false }", "rules.r.fulfils.mutating=False: expected true; for its opposite"),
    ("fulfils = { repeated = false }", "rules.r.fulfils.repeated=False"),
    ("fulfils = { any = 'a' }", "rules.r.fulfils.any='a': expected a list of events"),
    ("fulfils = { all = [{ call = 'a' }, 3] }", "rules.r.fulfils.all[1]=3"),
    ("fulfils = { call = 'a' }\npenalty = 'x'", "mine.toml: rules.r.penalty='x': expected a finite number >= 0"),
    ("fulfils = { call = 'a' }\nwhy = 3", "mine.toml: rules.r.why=3: expected text"),
    ("never = { action = { call = 'a' } }", "mine.toml: rules.r.fulfils=None: expected the compliant action"),
    (
        "never = { action = { not = { call = 'a' } } }\nunpaired = 'w'",
        "rules.r.violates='not (call of a)': expected a violation that",
    ),
    (
        "before = { first = {call='a'}, then = {call='b'} }\nunpaired = 'w'",
        "rules.r.unpaired='w': expected nothing: before pays",
    ),
    ("within = { turns = 0, first = {call='a'}, then = {call='b'} }", "rules.r.turns=0: expected a whole number >= 1"),
    ("before = { first = {call='a'}, then = {call='b'}, counting = 'all' }", "rules.r.counting='all'"),
]
WRONG_FILES: list[tuple[str, str]] = [
    ("", "mine.toml={}: expected also rules"),
    ("[rules]", "mine.toml: rules={}: expected at least one rule"),
    ("rules = 3", "mine.toml: rules=3: expected tables with names of their own"),
    ("[rule.r]", "mine.toml.rule={'r': {}}: expected another key: 'rules'?"),
    ("a = [", "expected a TOML file"),
    ("[rules.r]\n", "mine.toml: rules.r=[]: expected exactly one of before, within"),
    (
        "[events]\nconfirmation = { said = 'user' }\n[rules.r]\nbefore = { first = 'confirmtion', then = {call='b'} }",
        "rules.r.before.first='confirmtion': expected 'confirmation'? One of confirmation; a tool is",
    ),
    (
        "[events]\na = { not = 'b' }\nb = { not = 'a' }\n[rules.r]\nfulfils = 'a'",
        "does not lead back to itself (a -> b)",
    ),
    (
        "[events]\nunused = { sad = 'user' }\n[rules.r]\nfulfils = { call = 'a' }",
        "mine.toml: events.unused={'sad': 'user'}: expected exactly one kind of event, 'said'?",
    ),
    ("events = []\n[rules.r]\nfulfils = { call = 'a' }", "mine.toml: events=[]"),
    (
        "[tools]\nread = []\n[rules.r]\nfulfils = { call = 'a' }",
        "mine.toml: tools.read=[]: expected another key: 'reads'?",
    ),
    (
        "[tools]\nreads = 'a'\n[rules.r]\nfulfils = { call = 'a' }",
        "mine.toml: tools.reads='a': expected a list of tool names",
    ),
    ("[tools]\nundeclared = 'x'\n[rules.r]\nfulfils = { call = 'a' }", "mine.toml: tools.undeclared='x'"),
    (
        "[tools]\ndefinitions = 'absent.json'\n[rules.r]\nfulfils = { call = 'a' }",
        "mine.toml: tools.definitions='absent.json'",
    ),
    ("[tools]\ndefinitions = 'mine.toml'\n[rules.r]\nfulfils = { call = 'a' }", "expected a JSON file ("),
]


@pytest.mark.parametrize(
    ("text", "message"), [*WRONG_FILES, *(("[rules.r]\n" + text, message) for text, message in WRONG_RULES)]
)
def test_what_is_wrong_is_named_with_file_rule_key_and_value(file: Write, text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        rules_from_toml(file(text))
    assert message in str(caught.value)
    assert "mine.toml" in str(caught.value)


def test_both_forms_load_by_their_ending(file: Write, tmp_path: Path) -> None:
    assert only(load_rules(file("[rules.r]\nfulfils = { call = 'a' }"))).name == "r"
    python = tmp_path / "mine.py"
    python.write_text("from apportion.rewards import Rule, called\nrules = [Rule(name='p', fulfils=called('a'))]")
    assert only(load_rules(python)).name == "p"
    with pytest.raises(InvalidArgument, match="a TOML file that exists"):
        load_rules(tmp_path / "absent.toml")


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats(allow_nan=True)
    | st.sampled_from(["a", "user", "e", "x.y", ""])
)
KEYS = st.sampled_from([*EVENT_KINDS, *(key for keys in EVENT_KINDS.values() for key in keys), "typo"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


TABLES = st.dictionaries(KEYS, VALUES, max_size=4) | st.sampled_from(sorted(EVENT_KINDS)).flatmap(
    lambda kind: st.fixed_dictionaries({kind: VALUES}, optional=dict.fromkeys(EVENT_KINDS[kind], VALUES))
)


@given(TABLES)
def test_whatever_stands_in_an_event_it_is_one_or_refused_in_its_place(table: dict[str, Any]) -> None:
    events, places = Events("mine.toml", {"e": {"call": "a"}}, tool_effects()), []
    try:
        assert events.get(table, "mine.toml: events.x").words
    except InvalidArgument as error:
        places.append(error.argument)
    assert all(place.startswith("mine.toml: events.x") for place in places)
