from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.integrations.actions import MAX_ACTIONS, MAX_CHARACTERS, Syntax, content_text, parse_actions
from apportion.rollouts import Action


def only(source: str | dict[str, Any], syntax: Syntax = "auto") -> Action:
    (action,) = parse_actions(source, syntax)
    return action


def hermes(name: str, arguments: object) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def openai(arguments: object, name: object = "f") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


# --- Hermes


def test_nested_braces_end_where_the_json_ends() -> None:
    """A lazy brace pattern stops at the first closing brace (NousResearch/hermes-agent#2335)."""
    text = '<tool_call>{"name":"f","arguments":{"a":{"b":[1,{"c":2}]}}}</tool_call>'
    action = only(text)
    assert (action.name, action.arguments, action.error) == ("f", {"a": {"b": [1, {"c": 2}]}}, None)
    assert (action.raw, action.syntax) == (text, "hermes")


def test_unbalanced_json_is_an_action_with_the_position_and_not_a_final_answer() -> None:
    """Dropped without trace, an attempted call looks like a final answer (NousResearch/hermes-agent#5315)."""
    text = '<tool_call>{"name":"run","arguments":{"cmd":"ls"}</tool_call>'
    action = only(text)
    assert action.name is None
    assert action.error == f"Expecting ',' delimiter at character {text.index('</tool_call>')}"
    assert action.raw == text
    assert parse_actions("done, the file lists itself") == ()


def test_calls_around_a_bad_one_are_still_read_in_order() -> None:
    text = hermes("a", {}) + "<tool_call>{oops</tool_call> then " + hermes("b", {"x": 1})
    assert [action.name for action in parse_actions(text)] == ["a", None, "b"]


def test_a_tag_inside_a_json_string_does_not_end_the_call() -> None:
    arguments = {"code": "print('<tool_call></tool_call>')"}
    assert only(hermes("write", arguments)).arguments == arguments


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            '<tool_call>{"name": "f", "arguments": {}}',
            "the call of 'f' is not followed by </tool_call> at character 41",
        ),
        ('<tool_call>{"name": "f", "arguments": {}} x</tool_call>', "not followed by </tool_call> at character 42"),
        ("<tool_call></tool_call>", "Expecting value at character 11"),
        ("<tool_call>", "Expecting value at character 11"),
        ("<tool_call>[1]</tool_call>", "not an object with a name and arguments at character 11"),
        ('<tool_call>{"arguments": {}}</tool_call>', "the call has no name"),
        ('<tool_call>{"name": 3, "arguments": {}}</tool_call>', "the call has no name"),
        ('<tool_call>{"name": "f"}</tool_call>', "the call of 'f' has no arguments"),
        ('<tool_call>{"name": "f", "arguments": "{}"}</tool_call>', "has str for arguments, not an object"),
        ('<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>', "NaN is not JSON"),
        ('<tool_call>{"name": "f", "arguments": {"a": 1, "a": 2}}</tool_call>', "key 'a' appears twice"),
        ("so </tool_call>", "</tool_call> without <tool_call> at character 3"),
    ],
)
def test_what_is_not_a_hermes_call_says_why(text: str, error: str) -> None:
    action = only(text)
    assert (action.name, action.arguments) == (None, {})
    assert action.error is not None
    assert error in action.error


@given(st.text(max_size=60), st.sampled_from(["auto", "openai", "hermes", "react", "shell"]))
def test_no_text_raises(text: str, syntax: Syntax) -> None:
    for action in parse_actions(text, syntax):
        assert (action.name is None) == (action.error is not None)


@given(
    st.lists(st.sampled_from(["<tool_call>", "</tool_call>", '{"name":"f","arguments":{}}', "{", '"', "\\", "}", " "]))
)
def test_no_arrangement_of_tags_and_braces_raises_or_invents_a_call(pieces: list[str]) -> None:
    text = "".join(pieces)
    for action in parse_actions(text, "hermes"):
        assert action.raw in text
        assert action.name in (None, "f")


# --- OpenAI


def test_arguments_as_text_or_as_an_object_are_the_same_call() -> None:
    as_text, as_object = only(openai('{"a": 1}')), only(openai({"a": 1}))
    assert as_text.name == as_object.name == "f"
    assert as_text.arguments == as_object.arguments == {"a": 1}
    assert as_text.call_id == "c1"
    assert json.loads(as_text.raw)["function"]["arguments"] == '{"a": 1}'


def test_parallel_calls_keep_their_order() -> None:
    calls = [{"function": {"name": name, "arguments": "{}"}} for name in ("f", "g", "f")]
    assert [action.name for action in parse_actions({"tool_calls": calls})] == ["f", "g", "f"]


def test_the_older_function_call_is_read_too() -> None:
    action = only({"content": "", "function_call": {"name": "f", "arguments": '{"a": 1}'}})
    assert (action.name, action.arguments, action.call_id) == ("f", {"a": 1}, None)


def test_structured_calls_win_over_the_text_beside_them() -> None:
    message = openai("{}") | {"content": hermes("copy", {})}
    assert only(message).name == "f"


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (openai('{"a": 1'), "arguments of 'f': Expecting ',' delimiter at character 7"),
        (openai(""), "arguments of 'f': Expecting value at character 0"),
        (openai("{} {}"), "arguments of 'f': text after the JSON at character 3"),
        (openai("[1]"), "arguments of 'f' are list, not an object"),
        (openai(None), "arguments of 'f' are NoneType, not an object"),
        (openai('{"a": Infinity}'), "Infinity is not JSON"),
        (openai("[" * 100_000), "nested deeper than 64 levels"),
        (openai("{}", name=""), "the call has no name"),
        (openai("{}", name=None), "the call has no name"),
        ({"tool_calls": ["f()"]}, "the call is str"),
        ({"tool_calls": "f()"}, "the call is str"),
        ({"tool_calls": [None]}, "the call is NoneType"),
        ({"tool_calls": [{"type": "custom", "custom": {"name": "f", "input": "x"}}]}, "the call has no name"),
    ],
)
def test_what_is_not_an_openai_call_says_why(message: dict[str, Any], error: str) -> None:
    action = only(message)
    assert (action.name, action.syntax) == (None, "openai")
    assert action.error is not None
    assert error in action.error


def test_deep_arguments_that_are_already_an_object_are_an_error_too() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert only(openai(deep)).error == "arguments of 'f' are nested deeper than 64 levels"


def test_no_calls_is_the_empty_tuple() -> None:
    assert parse_actions({"role": "assistant", "content": "hello", "tool_calls": None}) == ()
    assert parse_actions({"role": "assistant", "content": None, "tool_calls": []}) == ()
    assert parse_actions({"role": "assistant"}) == ()


# --- ReAct


def test_react_with_json_with_text_and_in_brackets() -> None:
    text = (
        'Thought: look\nAction: search\nAction Input: {"q": "x"}\nObservation: none\n'
        "Thought: again\nAction 2: lookup\nAction Input 2: the second\nline\nThought: so\nAction: Finish[42 [sic]]"
    )
    assert [(a.name, dict(a.arguments), a.error) for a in parse_actions(text)] == [
        ("search", {"q": "x"}, None),
        ("lookup", {"input": "the second\nline"}, None),
        ("Finish", {"input": "42 [sic]"}, None),
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('Action: f\nAction Input: {"a": 1', "Expecting ',' delimiter at character 31"),
        ('Action: f\nAction Input: {"a": 1} and', "text after the input at character 32"),
        ("Action: f\nThought: hm", "an action without input at character 7"),
        ("Action: f", "an action without input at character 7"),
        ("Action Input: x", "an input without an action at character 13"),
        ("Action:\nAction Input: x", "an action without a name of one line at character 7"),
    ],
)
def test_what_is_not_a_react_call_says_why(text: str, error: str) -> None:
    assert only(text, "react").error == error


def test_prose_that_mentions_an_action_is_not_react() -> None:
    assert parse_actions("Action: I will now explain the result.\nThe action: none.") == ()


# --- shell


def test_each_shell_fence_is_one_action_named_after_its_first_word() -> None:
    text = "First\n```bash\ncd /tmp && ls\necho done\n```\nthen\n```python\nprint()\n```\n```sh\nmake\n```"
    assert [(a.name, a.arguments["command"]) for a in parse_actions(text)] == [
        ("cd", "cd /tmp && ls\necho done"),
        ("make", "make"),
    ]


def test_a_bare_fence_is_a_command_only_when_shell_is_named() -> None:
    text = "Look around.\n```\nls -a\n```"
    assert parse_actions(text) == ()
    assert only(text, "shell").arguments == {"command": "ls -a"}


def test_a_longer_fence_holds_a_shorter_one() -> None:
    text = "````bash\ncat <<E\n```\nE\n````"
    assert only(text).arguments["command"] == "cat <<E\n```\nE"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```bash\n\n```", "the command is empty"),
        ("so\n```bash\nls", "the fence opened at character 3 is never closed"),
    ],
)
def test_what_is_not_a_command_says_why(text: str, error: str) -> None:
    assert only(text).error == error


def test_windows_line_ends_do_not_hide_a_fence() -> None:
    assert only("```bash\r\nls\r\n```\r\n").arguments == {"command": "ls"}


# --- limits

MEGABYTE = 1_000_000


@pytest.mark.parametrize("syntax", ["auto", "hermes", "react", "shell"])
@pytest.mark.parametrize(
    "piece",
    [
        "<tool_call>",
        '<tool_call>{"',
        '<tool_call>{","',
        "</tool_call>",
        '{"a":',
        "[",
        "Action:\n",
        "Action: f\nAction Input: {",
        "Action \t",
        "Action 1",
        "Final  ",
        "```bash\n",
        "``` ` ",
        "`",
        " ",
        "\n",
        '"',
        "\\",
    ],
)
def test_a_megabyte_of_anything_is_read_in_linear_time(piece: str, syntax: Syntax) -> None:
    text = piece * (MEGABYTE // len(piece))
    start = time.process_time()
    parse_actions(text, syntax)
    parse_actions("<tool_call>" + text, syntax)
    parse_actions("```bash" + text, syntax)
    assert time.process_time() - start < 5  # linear takes 0.2 s at most; quadratic takes minutes


def test_more_actions_than_the_limit_end_in_an_error() -> None:
    actions = parse_actions(hermes("f", {}) * (MAX_ACTIONS + 50))
    assert len(actions) == MAX_ACTIONS + 1
    assert [action.name for action in actions] == ["f"] * MAX_ACTIONS + [None]
    assert actions[-1].error == f"more than {MAX_ACTIONS} actions; the rest was not read"
    assert len(parse_actions(hermes("f", {}) * MAX_ACTIONS)) == MAX_ACTIONS


def test_a_text_over_the_limit_is_an_action_with_an_error() -> None:
    action = only("x" * (MAX_CHARACTERS + 1))
    assert action.error is not None
    assert str(MAX_CHARACTERS) in action.error


# --- arguments


def test_a_source_that_is_no_message_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="source=3"):
        parse_actions(3)  # type: ignore[arg-type]


def test_an_unknown_syntax_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match="auto, openai, hermes, react, shell"):
        parse_actions("", "xml")  # type: ignore[arg-type]


def test_content_is_text_nothing_or_parts() -> None:
    parts = [{"type": "text", "text": "a"}, "b", {"type": "image_url"}, 7]
    assert [content_text(content) for content in ("x", None, parts, 7)] == ["x", "", "ab[image_url]", ""]
