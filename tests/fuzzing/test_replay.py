"""Inputs that a coverage-guided fuzzer found interesting, and mutations of them, end without a surprise and in time."""

from __future__ import annotations

import contextlib
import json
import random
import time
from pathlib import Path

import pytest

from tests.fuzzing.targets import ALLOWED, TARGETS

CORPUS: dict[str, list[str]] = json.loads(Path(__file__).with_name("corpus.json").read_text(encoding="utf-8"))
SLOW = 2.0
PIECES = [
    "\0",
    "\x1b[2J",
    "\ud800",
    "\u202e",
    "[",
    "]",
    "{",
    "}",
    '"',
    "\\",
    "null",
    "1e999",
    "-1",
    "<tool_call>",
    "```",
    "\\boxed{",
    "(?:",
    "*",
    "{2,}",
    "Action:",
    "Action Input:",
    "<think>",
    "\n",
    " " * 300,
    "9" * 400,
]


def fed(name: str, text: str, folder: Path) -> None:
    started = time.process_time()
    with contextlib.suppress(*ALLOWED):
        TARGETS[name](text, folder)
    assert time.process_time() - started < SLOW, text


def mutated(text: str, chance: random.Random) -> str:
    at = chance.randint(0, len(text))
    upto = min(len(text), at + chance.randint(0, 9))
    repeated = text[at:upto] * chance.choice([0, 2, 60])
    return (text[:at] + chance.choice(["", repeated, chance.choice(PIECES)]) + text[upto:])[:6_000]


@pytest.mark.parametrize("name", TARGETS)
def test_kept_inputs(name: str, tmp_path: Path) -> None:
    assert CORPUS[name]
    for text in CORPUS[name]:
        fed(name, text, tmp_path)


@pytest.mark.parametrize("name", TARGETS)
def test_fresh_mutations(name: str, tmp_path: Path) -> None:
    chance = random.Random(name)
    for _ in range(40):
        fed(name, mutated(mutated(chance.choice(CORPUS[name]), chance), chance), tmp_path)
