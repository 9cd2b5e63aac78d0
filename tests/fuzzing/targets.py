"""What reads text from outside, the shell aside: a target takes one text and raises nothing but `ALLOWED`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

from apportion.errors import ApportionError
from apportion.integrations.actions import parse_actions
from apportion.integrations.files import native
from apportion.integrations.files.fields import FieldProblem
from apportion.integrations.files.reader import read
from apportion.integrations.strict_json import BadJson, decode, decode_row
from apportion.report.tokens import audit_tokens
from apportion.report.tokens.compare import drift
from apportion.rewards import answers, path
from apportion.rewards.patterns import Pattern
from apportion.rewards.schema import check_schema, problems
from apportion.rewards.toml_rules import rules_from_toml
from apportion.rewards.tool_effects import tool_effects
from apportion.rewards.verifiers import (
    call_match,
    choice_letter,
    game24,
    json_match,
    maths_text,
    text_equal,
    text_f1,
    written_in,
)
from apportion.rewards.verifiers.answer import final_answer, marked_answer
from apportion.rewards.verifiers.letter import chosen
from apportion.rollouts import Action, Trajectory, Turn
from apportion.verdicts import Scored

__all__ = ["ALLOWED", "TARGETS"]

# What readers raise by design; the last is what the harness itself meets where it needs JSON to begin with.
ALLOWED = (ApportionError, FieldProblem, BadJson, maths_text.Unreadable, json.JSONDecodeError)

Target = Callable[[str, Path], None]

_TURN = Turn(
    text="yes",
    actions=(Action("edit", {"path": "a.py", "n": 3}), Action("book", {})),
    observation="yes, confirm",
    columns={"ticket": {"status": "open"}},
)


def _saved(text: str, folder: Path, name: str) -> Path:
    file = folder / name
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    return file


def toml_rules(text: str, folder: Path) -> None:
    rules = rules_from_toml(_saved(text, folder, "rules.toml"))
    path(rules).observe([Trajectory(id="r", group="q", turns=[_TURN] * 3)])


def actions(text: str, folder: Path) -> None:
    for syntax in ("auto", "hermes", "react", "shell"):
        parse_actions(text, syntax)  # type: ignore[arg-type]


def openai_message(text: str, folder: Path) -> None:
    value = json.loads(text)
    parse_actions(value if isinstance(value, dict) else {"tool_calls": value})


def strict_json(text: str, folder: Path) -> None:
    decode(text)
    decode_row(text)


def verifiers(text: str, folder: Path) -> None:
    for verifier, gold in (
        (choice_letter(), "B"),
        (game24(), "4 5 6 10"),
        (json_match(), {"a": [1, {"b": 2}]}),
        (json_match(arrays="unordered"), [1, 2, [3]]),
        (text_equal(), "flights to Oslo"),
        (text_f1(), "flights to Oslo"),
    ):
        assert isinstance(verifier.verify(gold=gold, answer=text), Scored)
        verifier.verify(gold=text, answer="4")
    written_in("Latin").observe([Trajectory(id="r", group="q", turns=[Turn(text=text)])])


def maths(text: str, folder: Path) -> None:
    for reader in (final_answer, marked_answer, answers.last_number, answers.parse_number, answers.boxed):
        reader(text)
    chosen(text, "ABCD")
    clean = maths_text.clean(text)
    maths_text.inside(clean, "(", ")")
    maths_text.is_prose(clean)
    maths_text.unmarked(clean)
    maths_text.split(clean, re.compile(","))
    maths_text.number(clean)


def patterns(text: str, folder: Path) -> None:
    source, _, body = text.partition("\n")
    pattern = Pattern(source)
    pattern.found_in(body)
    pattern.found_in(body * 30)


def rollout_file(text: str, folder: Path) -> None:
    list(read(_saved(text, folder, "rollouts.jsonl"), on_error="skip", skipped=[]))


def sweagent_file(text: str, folder: Path) -> None:
    list(read(_saved(text, folder, "run.traj"), on_error="skip", skipped=[]))


def schema(text: str, folder: Path) -> None:
    value = json.loads(text)
    check_schema(value, "tool")
    for judged in (value, {"a": 1, "b": [1, "x"]}, "t", 3, None, [1, 1.0]):
        list(islice(problems(judged, value), 5))


def effects(text: str, folder: Path) -> None:
    tool_effects(json.loads(text))


def calls(text: str, folder: Path) -> None:
    gold, _, written = text.partition("\n")
    for order in ("parallel", "sequence"):
        for form in ("values", "alternatives"):
            matcher = call_match(order=order, form=form)  # type: ignore[arg-type]
            matcher.verify(gold=json.loads(gold), calls=parse_actions(written))


def tokens(text: str, folder: Path) -> None:
    value = json.loads(text)
    rows = [row for row in (value if isinstance(value, list) else [value]) if isinstance(row, dict)]
    given = [{"apportion": 1, "id": str(k), "group": "g", **row} for k, row in enumerate(rows[:4])]
    audit_tokens([trajectory for row in given for trajectory in native.from_row(row)], end_ids=[2])


def token_drift(text: str, folder: Path) -> None:
    one, _, other = text.partition("\n")
    drift([ord(char) for char in one], [ord(char) for char in other])


# In this order: the corpus names them by their place.
TARGETS: Mapping[str, Target] = {
    target.__name__: target
    for target in (
        toml_rules,
        actions,
        openai_message,
        strict_json,
        verifiers,
        maths,
        patterns,
        rollout_file,
        sweagent_file,
        schema,
        effects,
        calls,
        tokens,
        token_drift,
    )
}
