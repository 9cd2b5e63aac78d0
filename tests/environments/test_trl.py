"""The tool environments keep TRL's contract and are the same task as the token environments."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils import get_json_schema

from apportion.environments import Environment, Notebook, Terminal
from apportion.environments.trl import NotebookTools, TerminalTools
from apportion.errors import InvalidArgument


def tools(kind: type[Any]) -> dict[str, Any]:
    """The methods that TRL offers to the model, found the way it finds them."""
    named = inspect.getmembers(kind, predicate=inspect.isfunction)
    return {name: f for name, f in named if name not in ("reset", "get_reward") and not name.startswith("_")}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            TerminalTools,
            {"cat": {"path": "string"}, "edit": {"path": "string"}, "rm": {"path": "string"}}
            | {"wait": {}, "run": {}, "submit": {}},
        ),
        (
            NotebookTools,
            {"scroll": {"rows": "integer"}, "note": {"number": "integer"}, "submit": {"number": "integer"}},
        ),
    ],
)
def test_the_public_methods_are_the_tools_with_a_schema_each(
    kind: type[Any], expected: dict[str, dict[str, str]]
) -> None:
    found = {}
    for name, function in tools(kind).items():
        schema = get_json_schema(function)["function"]
        assert schema["name"] == name
        assert schema["description"]
        given_arguments = schema["parameters"]["properties"]
        assert all(argument["description"] for argument in given_arguments.values())
        found[name] = {argument: about["type"] for argument, about in given_arguments.items()}
    assert found == expected


@given(seed=st.integers(0, 20), data=st.data())
def test_tools_do_what_tokens_do(seed: int, data: st.DataObject) -> None:
    """Same turns, same facts, same reward."""
    task, env = Terminal(), TerminalTools()
    by_token = Environment(task)
    by_token.reset(seed)
    env.reset(seed=seed, prompt=[{"role": "user", "content": ""}])
    paths = ["a.py", "b.py", "c.py", "d.py", "tests.py", "lock", "."]
    moves = [(c, p) for c in ("cat", "edit", "rm") for p in paths] + [(c, ".") for c in ("wait", "run", "submit")]
    for command, path in data.draw(st.lists(st.sampled_from(moves), min_size=9, max_size=9)):
        done = by_token.step(task.vocabulary.ids((command, path))).done
        plain = command in ("wait", "run", "submit")
        said = getattr(env, command)() if plain else getattr(env, command)(path)
        assert said == by_token.snapshot().turns[-1].observation
        if done:
            break
    now = by_token.snapshot()
    assert env.get_reward() == now.reward
    assert env.turn_columns == [turn.columns for turn in now.turns]
    assert [t.actions[0].name for t in env.turns] == [t.actions[0].name for t in now.turns]
    assert [t.actions[0].arguments for t in env.turns] == [t.actions[0].arguments for t in now.turns]
    assert env.calls == [(t.actions[0].name, t.actions[0].arguments) for t in now.turns]


def test_the_notebook_behind_tools() -> None:
    env = NotebookTools()
    said = env.reset(seed=3)
    state = Notebook().start(3)[0]
    assert said.endswith(" ".join(map(str, state.numbers[:3])))
    while not env.turns or not env.turns[-1].columns["state"]["last_row_seen"]:
        env.scroll(3)
    assert env.scroll(7) == "malformed malformed malformed"
    assert env.note(5).split()[-1] == "END"
    assert env.get_reward() == 0.0
    assert env.submit(max(state.numbers)).split()[0] == "accepted"
    assert env.get_reward() == 1.0
    assert sum(turn.columns["fulfilments"] for turn in env.turns) == 1


def test_an_instance_is_used_again_after_reset() -> None:
    env = TerminalTools()
    env.reset(seed=0)
    env.edit("tests.py")
    env.rm("lock")
    env.submit()
    assert env.get_reward() == 1.0
    env.reset(seed=0)
    assert (env.get_reward(), env.turns, env.turn_columns) == (0.0, (), [])
    assert env.run() == "locked"


def test_calls_after_the_end_keep_their_place_and_do_nothing() -> None:
    env = TerminalTools()
    env.reset(seed=0)
    env.submit()
    assert env.rm("lock") == "the episode is over"
    assert [turn.executed for turn in env.turns] == [True, False]
    assert (env.turn_columns[1]["violations"], env.turn_columns[1]["evidence"]) == (0, "")
    assert env.turn_columns[1]["state"] == env.turn_columns[0]["state"]


def test_the_turn_limit_holds_behind_tools_too() -> None:
    env = TerminalTools()
    env.reset(seed=0)
    env.edit("tests.py")
    env.rm("lock")
    for _ in range(Terminal().max_turns - 2):
        env.run()
    assert env.submit() == "the episode is over"
    assert env.get_reward() == 0.0


def test_a_turn_without_a_call_breaks_and_fulfils_nothing() -> None:
    env = TerminalTools()
    env.reset(seed=0)
    assert env.calls == []
    env.rm("lock")
    assert {name: env.turn_columns[0][name] for name in env.turn_defaults} != env.turn_defaults
    assert (env.turn_defaults["violations"], env.turn_defaults["fulfilments"]) == (0, 0)


def test_a_tool_before_reset_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="reset"):
        TerminalTools().run()
