"""The game of 24, and exact arithmetic on what a policy wrote."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.rewards import final_answer, game24, outcome
from apportion.rewards.verifiers.arithmetic import NotArithmetic, evaluate, tokens
from apportion.verdicts import Failed, Scored
from tests.rewards.builders import said


@pytest.mark.parametrize(
    ("gold", "reply", "evidence"),
    [
        ("4 5 6 10", "Answer: (10 - 4) * 5 - 6 = 24", "right_answer"),
        ([4, 5, 6, 10], "Steps:\n10 - 4 = 6\nAnswer: (10 − 4) × 5 − 6", "right_answer"),
        ("3 3 8 8", "8 / (3 - 8 / 3) = 24", "right_answer"),
        ("3, 3, 8, 8", "8 ÷ [3 - 8 ÷ 3]", "right_answer"),
        # The expression counts, not what it is claimed to be.
        ("4 5 6 10", "(10 - 4) * 5 - 6 = 7", "right_answer"),
        ("4 5 6 10", "(10 - 6) * (5 - 4) = 24", "wrong_answer: '(10 - 6) * (5 - 4)' is 4, not 24"),
        ("4 5 6 10", "(6 - 4) * 10 + 5 = 24", "wrong_answer"),
        ("4 5 6 10", "(10 - 4) * 4 = 24", "wrong_numbers: '(10 - 4) * 4' uses 4 4 10, not 4 5 6 10"),
        ("4 5 6 10", "24", "wrong_numbers"),
        ("4 4 6 10", "(10 - 4) * 4 + 6", "wrong_answer"),
        ("1 2 3 4", "12 * 34", "wrong_numbers"),
        ("1 2 3 4", "1 2 3 4", "answer_unparsable: '2' is out of place"),
        ("1 2 3 4", "2 ** 3 * 4 - 1", "answer_unparsable: '*' is out of place"),
        ("1 2 3 4", "-1 + 2 + 3 + 4", "answer_unparsable: '-' is out of place"),
        ("2 2 3 6", "6 / (2 - 2) * 3", "answer_unparsable: division by zero"),
        ("1 2 3 4", "((1 + 2 + 3) * 4", "answer_unparsable: a bracket is not closed"),
        ("1 2 3 4", "(1 + 2 + 3) * 4)", "answer_unparsable: ')' is out of place"),
        ("1 2 3 4", "1 * 2 * 3 * 4 +", "answer_unparsable: an operand is missing at the end"),
        ("1 2 3 4", "1.0 * 2 * 3 * 4", "answer_unparsable: '1.0 * 2 * 3 * 4' is no number, sign or bracket"),
        ("1 2 3 4", "Answer: not possible", "answer_unparsable: 'not possible' is no number, sign or bracket"),
        ("1 2 3 4", "__import__('os').getpid()", "answer_unparsable"),
        ("1 2 3 4", "(" * 100 + "1", "wrong_numbers"),
        ("1 2 3 4", "1 * 2 * 3 * 4 " * 100, "answer_unparsable: longer than 500 characters"),
        ("1 2 3 4", "= 24", "wrong_numbers"),
        ("1 2 3 4", "", "no_answer_found"),
    ],
)
def test_replies(gold: object, reply: str, evidence: str) -> None:
    verdict = game24().verify(gold=gold, answer=reply)
    assert isinstance(verdict, Scored)
    assert verdict.evidence.startswith(evidence)
    assert verdict.value == (evidence == "right_answer")


@pytest.mark.parametrize("gold", ["", "four five", "1.5 2", "-1 2", [], ["4"], [True], [-1], 24, {"a": 1}])
def test_a_puzzle_without_numbers_is_a_fault_of_the_data(gold: object) -> None:
    verdict = game24().verify(gold=gold, answer="24")
    assert isinstance(verdict, Failed)
    assert verdict.error.startswith("gold_unparsable")


def test_other_targets_and_extractions() -> None:
    boxed = game24(target=10, answer=final_answer)
    assert boxed.verify(gold=[1, 2, 7], answer=r"So \boxed{1 + 2 + 7}.").value == 1  # type: ignore[union-attr]
    rollout = said("Answer: 4 * 6 = 24", reference="4 6")
    assert outcome(game24()).observe([rollout]) == [Scored(1.0, "right_answer: '4 * 6' is 24")]
    with pytest.raises(InvalidArgument, match="target"):
        game24(target=24.5)  # type: ignore[arg-type]


def test_deep_brackets_end() -> None:
    assert evaluate(tokens("(" * 40 + "1" + ")" * 40)) == 1
    with pytest.raises(NotArithmetic, match="nest too deeply"):
        evaluate(tokens("(" * 41 + "1" + ")" * 41))


@pytest.mark.parametrize("piece", ["1+", "(", "1/", "9" * 30 + "*", " ", "1 "])
def test_hostile_expressions_are_read_in_time(piece: str) -> None:
    started = time.process_time()
    game24().verify(gold="1 2 3 4", answer=piece * 100_000)
    assert time.process_time() - started < 2


# An expression as text, with its value and the numbers in it.
Tree = tuple[str, Fraction, list[int]]


@st.composite
def expressions(draw: st.DrawFn) -> Tree:
    trees: list[Tree] = [(str(n), Fraction(n), [n]) for n in draw(st.lists(st.integers(1, 13), min_size=1, max_size=5))]
    while len(trees) > 1:
        (a, x, used), (b, y, more) = trees.pop(), trees.pop()
        sign = draw(st.sampled_from("+-*/" if y else "+-*"))
        value = {"+": x + y, "-": x - y, "*": x * y}[sign] if sign != "/" else x / y
        trees.insert(0, (f"({a} {sign} {b})", value, used + more))
    return trees[0]


@given(expressions(), st.randoms())
def test_the_value_is_exact_and_the_numbers_come_in_any_order(tree: Tree, random: Any) -> None:
    text, value, numbers = tree
    assert evaluate(tokens(text)) == value
    random.shuffle(numbers)
    target = int(value) if value.denominator == 1 and value >= 0 else 10_000_000
    verdict = game24(target=target).verify(gold=numbers, answer=text)
    assert isinstance(verdict, Scored)
    assert verdict.value == (target == value)
    fewer = game24(target=target).verify(gold=[*numbers, 1], answer=text)
    assert isinstance(fewer, Scored)
    assert fewer.value == 0
