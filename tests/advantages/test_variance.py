"""Shares of variance: exact zeros for dead parts, no data where nothing moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import group_statistics, normalize_then_sum, variance_shares
from apportion.batch import Batch
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.strategies import batches, signals


def parts(*columns: list[float | None]) -> list[Signal]:
    batch = Batch.of(groups=["q"] * len(columns[0]))
    return [Signal.of(batch, Level.TRAJECTORY, column, name=f"r{i}") for i, column in enumerate(columns)]


def test_a_sparse_part_beside_dense_ones() -> None:
    letters, words, game = parts([0.36, 0.52, 0.48, 1.0], [0.1, 0.2, 0.2, 1.0], [0, 0, 0, 1])
    shares = variance_shares(letters + words + game)
    assert shares is not None
    # Squares 0.238, 0.5275, 0.75 and products 0.351 (letters, words), 0.41 (letters, game), 0.625 (words, game).
    assert shares == pytest.approx({"r0": 0.999 / 4.2875, "r1": 1.5035 / 4.2875, "r2": 1.785 / 4.2875})
    assert sum(shares.values()) == pytest.approx(1.0)


def test_a_constant_part_has_exactly_nothing() -> None:
    letters, words, game = parts([0.36, 0.52, 0.48], [0.1, 0.2, 0.2], [0, 0, 0])
    shares = variance_shares(letters + words + game)
    assert shares is not None
    assert shares["r2"] == 0.0
    credit = normalize_then_sum([letters, words, game])
    assert credit.ledger()["r2"].tolist() == [0.0] * 3
    assert (variance_shares(credit) or {})["r2"] == 0.0


def test_only_differences_inside_groups_count() -> None:
    x = rewards_signal([1.0, 0.0, 11.0, 10.0], groups=list("aabb"), name="x")
    between = Signal.of(x.batch, Level.TRAJECTORY, [0.0, 0.0, 7.0, 7.0], name="between")
    assert variance_shares(x + between) == {"x": pytest.approx(1.0), "between": 0.0}


def test_a_part_that_works_against_the_others_is_negative() -> None:
    for_it, against = parts([1.0, 0.0], [-0.25, 0.0])
    assert variance_shares(for_it + against) == pytest.approx({"r0": 4 / 3, "r1": -1 / 3})


@pytest.mark.parametrize("rewards", [[None, None], [1.0], [0.1] * 8, [None, 2.0]])
def test_no_data_is_not_zero(rewards: list[float | None]) -> None:
    assert variance_shares(rewards_signal(rewards)) is None


def test_missing_values_have_no_share() -> None:
    seen, partly = parts([1.0, 0.0, 5.0], [0.0, 1.0, 3.0])
    gone = (seen + partly).masked(seen.values < 4)
    assert variance_shares(gone) is None
    assert variance_shares((seen + 2 * partly).masked(seen.values < 4)) == pytest.approx({"r0": -1.0, "r1": 2.0})


@given(st.data(), batches(tokens=None))
def test_shares_sum_to_one(data: st.DataObject, batch: Batch) -> None:
    a = data.draw(signals(batch, Level.TRAJECTORY, "a"))
    b = data.draw(signals(batch, Level.TURN, "b", failed=True))
    x = a + 0.3 * b
    shares = variance_shares(x)
    if shares is None:
        assert group_statistics(x).constant.all()
    elif float(group_statistics(x).squares.max()) > 1e-6:
        assert sum(shares.values()) == pytest.approx(1.0, abs=1e-6 * max(1.0, *map(abs, shares.values())))
