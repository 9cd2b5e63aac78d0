"""The option that a reply chooses."""

from __future__ import annotations

import time

import pytest

from apportion.errors import InvalidArgument
from apportion.rewards import choice_letter
from apportion.rewards.verifiers.letter import chosen
from apportion.verdicts import Failed, Scored


@pytest.mark.parametrize(
    ("answer", "letters"),
    [
        ("B", "B"),
        ("b", "B"),
        ("(b)", "B"),
        ("B.", "B"),
        ("**B**", "B"),
        ("B) Oslo", "B"),
        ("B. Vitamin C", "B"),
        ("B - both of them", "B"),
        (r"\text{B}", "B"),
        (r"$\mathrm{(B)}$", "B"),
        ("the correct answer is (B)", "B"),
        ("Option C", "C"),
        ("A, C and D", "ACD"),
        ("A and C", "AC"),
        ("A dog", None),
        ("a dog", None),
        ("Bergen", None),
        ("B or C", None),
        ("B) or C)", None),
        ("(B) / (C)", None),
        ("E", None),
        ("A, E", None),
        ("", None),
        ("all of them", None),
    ],
)
def test_what_is_chosen(answer: str, letters: str | None) -> None:
    found = chosen(answer, "ABCD")
    assert found == (None if letters is None else frozenset(letters))


@pytest.mark.parametrize(
    ("gold", "reply", "verdict"),
    [
        ("B", "It lies in Norway.\nAnswer: (B) Oslo", Scored(1.0, "right_answer: 'B'")),
        ("b", r"\boxed{B}", Scored(1.0, "right_answer: 'B'")),
        ("(B)", r"\boxed{A}, no: \boxed{B}", Scored(1.0, "right_answer: 'B'")),
        ("B", "Answer: C", Scored(0.0, "wrong_answer: 'C', not 'B'")),
        ("B", "Answer: A, B", Scored(0.0, "wrong_answer: 'AB', not 'B'")),
        ("AB", "Answer: B, A", Scored(1.0, "right_answer: 'AB'")),
        (["A", "B"], "Answer: A", Scored(0.0, "wrong_answer: 'A', not 'AB'")),
        ("B", r"\boxed{B} or \boxed{C}", Scored(0.0, "no_answer_found (final_answer)")),
        ("B", "<think>Answer: B</think>", Scored(0.0, "no_answer_found (final_answer)")),
        ("B", "I cannot say", Scored(0.0, "no_answer_found: 'I cannot say' chooses no single option")),
        ("Oslo", "B", Failed("gold_unparsable: 'Oslo' is none of the options ABCD")),
        (1, "B", Failed("gold_unparsable: 1 is none of the options ABCD")),
        ("", "B", Failed("gold_unparsable: '' is none of the options ABCD")),
    ],
)
def test_replies(gold: object, reply: str, verdict: object) -> None:
    assert choice_letter().verify(gold=gold, answer=reply) == verdict


def test_more_options() -> None:
    assert choice_letter(options="ABCDEFGHIJ").verify(gold="J", answer="j") == Scored(1.0, "right_answer: 'J'")


@pytest.mark.parametrize("options", ["", "abcd", "ABCA", "A,B", "1234"])
def test_options_are_different_capital_letters(options: str) -> None:
    with pytest.raises(InvalidArgument, match="options"):
        choice_letter(options=options)


@pytest.mark.parametrize("piece", ["A ", "A, ", "(A) and ", "   ", r"\text{", "B or "])
def test_hostile_answers_are_read_in_time(piece: str) -> None:
    started = time.process_time()
    chosen(piece * 50_000 + "!", "ABCD")
    assert time.process_time() - started < 2
