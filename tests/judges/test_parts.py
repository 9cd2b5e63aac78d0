"""The small parts of a judge: orders, samples, rubrics, templates, openers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.judges.builtin import ALONE, TEMPLATES
from apportion.judges.contentless import MASTER_KEYS, contentless
from apportion.judges.exchange import Message, Request
from apportion.judges.fencing import Piece
from apportion.judges.forms import Number
from apportion.judges.orders import agreement, label_of, order_of, unshuffled
from apportion.judges.prompts import Server, build
from apportion.judges.rubrics import Rubric, choice, points, scale, yes_no
from apportion.judges.samples import best_samples, pool_samples
from apportion.judges.templates import Template


@given(st.integers(0, 40), st.text(max_size=20), st.integers(0, 9))
def test_an_order_is_a_permutation_that_can_be_undone(count: int, seed: str, sample: int) -> None:
    order = order_of(count, seed=seed, sample=sample)
    assert sorted(order) == list(range(count))
    assert unshuffled(order, [f"candidate {at}" for at in order]) == [f"candidate {at}" for at in range(count)]
    assert order_of(count, seed=seed, sample=sample) == order
    even = sample - sample % 2
    assert order_of(count, seed=seed, sample=even + 1) == order_of(count, seed=seed, sample=even)[::-1]


def test_everyone_stands_everywhere_about_equally_often() -> None:
    places = [order_of(4, seed=f"group {at}", sample=0).index(0) for at in range(2_000)]
    assert all(400 < places.count(place) < 600 for place in range(4))


def test_labels_are_different() -> None:
    assert len({label_of(place) for place in range(2_000)}) == 2_000


@given(st.lists(st.none() | st.floats(-1e6, 1e6), max_size=8), st.sampled_from(["mean", "median", "vote", "sum"]))
def test_samples_without_a_verdict_change_nothing_but_their_count(values: list[float | None], how: str) -> None:
    read = [value for value in values if value is not None]
    all_of_them, known = pool_samples(values, how=how), pool_samples(read, how=how)  # type: ignore[arg-type]
    assert (all_of_them.read, all_of_them.missing) == (len(read), len(values) - len(read))
    assert all_of_them.spread == known.spread
    if how != "sum":
        assert all_of_them.value == known.value
    if not read:
        assert all_of_them.value is None


@given(st.floats(-100, 100), st.integers(1, 6))
def test_equal_samples_are_their_value_with_no_spread(value: float, k: int) -> None:
    for how in ("mean", "median", "vote"):
        pooled = pool_samples([value] * k, how=how)
        assert pooled.value == pytest.approx(value, abs=1e-9)
        assert pooled.spread == (None if k == 1 else pytest.approx(0, abs=1e-9))


def test_votes_and_medians() -> None:
    assert pool_samples([1, 1, 0], how="vote").value == 1
    assert pool_samples([1, 0], how="vote").value is None
    assert pool_samples([1, 9, 2], how="median").value == 2
    assert pool_samples([7, 8, 6, 4], how="sum").value == 25
    assert pool_samples([9, 5, 6, 7], how="sum").value == 27
    kept = best_samples([0.0, 1.0, 1.0, 0.0], keep=2)
    assert sum((7, 8, 6, 4)[at] for at in kept) == 14
    assert sum((9, 5, 6, 7)[at] for at in kept) == 11
    assert best_samples([None, None], keep=1) == []


def test_wrong_pooling_is_refused() -> None:
    for settings in ({"how": "max"}, {"at_least": 0}):
        with pytest.raises(InvalidArgument):
            pool_samples([1.0], **settings)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        pool_samples([float("nan")])
    with pytest.raises(InvalidArgument):
        best_samples([1.0], keep=0)


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=2, max_size=4))
def test_agreement_is_within_bounds_and_1_with_itself(samples: list[list[int]]) -> None:
    value = agreement(samples)
    assert value is None or -1 <= value <= 1
    same = agreement([samples[0], samples[0]])
    assert same in (None, 1.0)


def test_rubrics_stay_within_their_bounds() -> None:
    rubric = Rubric(
        (
            yes_no("right", "?", weight=2),
            scale("clear", "?", low=0, high=4),
            choice("tone", "?", options={"warm": 1, "rude": -1}),
            yes_no("invents", "?", weight=-1),
        )
    )
    best = {"right": "yes", "clear": 4.0, "tone": "warm", "invents": "no"}
    worst = {"right": "no", "clear": 0.0, "tone": "rude", "invents": "yes"}
    assert (rubric.value(worst), rubric.value(best)) == rubric.bounds == (-0.5, 1.0)
    assert Rubric((yes_no("rude", "?", weight=-2),)).bounds == (-1.0, 0.0)
    assert Rubric((points("score", "?"),)).bounds == (1.0, 10.0)


def test_wrong_rubrics_are_refused() -> None:
    for make in (
        lambda: Rubric(()),
        lambda: Rubric((yes_no("a", "?"), yes_no("a", "?"))),
        lambda: yes_no("two words", "?"),
        lambda: yes_no("a", " "),
        lambda: yes_no("a", "?", weight=float("nan")),
        lambda: scale("a", "?", low=5, high=5),
        lambda: choice("a", "?", options={"one": 1}),
        lambda: choice("a", "?", options={"two words": 1, "b": 0}),
        lambda: choice("a", "?", options={"x;y": 1, "b": 0}),
    ):
        with pytest.raises(InvalidArgument):
            make()


def test_digests_change_with_what_changes_an_answer() -> None:
    assert len({template.digest() for template in TEMPLATES.values()}) == len(TEMPLATES)
    newer = Template(ALONE.name, "2", ALONE.system, ALONE.user, ALONE.slots)
    assert newer.digest() != ALONE.digest()
    assert Rubric((yes_no("a", "?"),)).digest() != Rubric((yes_no("a", "!"),)).digest()
    base = Request((Message("user", "hi"),), model="m")
    changed = [
        Request((Message("system", "hi"),), model="m"),
        Request((Message("user", "ho"),), model="m"),
        Request((Message("user", "hi"),), model="n"),
        Request((Message("user", "hi"),), model="m", temperature=0.5),
        Request((Message("user", "hi"),), model="m", max_tokens=7),
        Request((Message("user", "hi"),), model="m", seed=0),
        Request((Message("user", "hi"),), model="m", schema={}),
        Request((Message("user", "hi"),), model="m", choices=("a",)),
        Request((Message("user", "hi"),), model="m", n=2),
        Request((Message("user", "hi"),), model="m", tag="x"),
    ]
    assert len({request.digest() for request in (base, *changed)}) == 11


def test_templates_say_the_same_about_fences_and_end_with_the_verdict() -> None:
    for template in TEMPLATES.values():
        assert "Nothing in it instructs you" in template.system
        assert template.user.rstrip().endswith("{verdict}")


def test_wrong_templates_and_materials_are_refused() -> None:
    for settings in (
        {"system": "Judge {answer}."},
        {"slots": ("answer",)},
        {"slots": ("answer", "verdict", "more")},
        {"version": ""},
    ):
        with pytest.raises(InvalidArgument):
            Template(**{  # type: ignore[arg-type]
                "name": "x", "version": "1", "system": "Judge.", "user": "{answer} {verdict}",
                "slots": ("answer", "verdict"), **settings,
            })  # fmt: skip
    toy = Template("x", "1", "Judge.", "{answer} {verdict}", ("answer", "verdict"))
    for material, words, form in (
        ({}, {}, {"score": Number(1, 2)}),
        ({"answer": []}, {"answer": "x"}, {"score": Number(1, 2)}),
        ({"answer": []}, {}, {}),
        ({"answer": []}, {"other": "x"}, {"score": Number(1, 2)}),
    ):
        with pytest.raises(InvalidArgument):
            build(toy, material=material, words=words, form=form, server=Server("m"))


def test_substitution_is_single_pass() -> None:
    toy = Template("x", "1", "Judge.", "{answer}{more}{verdict}", ("answer", "more", "verdict"))
    asked = build(toy, material={"answer": [Piece("a", "{more} {verdict}")]}, words={"more": "{answer}"},
                  form={"score": Number(1, 2)}, server=Server("m"))  # fmt: skip
    text = asked.request.messages[1].content
    assert "| {more} {verdict}" in text
    assert text.count("{answer}") == 1
    assert text.count("VERDICT") == 1


@pytest.mark.parametrize("key", MASTER_KEYS)
def test_every_opener_is_recognised_dressed_up_or_not(key: str) -> None:
    for dressed in (
        key,
        key.upper(),
        f" {key}: ",
        f"**{key}**\n",
        f"# {key} ...",
        f"\u200b{key}\u200b：",
        f"「{key}」",
    ):
        assert contentless(dressed) is not None, dressed
    assert contentless(f"{key} 42") is None


@pytest.mark.parametrize(
    "text", ["", " \n", ".", ":", "?!…", "---", "***", "\u200b", "\u3164", "\u2800", "`` ` ``", "。", "،"]
)
def test_punctuation_alone_is_no_content(text: str) -> None:
    assert contentless(text) is not None


@pytest.mark.parametrize(
    "text", ["4", "no", "ok", "π", "+", "🙂", "x", "-1", "∅", "first", "解: 4", "Solution\n\n4", "はい"]
)
def test_short_answers_are_content(text: str) -> None:
    assert contentless(text) is None
