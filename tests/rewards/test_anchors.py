"""Which turns started from the same state."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards.anchors import anchor, similarity
from apportion.rewards.codes import code_of
from apportion.rollouts import Trajectory, Turn
from apportion.verdicts import Abstained, Scored


def walk(*observations: str, group: str = "q", id: str = "r", before: str = "") -> Trajectory:
    messages = ({"role": "user", "content": before}, {"role": "assistant", "content": "go"}) if before else ()
    turns = tuple(Turn(observation=text) for text in observations)
    return Trajectory(id=id, group=group, turns=turns, messages=messages)


def codes(*trajectories: Trajectory, **options: object) -> list[list[float]]:
    seen = anchor(**options).observe(trajectories)  # type: ignore[arg-type]
    return [[cell.value for cell in row] for row in seen]  # type: ignore[union-attr]


def test_the_state_before_a_turn_is_what_answered_the_turn_before() -> None:
    (one, two) = codes(walk("b", "c", "end"), walk("d", "b", "end", id="s"))
    assert one == [code_of(""), code_of("b"), code_of("c")]
    assert two == [code_of(""), code_of("d"), code_of("b")]


def test_a_rollout_that_comes_back_to_where_it_began_meets_its_start() -> None:
    ((start, middle, again),) = codes(walk("hall", "kitchen", "end", before="kitchen"))
    assert start == again == code_of("kitchen") != middle


def test_evidence_is_the_state_in_words_and_short() -> None:
    (row,) = anchor().observe([walk("x" * 10_000, "end")])
    assert "xxx" in row[1].evidence  # type: ignore[index, union-attr]
    assert len(row[1].evidence) < 300  # type: ignore[index, union-attr]


def test_a_column_or_a_function_can_name_the_state() -> None:
    t = Trajectory(id="r", group="q", turns=(Turn(columns={"page": "/cart"}), Turn(columns={"page": 7}), Turn()))
    first, second, third = anchor(state="page").observe([t])[0]  # type: ignore[misc]
    assert (first, second) == (Scored(code_of("/cart"), "'/cart'"), Scored(code_of("7"), "'7'"))
    assert isinstance(third, Abstained)
    assert codes(t, state=lambda trajectory, k: "same") == [[code_of("same")] * 3]


def test_similar_states_of_a_group_share_the_first_ones_code() -> None:
    long, near, far = "a" * 99 + "b", "a" * 99 + "c", "a" * 50 + "d" * 50
    one, two = codes(walk(long, "x"), walk(near, far, "x", id="s"), match="similar")
    assert one[1] == two[1] == code_of(long)
    assert two[2] == code_of(far)
    other_group = codes(walk(long, "x"), walk(near, "x", group="p", id="s"), match="similar")
    assert other_group[1][1] == code_of(near)


def test_similarity_is_that_of_the_longest_common_subsequence() -> None:
    assert similarity("", "") == 1.0
    assert similarity("kitten", "sitting") == pytest.approx(8 / 13)
    assert similarity("ab", "ba") == 0.5
    assert similarity("ab", "ba", floor=0.6) is None
    assert similarity("a", "", floor=0.1) is None


def test_hostile_observations_cost_seconds_at_most() -> None:
    """The same letters in another order pass every cheap bound."""
    texts = ["".join(chr(97 + (i * (k + 3)) % 26) for i in range(1999)) for k in range(24)]
    start = time.monotonic()
    codes(walk(*texts, "x" * 1_000_000, "end"), match="similar")
    assert time.monotonic() - start < 10


def test_half_a_surrogate_pair_has_a_code_too() -> None:
    assert code_of("\ud83d") != code_of("\ud83c")


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="match"):
        anchor(match="fuzzy")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="at_least"):
        anchor(at_least=1.5)
    tokens = Trajectory(id="t", group="q", response_ids=[1, 2], policy=[1, 0])  # type: ignore[arg-type]
    with pytest.raises(MissingInput, match="table of turns"):
        anchor().observe([tokens])


@given(st.text("abc", max_size=40), st.text("abc", max_size=40), st.sampled_from([0.0, 0.3, 0.6, 0.95]))
def test_similarity_agrees_with_the_table_of_the_textbook(one: str, other: str, floor: float) -> None:
    best = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            best[i + 1][j + 1] = best[i][j] + 1 if a == b else max(best[i][j + 1], best[i + 1][j])
    total = len(one) + len(other)
    share = 2 * best[-1][-1] / total if total else 1.0
    assert similarity(one, other, floor=floor) == (pytest.approx(share) if share >= floor else None)
    assert similarity(one, other) == pytest.approx(similarity(other, one))
