"""Taking an answer out of a reply, and reading it as a number."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.rewards import after, boxed, in_tag, last_line, last_number, parse_number, whole_text
from apportion.rewards.answers import Extract

EXTRACTS: list[Extract] = [whole_text, last_line, last_number, boxed, after("####"), in_tag("answer")]


@pytest.mark.parametrize(
    ("extract", "text", "answer"),
    [
        (whole_text, "  ", None),
        (last_line, "a\n b \n\n", "b"),
        (last_line, "", None),
        (boxed, r"\boxed{61}. Check again." + "\n**Final Answer**\n" + r"\boxed{61}", "61"),
        (boxed, r"\boxed{3} no wait, \boxed{7}", "7"),
        (boxed, r"\boxed{\frac{1}{2}} and \boxed{", r"\frac{1}{2}"),
        (boxed, r"\boxed{a", None),
        (after("####"), "#### 17\n" + "done. " * 80, "17"),
        (after("Answer:"), "Answer: $13$", "$13$"),
        (after("####"), "The result is 17.", None),
        (last_number, "The result is 17.", "17"),
        (last_number, "We get 234 pairs. Thus **73**.", "73"),
        (last_number, "it is 2 2/3", "2 2/3"),
        (last_number, "1,234,567 of them", "1,234,567"),
        (last_number, "none", None),
        (in_tag("answer"), "<answer>1</answer> no <answer>2</answer>", "2"),
        (in_tag("answer"), "<answer>1</answer> <answer>", "1"),
        (in_tag("answer"), "</answer><answer>", None),
        (in_tag("answer"), "<answer> </answer>", None),
    ],
)
def test_extraction(extract: Extract, text: str, answer: str | None) -> None:
    assert extract(text) == answer


@pytest.mark.parametrize("extract", EXTRACTS)
@given(st.text(alphabet="<>/answer#boxed\\{}0123456789,. \n", max_size=60))
def test_extraction_never_raises_and_never_returns_blanks(extract: Extract, text: str) -> None:
    answer = extract(text)
    assert answer is None or answer.strip()


@pytest.mark.parametrize("piece", [r"\boxed{", "1,111", "<answer>", "</answer>", "####", "{", "1 ", "1/", "\n"])
@pytest.mark.parametrize("extract", EXTRACTS)
def test_extraction_is_fast_on_hostile_text(extract: Extract, piece: str) -> None:
    started = time.process_time()
    extract(piece * 50_000)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.5", Fraction(1, 2)),
        ("1/2", Fraction(1, 2)),
        ("-3", Fraction(-3)),
        ("−3", Fraction(-3)),
        ("1e3", Fraction(1000)),
        ("1{,}234", Fraction(1234)),
        ("$1234$", Fraction(1234)),
        ("$18.00", Fraction(18)),
        ("**73**", Fraction(73)),
        ("28\\%", Fraction(7, 25)),
        ("2 3/4", Fraction(11, 4)),
        ("-2 3/4", Fraction(-11, 4)),
        ("4 10/3", None),
        ("(1,234)", None),
        ("12,34", None),
        ("1/0", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("٣", None),
        ("1e999999999", None),
        ("9" * 1_000_000, None),
        ("seven", None),
    ],
)
def test_numbers(text: str, number: Fraction | None) -> None:
    assert parse_number(text) == number


@given(st.text(max_size=120))
def test_reading_a_number_never_raises(text: str) -> None:
    parse_number(text)


def test_empty_markers_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="marker"):
        after("")
    with pytest.raises(InvalidArgument, match="tag"):
        in_tag(" ")
