"""Regular expressions over hostile text: refused when they could run for ever, fast otherwise."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.rewards.patterns import Pattern


@pytest.mark.parametrize(
    "source",
    [
        r"(a+)+$",
        r"(a*)*",
        r"(?:foo|bar)+",
        r"(?P<x>a?){50}a",
        r"((ab)*c)+",
        r"([ab]*\.)*x",
        r"(x{2,9}){2,9}",
        r".*a.*b.*",
        r"\s+\w+\s+",
        r".{0,500}.{0,500}.{0,500}x",
        r"(?:a{0,3}){20}b",
        r"a?a?a?a?a?a?a?a?a?a?a?a?aaaaaaaaaaaa",
        r"a{0,32}a{0,32}a{0,32}b",
        r"(?:a|b|ab)(?:a|b|ab)(?:a|b|ab)(?:a|b|ab)(?:a|b|ab)(?:a|b|ab)(?:a|b|ab)c",
        r"a?a?a?a?a?a?a*b",
        r"\w*\w*\w{0,31}!",
        r"(unclosed",
        "",
    ],
)
def test_dangerous_or_broken_patterns_are_refused(source: str) -> None:
    with pytest.raises(InvalidArgument, match="matches"):
        Pattern(source)


@pytest.mark.parametrize(
    "source",
    [
        r"rm\s+-rf",
        r"(ab)+",
        r"(?:foo|bar)",
        r"[*+]{2}",
        r"\(a\+\)+",
        r"a{2,3}",
        r"x?y",
        r"[]*+]+",
        r"[^]+]*",
        r"(a|b)?c",
        r"(?i)\b(book|buy|reserve)\b.*\b(flight|hotel)\b",
        r"[0-9a-f]{8}-[0-9a-f]{4}",
        r"\w{1,32}-\w{1,32}",
    ],
)
def test_ordinary_patterns_are_taken(source: str) -> None:
    assert Pattern(source).source == source


@given(st.text(alphabet="ab-", max_size=30), st.sampled_from([r"a+b", r"^a", r"b$", r"a-.*b", r"\bab\b"]))
def test_short_text_is_searched_whole(text: str, source: str) -> None:
    assert Pattern(source).found_in(text) == (re.search(source, text) is not None)


@given(st.integers(0, 45_000), st.sampled_from([r"evil", r"ev\w+l", r"e.*vi?l"]))
def test_padding_hides_nothing(at: int, source: str) -> None:
    assert Pattern(source).found_in(" " * at + "evil" + " " * (45_000 - at))


@pytest.mark.parametrize("source", [r"\.py$", r"a(?!b)", r"^x"])
def test_the_cut_of_a_window_is_not_the_end_of_the_text(source: str) -> None:
    hits = {r"\.py$": ".py", r"a(?!b)": "ab", r"^x": "x"}
    for at in (9_990, 9_997, 9_998, 9_999, 10_000, 19_997, 19_998, 19_999, 20_000, 24_998, 29_997):
        assert not Pattern(source).found_in("-" * at + hits[source] + "b" + "-" * 20_000)
    assert Pattern(r"\.py$").found_in("-" * 50_000 + ".py")


@pytest.mark.parametrize(
    ("source", "piece"), [(r"rm.*-rf.*/$", "rm-rf"), (r".*a.*b", "a"), (r"a.*b", "a"), (r"\w+x", "a"), (r"(a|b)c", "a")]
)
def test_the_worst_text_of_a_long_argument_is_searched_in_time(source: str, piece: str) -> None:
    text = piece * (15_000 // len(piece))
    started = time.process_time()
    assert not Pattern(source).found_in(text)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("source", "length"),
    [(r"a++b", 50_000), (r"a*?a*?b", 4_000), (r"\w{1,32}\w{1,32}!", 9_000), (r"a?a?a?a?a?a*b", 9_000)],
)
def test_the_worst_text_of_any_length_is_searched_in_time(source: str, length: int) -> None:
    started = time.process_time()
    assert not Pattern(source).found_in("a" * length)
    assert time.process_time() - started < 5
