"""Answers in words: equal or overlapping after a normalisation that is stated."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.rewards import outcome, self_check, text_equal, text_f1, whole_text
from apportion.rewards.verifiers.texts import normalised
from apportion.verdicts import Failed, Scored
from tests.rewards.builders import said


@pytest.mark.parametrize(
    ("text", "steps", "result"),
    [
        ("The  Eiffel\tTower!", ["case", "punctuation", "articles"], "eiffel tower"),
        ("The Eiffel Tower!", [], "The Eiffel Tower!"),
        ("The Eiffel Tower!", ["articles"], "Eiffel Tower!"),
        ("don't", ["punctuation"], "dont"),
        ("Straße", ["case"], "strasse"),
        ("Café", ["accents"], "Cafe"),
        ("Café", ["case"], "café"),
        ("A an THE", ["articles"], ""),
        ("ﬁn", [], "fin"),
    ],
)
def test_each_step(text: str, steps: Any, result: str) -> None:
    assert normalised(text, steps) == result


@given(st.text(max_size=30), st.sets(st.sampled_from(["case", "punctuation", "articles", "accents"])))
def test_normalising_twice_is_normalising_once(text: str, steps: Any) -> None:
    once = normalised(text, steps)
    assert normalised(once, steps) == once


@pytest.mark.parametrize(
    ("gold", "reply", "f1"),
    [
        ("find flights to Oslo", "find flights to Oslo", 1.0),
        ("flights to Oslo", "find flights to Oslo", 6 / 7),
        ("Oslo Oslo", "Oslo", 2 / 3),
        ("Oslo", "Oslo Oslo", 2 / 3),
        ("Oslo", "Rome", 0.0),
        ("Oslo", "the a an", 0.0),
        (["Rome", "the city of Oslo"], "city of Oslo", 1.0),
        ("Oslo", "Answer: **Oslo**", 1.0),
        (7, "7", 1.0),
    ],
)
def test_f1(gold: object, reply: str, f1: float) -> None:
    verdict = text_f1().verify(gold=gold, answer=reply)
    assert isinstance(verdict, Scored)
    assert verdict.value == pytest.approx(f1, abs=1e-12)


def test_characters_where_there_are_no_blanks() -> None:
    by_words, by_characters = (
        text_f1(pieces=pieces).verify(gold="東京都", answer="東京") for pieces in ("words", "characters")
    )  # type: ignore[arg-type]
    assert isinstance(by_words, Scored)
    assert isinstance(by_characters, Scored)
    assert (by_words.value, by_characters.value) == (0.0, pytest.approx(0.8))


def test_equal_or_not() -> None:
    check = text_equal()
    assert check.verify(gold="Paris", answer="The paris.") == Scored(1.0, "right_answer: 'The paris.'")
    assert check.verify(gold="Paris", answer="Paris or Rome") == Scored(
        0.0, "wrong_answer: 'Paris or Rome', not 'Paris'"
    )
    assert check.verify(gold="Paris", answer="") == Scored(0.0, "no_answer_found (final_answer)")
    assert text_equal(normalise=[]).verify(gold="Paris", answer="paris").value == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("gold", ["", "the", "?!", [], ["Paris", "a"], None, {"a": 1}])
@pytest.mark.parametrize("check", [text_equal(), text_f1()])
def test_a_reference_without_words_is_a_fault_of_the_data(check: Any, gold: object) -> None:
    assert isinstance(check.verify(gold=gold, answer="Paris"), Failed)


@pytest.mark.parametrize("options", [{"normalise": ["lower"]}, {"normalise": "case"}, {"pieces": "tokens"}])
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        text_f1(**options)


WORDS = st.lists(st.sampled_from(["oslo", "rome", "sea", "sun"]), min_size=1, max_size=5).map(" ".join)


@given(WORDS, WORDS)
def test_f1_is_symmetric_and_full_only_for_the_same_words(one: str, two: str) -> None:
    check = text_f1(answer=whole_text)
    there, back = check.verify(gold=one, answer=two), check.verify(gold=two, answer=one)
    assert isinstance(there, Scored)
    assert isinstance(back, Scored)
    assert there.value == back.value
    assert (there.value == 1) == (sorted(one.split()) == sorted(two.split()))


def test_the_reference_itself_has_the_maximum() -> None:
    good, bad = said("find flights to Oslo", reference="find flights to Oslo"), said("no", id="b", reference="Oslo")
    assert self_check(outcome(text_f1()), good=[good], bad=[bad], best=1.0).ok
