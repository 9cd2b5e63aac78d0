"""Two rows side by side."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.report.tokens import carry_mask, common_prefix, differences, drift, supervised_ids
from apportion.rollouts import Trajectory

ROWS = st.lists(st.integers(0, 4), max_size=40)


def test_text_between_two_turns_loses_what_was_sampled() -> None:
    # he + llo were sampled; encoded again they are one token.
    row = Trajectory(id="r", group="q", prompt_ids=[7], response_ids=[1, 2, 9], policy=[1, 1, 0])
    assert row.prompt_ids is not None
    assert row.response_ids is not None
    recorded = [*row.prompt_ids.tolist(), *row.response_ids.tolist()]
    found = drift(recorded, [7, 3, 9])
    assert found is not None
    assert (found.start, recorded[found.start : found.stop]) == (1, [1, 2])
    assert carry_mask(recorded, [0, 1, 1, 0], [7, 3, 9]).tolist() == [False, False, False]


def test_an_inserted_block_has_no_mask() -> None:
    found = drift([60, 61, 99], [50, 51, 60, 61, 99])
    assert found is not None
    assert (found.start, found.stop, found.other_start, found.other_stop) == (0, 0, 0, 2)
    assert carry_mask([60, 61, 99], [1, 1, 1], [50, 51, 60, 61, 99]).astype(int).tolist() == [0, 0, 1, 1, 1]


def test_a_merged_boundary_keeps_every_token_of_the_answer() -> None:
    prompt, full = [5, 6, 198], [5, 6, 271, 40, 41, 99]
    assert common_prefix(prompt, full) == 2
    assert supervised_ids(prompt, full, on_mismatch="common-prefix").tolist() == [271, 40, 41, 99]
    assert len(full) - len(prompt) == 3  # what counting would train


@pytest.mark.parametrize("full", [[1, 2, 9, 4, 5], [1, 2]])
def test_a_prompt_that_is_no_prefix_is_refused_with_the_index(full: list[int]) -> None:
    with pytest.raises(InvalidArgument, match="first difference at index 2"):
        supervised_ids([1, 2, 3], full)


def test_a_prompt_that_is_a_prefix_needs_no_choice() -> None:
    assert supervised_ids([1, 2], [1, 2, 3]).tolist() == [3]
    assert supervised_ids([], [3]).tolist() == [3]
    with pytest.raises(InvalidArgument, match="on_mismatch"):
        supervised_ids([1], [1], on_mismatch="cut")  # type: ignore[arg-type]


def test_rows_are_flat_lists_of_ids() -> None:
    for bad in ([[1]], [0.5], ["a"]):
        with pytest.raises(InvalidArgument):
            drift(bad, [1])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="2 recorded"):
        carry_mask([1, 2], [1], [1, 2])


@given(ROWS, ROWS)
def test_differences_rebuild_the_other_row(a: list[int], b: list[int]) -> None:
    built: list[int] = []
    i = 0
    for d in differences(a, b):
        assert i <= d.start <= d.stop
        assert a[d.start : d.stop] != b[d.other_start : d.other_stop]
        built += a[i : d.start] + b[d.other_start : d.other_stop]
        i = d.stop
    assert built + a[i:] == b
    assert (drift(a, b) is None) == (a == b)
    carried = carry_mask(a, [1] * len(a), b)
    assert carried.sum() <= min(len(a), len(b))
    assert set(np.asarray(b, dtype=int)[carried]) <= set(a)
    assert not carry_mask(a, [0] * len(a), b).any()


def test_a_long_gap_is_bridged() -> None:
    a = list(range(20_000))
    b = a[:100] + a[9_000:]
    (found,) = differences(a, b)
    assert (found.start, found.stop, found.other_start, found.other_stop) == (100, 9_000, 100, 100)


def test_rows_that_never_meet_again_take_no_time() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, 60_000), rng.integers(0, 2, 60_000)
    start = time.perf_counter()
    assert drift(a, rng.integers(5, 9, 60_000)) is not None
    assert sum(1 for _ in differences(a, b)) > 100
    assert time.perf_counter() - start < 20


def test_blocks_that_repeat_themselves_take_no_time() -> None:
    apart = [range(100 + k * 10, 108 + k * 10) for k in range(200)]
    ours = [token for anchor in apart for token in [*[0, 1, 2] * 80, *anchor]]
    theirs = [token for anchor in apart for token in [*[0, 2, 1] * 80, *anchor]]
    started = time.process_time()
    assert len(list(differences(ours, theirs))) == 200
    assert time.process_time() - started < 2
