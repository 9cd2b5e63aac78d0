"""Where the final answer of a reply stands."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.rewards import final_answer, json_text, marked_answer, spoken

EXTRACTS: list[Callable[[str], str | None]] = [final_answer, marked_answer, json_text]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("plain", "plain"),
        ("<think>a</think>b", "b"),
        ("the template opened it</think>b", "b"),
        ("<think>never closed 4", ""),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<Thinking>a</THINKING> b", " b"),
        ("", ""),
    ],
)
def test_what_was_only_thought_is_not_said(text: str, left: str) -> None:
    assert spoken(text) == left


@pytest.mark.parametrize(
    ("text", "marked", "final"),
    [
        (r"So \boxed{61}. Check again." + "\n**Final Answer**\n" + r"\boxed{61}", "61", "61"),
        (r"\boxed{3} no wait, \boxed{7}", "7", "7"),
        (r"\boxed{3}. Checking once more. \boxed{7}", "7", "7"),
        (r"\boxed{3} or \boxed{7}", None, None),
        (r"either \boxed{3} or maybe \boxed{7}", None, None),
        (r"\boxed{3} / \boxed{7}", None, None),
        (r"\boxed{3}, or rather \boxed{7}", "7", "7"),
        (r"\boxed{3} or, written out, \boxed{3}", "3", "3"),
        (r"$\boxed{3}$ and $\boxed{7}$", "3, 7", "3, 7"),
        (r"\boxed{1}. \boxed{3}, \boxed{7}", "3, 7", "3, 7"),
        (r"\boxed{\text{so }\boxed{5}}", r"\text{so }\boxed{5}", r"\text{so }\boxed{5}"),
        (r"\boxed{\frac{1}{2}} and \boxed{", r"\frac{1}{2}", r"\frac{1}{2}"),
        ("an open { brace\n" + r"\boxed{4}", "4", "4"),
        (r"\boxed{}", None, None),
        (r"<think>\boxed{4}</think> I do not know", None, "I do not know"),
        (r"<think>is it \boxed{4}", None, None),
        ("#### 17\n" + "done. " * 80, "17", "17"),
        ("Answer: $13$", "$13$", "$13$"),
        ("**Final Answer:** 5", "5", "5"),
        ("Work. The answer is 5", "5", "5"),
        ("Answer: 4\nNo. Answer: 5\nbye", "5", "5"),
        ("The result is 17.", None, "The result is 17."),
        ("We get 234 pairs. Thus **73**.", None, "73"),
        ("So\n2 2/3\n", None, "2 2/3"),
        ("I answered this question before", None, "I answered this question before"),
        ("", None, None),
    ],
)
def test_answers(text: str, marked: str | None, final: str | None) -> None:
    assert (marked_answer(text), final_answer(text)) == (marked, final)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ('```\n{"a": 1}\n```\nor\n```json\n{"a": 2}\n```', '{"a": 2}'),
        ('```{"a": 1}```', '{"a": 1}'),
        ("<think>```json\n1\n```</think>2", "2"),
        ("``` ```", None),
        ("``` only one", "``` only one"),
        (" ", None),
    ],
)
def test_json_text(text: str, found: str | None) -> None:
    assert json_text(text) == found


@pytest.mark.parametrize("extract", EXTRACTS)
@given(st.text(alphabet="<>/think answer:#boxed\\{}*`0123,.\n", max_size=80))
def test_never_blank(extract: Callable[[str], str | None], text: str) -> None:
    answer = extract(text)
    assert answer is None or answer.strip()


@pytest.mark.parametrize(
    "piece",
    [
        r"\boxed{",
        r"\boxed{1}",
        r"\boxed{\boxed{1}}",
        r"\boxed{1} or ",
        "<think>",
        "**",
        "**a",
        "answer: ",
        "#",
        "`" * 3,
    ],
)
@pytest.mark.parametrize("extract", EXTRACTS)
def test_hostile_text_is_read_in_time(extract: Callable[[str], str | None], piece: str) -> None:
    started = time.process_time()
    extract(piece * 20_000)
    assert time.process_time() - started < 2
