"""Ragged kernels against plain loops, and their laws."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion import segments
from apportion.errors import InvalidArgument
from tests.strategies import masks

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=6)


def numbers(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def pieces(values: torch.Tensor, lengths: list[int]) -> list[list[float]]:
    return [part.tolist() for part in torch.split(values, lengths)]


@given(LENGTHS, st.sampled_from(["sum", "mean", "last", "min", "max"]))
def test_pool_is_the_loop(lengths: list[int], how: segments.PoolHow) -> None:
    values = numbers(sum(lengths))
    reduce = {
        "sum": sum,
        "mean": lambda v: sum(v) / len(v),
        "last": lambda v: v[-1],
        "min": min,
        "max": max,
    }[how]
    expected = torch.tensor([reduce(p) if p else 0.0 for p in pieces(values, lengths)], dtype=torch.float64)
    torch.testing.assert_close(segments.pool(values, torch.tensor(lengths), how), expected, rtol=1e-13, atol=1e-13)


def test_pool_keeps_whole_numbers_whole() -> None:
    pooled = segments.pool(torch.tensor([2, 3, 5]), torch.tensor([2, 0, 1]), "sum")
    assert pooled.dtype == torch.int64
    assert pooled.tolist() == [5, 0, 5]


@pytest.mark.parametrize("how", ["sum", "mean", "last", "min", "max"])
def test_pool_of_nothing_is_zero(how: segments.PoolHow) -> None:
    assert segments.pool(torch.zeros(0, dtype=torch.float64), torch.tensor([0, 0]), how).tolist() == [0.0, 0.0]


@given(LENGTHS, st.randoms(use_true_random=False))
def test_gathered_segments_are_the_chosen_ones(lengths: list[int], random: object) -> None:
    chosen = [i for i in range(len(lengths)) if i % 2 == 0]
    random.shuffle(chosen)  # type: ignore[attr-defined]
    values = numbers(sum(lengths))
    got = values[segments.gather_segments(torch.tensor(lengths), torch.tensor(chosen, dtype=torch.int64))]
    parts = pieces(values, lengths)
    assert got.tolist() == [value for i in chosen for value in parts[i]]


@given(LENGTHS)
def test_owners_and_starts_agree(lengths: list[int]) -> None:
    sizes = torch.tensor(lengths)
    owner = segments.owners(sizes)
    assert torch.bincount(owner, minlength=len(lengths)).tolist() == lengths
    for segment, start in enumerate(segments.starts(sizes).tolist()):
        assert owner[start : start + lengths[segment]].tolist() == [segment] * lengths[segment]


@given(masks())
def test_runs_rebuild_the_mask(mask: torch.Tensor) -> None:
    count, lengths, lead, gaps = segments.runs(mask != 0)
    first = segments.starts(count).tolist()
    for row, cells in enumerate(mask.tolist()):
        rebuilt = [0] * int(lead[row])
        for run in range(first[row], first[row] + int(count[row])):
            rebuilt += [1] * int(lengths[run]) + [0] * int(gaps[run])
        assert rebuilt == cells


@pytest.mark.parametrize("wrong", [[1.5], [-1], [1, 1], [[1]]])
def test_bad_lengths_are_named(wrong: list[object]) -> None:
    with pytest.raises(InvalidArgument, match="tokens"):
        segments.checked_lengths("tokens", torch.tensor(wrong), 1)


@pytest.mark.parametrize("wrong", [[True, False], [0, 0], [2], [-1], [0.0]])
def test_bad_positions_are_named(wrong: list[object]) -> None:
    with pytest.raises(InvalidArgument, match="index"):
        segments.checked_positions("index", torch.tensor(wrong), 2)


def test_no_position_is_a_choice_too() -> None:
    assert segments.checked_positions("index", [], 2).tolist() == []
