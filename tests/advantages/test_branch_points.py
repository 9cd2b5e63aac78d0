"""Priorities of tokens, cut points and what lies between them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from apportion.advantages.branch_plan import branch_plan
from apportion.advantages.branch_points import candidates, hindsight_shift, window_entropy
from apportion.advantages.cuts import cut_points, cut_values
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal


def tokens(batch: Batch, *values: float | None) -> Signal:
    return Signal.of(batch, Level.TOKEN, values, name="x")


def outcome(batch: Batch, *values: float | None) -> Signal:
    return Signal.of(batch, Level.TRAJECTORY, values, name="outcome")


def test_the_place_is_before_the_token_in_the_response() -> None:
    b = Batch.of(groups=["q"] * 2, turns=[2, 1], tokens=[1, 2, 2], gaps=torch.tensor([3, 0, 0]), ids=["a", "b"])
    before, after = tokens(b, -0.1, -0.5, -0.3, -0.1, -0.1), tokens(b, -0.1, -2.0, -0.2, -0.1, None)
    found = candidates(hindsight_shift(before, after))
    assert [(c.parent, c.offset) for c in found] == [("a", 4), ("a", 5)]
    assert branch_plan(found, budget=3, gain="even", points=1).branches[0].offset == 4


def test_only_what_the_rollout_sampled_itself_is_resumed() -> None:
    b = Batch.of(groups=["q"], tokens=[4])
    owned = replace(b, own=torch.tensor([False, False, True, True]))
    assert [c.offset for c in candidates(tokens(owned, 1.0, 1.0, 1.0, 1.0))] == [2, 3]
    assert candidates(tokens(b, 1.0, 1.0, 1.0, 1.0), where=torch.tensor([True, False, False, False])) == []


def test_windows_start_at_boundaries_and_end_with_the_rollout() -> None:
    b = Batch.of(groups=["q"] * 2, tokens=[5, 2])
    h = tokens(b, 0.0, 0.2, 0.4, None, 1.0, 0.3, 0.3)
    p = window_entropy(h, vocabulary=2, every=2, window=2, base=0.1, gain=0.5)
    assert p.known.tolist() == [False, False, True, False, True, False, False]
    assert p.values[2] == pytest.approx(0.1 + 0.5 * (0.4 - 0.1) / math.log(2))
    assert p.values[4] == pytest.approx(0.1 + 0.5 * (1.0 - 0.1) / math.log(2))
    clipped = window_entropy(h, vocabulary=2, every=2, window=2, gain=50.0)
    assert clipped.values[4] == 1.0


def test_without_an_entropy_at_the_start_nothing_can_be_compared() -> None:
    b = Batch.of(groups=["q"], tokens=[4])
    assert not window_entropy(tokens(b, None, None, 0.4, 0.4), vocabulary=3, every=2, window=2).known.any()


def test_boundaries_are_counted_in_own_tokens() -> None:
    b = replace(Batch.of(groups=["q"], tokens=[5]), own=torch.tensor([False, True, True, True, True]))
    p = window_entropy(tokens(b, 9.0, 0.0, 0.0, 1.0, 1.0), vocabulary=3, every=2, window=1)
    assert p.known.tolist() == [False, False, False, True, False]


def test_every_fifth_unsure_token_is_a_cut() -> None:
    b = Batch.of(groups=["q"] * 2, tokens=[7, 2])
    unsure = tokens(b, *[-1.0] * 6, -0.01, None, -1.0)
    assert cut_points(unsure).nonzero().flatten().tolist() == [0, 5, 8]
    assert cut_points(unsure, every=2).nonzero().flatten().tolist() == [0, 2, 4, 8]
    assert not cut_points(tokens(b, *[-0.01] * 9)).any()


def test_the_credit_of_segments_sums_to_the_outcome_minus_the_first_value() -> None:
    b = Batch.of(groups=["q"] * 3, tokens=[4, 2, 3])
    values = tokens(b, None, 0.5, 0.75, 0.25, 0.4, None, None, None, None)
    credit = cut_values(values, outcome(b, 1.0, 0.0, 1.0)).difference
    assert credit.values.tolist() == pytest.approx([0.0, 0.25, -0.5, 0.75, -0.4, -0.4, 0.0, 0.0, 0.0])
    assert credit.known.tolist() == [False, True, True, True, True, True, False, False, False]
    assert credit.residual() <= 1e-12
    assert set(credit.terms) == {"x", "outcome"}


def test_an_unknown_outcome_leaves_the_last_segment_unknown() -> None:
    b = Batch.of(groups=["q"], tokens=[3])
    credit = cut_values(tokens(b, 0.5, 0.75, None), outcome(b, None)).difference
    assert credit.known.tolist() == [True, False, False]
    empty = Batch.of(groups=["q"], turns=[0], tokens=[])
    assert cut_values(tokens(empty), outcome(empty, 1.0)).difference.values.tolist() == []


def test_levels_and_numbers_are_checked() -> None:
    b = Batch.of(groups=["q"], tokens=[1])
    x, per = tokens(b, 0.0), outcome(b, 1.0)
    for call in (
        lambda: candidates(per),
        lambda: hindsight_shift(x, per),
        lambda: window_entropy(per, vocabulary=2),
        lambda: window_entropy(x, vocabulary=1),
        lambda: cut_points(per),
        lambda: cut_points(x, every=0),
        lambda: cut_values(x, x),
    ):
        with pytest.raises(InvalidArgument):
            call()
