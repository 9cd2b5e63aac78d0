"""Blocks: each tag once, in order."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import tag_format
from apportion.rollouts import Level, Trajectory
from tests.rewards.builders import kinds, said, values
from tests.rewards.test_linear import seen


def form(text: str, **options: Any) -> Any:
    (verdict,) = seen(tag_format(**options), [said("earlier", text)])
    return verdict


@pytest.mark.parametrize(
    ("text", "value", "evidence"),
    [
        ("<think>a</think><think>b</think><answer>c</answer>", 0, "<think> stands there 2 times"),
        ("<think>a</think><answer>b</answer><answer>c</answer>", 0, "<answer> stands there 2 times"),
        ("<think>a<think>b</think></think><answer>c</answer>", 0, "<think> stands there 2 times"),
        ("<think>a</think>\n<answer>c</answer>", 1, "each tag once and in order"),
        ("hi <think>a</think><answer>c</answer>", 0, "text before <think>: 'hi'"),
        ("<think>a</think> so <answer>c</answer>", 0, "text before <answer>: 'so'"),
        ("<think>a</think><answer>c</answer> bye", 0, "text after </answer>: 'bye'"),
        ("<think>\nx\ny\n</think>\n<answer>\n4\n</answer>", 1, "each tag once and in order"),
        ("<answer>c</answer><think>a</think>", 0, "</think> is out of order"),
        ("<think>a<answer>c</think></answer>", 0, "</think> is out of order"),
        ("</think>a<think><answer>c</answer>", 0, "<think> is out of order"),
        ("<think>a</think>", 0, "<answer> is missing"),
        ("<think>a<answer>c</answer>", 0, "</think> is missing"),
        ("<Think>a</Think><answer>c</answer>", 0, "<think> is missing"),
        ("", 0, "<think> is missing"),
    ],
)
def test_strict_blocks(text: str, value: float, evidence: str) -> None:
    verdict = form(text)
    assert (verdict.value, verdict.evidence) == (value, evidence)


def test_lenient_blocks_allow_text_around() -> None:
    assert form("hi <think>a</think> so <answer>c</answer> bye", mode="lenient").value == 1
    assert form("<think>a</think><think>b</think><answer>c</answer>", mode="lenient").value == 0


def test_empty_blocks_may_be_refused() -> None:
    assert form("<think> </think><answer>c</answer>").value == 1
    assert form("<think> </think><answer>c</answer>", empty="refuse").evidence == "<think> is empty"


@given(st.lists(st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", "x", "\n"]), max_size=8))
def test_only_one_arrangement_passes(pieces: list[str]) -> None:
    tags = [piece for piece in pieces if piece.startswith("<")]
    right = tags == ["<think>", "</think>", "<answer>", "</answer>"]
    inside = "".join(pieces)
    clean = right and not (
        inside.split("<think>")[0].strip()
        or inside.split("</think>")[1].split("<answer>")[0].strip()
        or inside.split("</answer>")[1].strip()
    )
    assert form(inside).value == float(clean)
    assert form(inside, mode="lenient").value == float(right)


def test_hostile_text_costs_linear_time() -> None:
    started = time.process_time()
    form("<think>" * 200_000)
    form("<think>" + "<" * 1_000_000)
    assert time.process_time() - started < 2


def test_every_turn_may_be_looked_at() -> None:
    made = tag_format(["think"], level=Level.TURN)
    assert values(seen(made, [said("<think>a</think>", "b")])) == [1.0, 0.0]


def test_missing_text_and_broken_rollouts() -> None:
    tokens = Trajectory(id="r", group="q", response_ids=[1])  # type: ignore[arg-type]
    for level in (Level.TURN, Level.TRAJECTORY):
        with pytest.raises(MissingInput):
            tag_format(level=level).observe([tokens])
    assert kinds(seen(tag_format(), [said("half", status="aborted", error="lost")])) == "F"
    assert kinds(seen(tag_format(), [said("half", status="truncated")])) == "S"


@pytest.mark.parametrize(
    "options",
    [{"tags": []}, {"tags": ["a", "a"]}, {"tags": ["<a>"]}, {"tags": "think"}, {"mode": "loose"}, {"empty": "no"}],
)
def test_arguments_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        tag_format(**options)
