"""The script that a reply is written in, and expressions it holds."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import text_pattern, written_in
from apportion.rewards.verifiers.writing import script_of
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Scored
from tests.rewards.builders import kinds, said, values
from tests.rewards.test_linear import seen


@pytest.mark.parametrize(
    ("letters", "script"),
    [
        ("aZñßﬁ𝐀Ａ", "Latin"),
        ("жЯ", "Cyrillic"),
        ("漢字々", "Han"),
        ("あ", "Hiragana"),
        ("アｱ", "Katakana"),
        ("한", "Hangul"),
        ("αΩ", "Greek"),
        ("ع", "Arabic"),
        ("ह", "Devanagari"),
        ("7 .,!😀\u0301", None),
    ],
)
def test_scripts(letters: str, script: str | None) -> None:
    assert {script_of(letter) for letter in letters} == {script}


@pytest.mark.parametrize(
    ("scripts", "text", "share"),
    [
        (["Latin"], "all of it, 100 %", 1.0),
        (["Latin"], "abc漢", 0.75),
        (["Cyrillic"], "да `code` $x+y$ \\frac http://a.b/c", 1.0),
        (["Cyrillic"], "да\n```python\nprint(1)\n```\nнет", 1.0),
        (["Cyrillic"], "да\n```python\nprint(1)", 1.0),
        (["Han", "Hiragana", "Katakana"], "漢字とカナ", 1.0),
        (["Latin"], "漢字", 0.0),
        (["Latin"], "42", 1.0),
        (["Latin"], "", 1.0),
    ],
)
def test_share_of_letters(scripts: list[str], text: str, share: float) -> None:
    assert values(seen(written_in(*scripts), [said(text)])) == [share]


def test_code_counts_when_nothing_is_skipped() -> None:
    assert values(seen(written_in("Cyrillic", skip="nothing"), [said("да `ab`")])) == [0.5]


def test_turns_and_trajectories() -> None:
    rollout = said("abc", "漢", "7")
    assert values(seen(written_in("Latin", level=Level.TURN), [rollout])) == [1.0, 0.0, 1.0]
    assert seen(written_in("Latin"), [rollout]) == [Scored(0.75, "3 of 4 letters; also 1 Han")]
    assert kinds(seen(written_in("Latin"), [said("a", status="aborted", error="lost")])) == "F"
    assert values(seen(written_in("Latin"), [said()])) == [1.0]


@pytest.mark.parametrize(
    ("wanted", "values_per_turn", "value"), [("present", [1.0, 0.0], 1.0), ("absent", [0.0, 1.0], 0.0)]
)
def test_patterns(wanted: Any, values_per_turn: list[float], value: float) -> None:
    rollout = said("As an AI, no.", "Yes.")
    pattern = r"\bAs an AI\b"
    assert values(seen(text_pattern(pattern, wanted=wanted, level=Level.TURN), [rollout])) == values_per_turn
    assert values(seen(text_pattern(pattern, wanted=wanted), [rollout])) == [value]
    (told,) = seen(text_pattern(pattern, wanted=wanted), [said("Yes.")])
    assert told == Scored(float(wanted == "absent"), r"'\\bAs an AI\\b' is not there")
    assert kinds(seen(text_pattern(pattern), [said("a", status="aborted", error="lost")])) == "F"


@pytest.mark.parametrize("part", [written_in("Latin"), text_pattern("a")])
def test_what_they_are_and_need(part: Any) -> None:
    assert part.role == "shaping"
    with pytest.raises(MissingInput, match="text"):
        part.observe([Trajectory(id="r", group="q", response_ids=[1])])


@pytest.mark.parametrize(
    "make",
    [
        lambda: written_in(),
        lambda: written_in("English"),
        lambda: written_in("Latin", skip="all"),  # type: ignore[arg-type]
        lambda: written_in("Latin", name=""),
        lambda: text_pattern("("),
        lambda: text_pattern("(a+)+$"),
        lambda: text_pattern("a", wanted="maybe"),  # type: ignore[arg-type]
        lambda: text_pattern("a", level=Level.TOKEN),
    ],
)
def test_arguments_are_checked(make: Any) -> None:
    with pytest.raises(InvalidArgument):
        make()


@given(st.text(max_size=40))
def test_a_share_is_a_share(text: str) -> None:
    (value,) = values(seen(written_in("Latin"), [said(text)]))
    assert value is not None
    assert 0 <= value <= 1


@pytest.mark.parametrize("piece", ["```", "`", "$", "$$a", "\\a", "http://", "漢a", "``` a"])
def test_hostile_texts_are_read_in_time(piece: str) -> None:
    started = time.process_time()
    seen(written_in("Latin"), [said(piece * 50_000)])
    assert time.process_time() - started < 2
