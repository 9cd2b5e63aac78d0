"""What is written into dense scores comes back, and nobody else notices it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.integrations.verl.encoding import ABSENT, FAILED, Layout, carriers, decode, encode, entries, is_marker
from apportion.rollouts import Level
from apportion.verdicts import Abstained, Failed, Scored, Verdict

TURN, TRAJECTORY = Level.TURN, Level.TRAJECTORY
LAYOUT = Layout(names=("outcome", "start", "paid", "broken"), levels=(TRAJECTORY, TRAJECTORY, TURN, TURN), score=0)

values = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 2.0**-24, 1e6, 2.0**20, -1e150]),
    st.integers(2**20, 2**52).map(float),
    st.floats(-(2.0**20) + 1, 2.0**20 - 1, allow_nan=False, width=32),
)
verdicts = st.one_of(st.just(Abstained("-")), st.just(Failed("-")), values.map(Scored))


def same(read: Verdict, written: Verdict) -> bool:
    if not isinstance(written, Scored) or not isinstance(read, Scored):
        return type(read) is type(written)
    if abs(written.value) >= 2**20:
        return read.value == written.value
    return abs(read.value - written.value) <= max(2.0**-24, 1e-7 * abs(written.value))


@given(data=st.data(), kl=st.booleans(), score=st.floats(-100, 100, width=32))
def test_verdicts_survive_the_trip(data: st.DataObject, kl: bool, score: float) -> None:
    turns = data.draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=4))
    mask = np.concatenate([np.repeat([True, False], pair) for pair in turns])
    rows: list[list[Verdict]] = [
        data.draw(st.lists(verdicts, min_size=n, max_size=n)) for n in (1, 1, len(turns), len(turns))
    ]
    outcome = rows[0][0]
    shown = score if isinstance(outcome, Scored) else 0.0
    rows[0] = [Scored(score)] if isinstance(outcome, Scored) else [outcome]
    size = 1 + sum(len(entries(v)) for row in rows for v in row)
    closing = max(0, size - carriers(mask, kl_in_reward=kl).size)
    mask = np.concatenate([mask, np.zeros(closing, bool)])
    dense = torch.from_numpy(encode(LAYOUT, rows, score=shown, mask=mask, kl_in_reward=kl))
    assert dense.dtype == torch.float32
    assert float(dense.sum()) == pytest.approx(shown, abs=1e-20)
    penalty = torch.where(torch.from_numpy(mask), 0.01, 0.0) if kl else torch.zeros(mask.size)
    received = (dense - 0.5 * penalty)[None]
    scores, (carried,) = decode(LAYOUT, received, Batch.from_mask(torch.from_numpy(mask)[None], ["q"]))
    expected = shown - (0.5 * 0.01 * mask.sum() if kl else 0.0)
    assert scores == [pytest.approx(expected, rel=1e-5, abs=1e-5)]
    assert isinstance(carried, list)
    if isinstance(outcome, Scored):
        rows[0] = [Scored(scores[0])]
    assert [len(row) for row in carried] == [len(row) for row in rows]
    assert all(same(a, b) for got, put in zip(carried, rows, strict=True) for a, b in zip(got, put, strict=True))


@pytest.mark.parametrize(("marker", "kind"), [(ABSENT, Abstained), (FAILED, Failed)])
def test_a_lone_marker_is_a_missing_verdict(marker: float, kind: type) -> None:
    only = Layout(names=("outcome",), levels=(TRAJECTORY,), score=0)
    rewards = torch.tensor([[0.0, 0.0, marker], [0.0, 0.5, 0.0]])
    scores, carried = decode(only, rewards, Batch.from_mask(torch.ones(2, 3), ["q", "q"]))
    assert scores == [0.0, 0.5]
    assert isinstance(carried[0], kind)
    assert carried[1] is None


def test_markers_are_float32_numbers_that_add_nothing() -> None:
    for marker in (ABSENT, FAILED):
        assert float(np.float32(marker)) == marker
        assert float(np.float32(1e-30) + np.float32(marker)) == np.float32(1e-30)
        assert is_marker(float(torch.tensor(marker)))


def test_scores_of_other_observers_are_refused() -> None:
    mask = np.array([True, False, False, True, False, False, False])
    other = Layout(names=("outcome", "paid"), levels=(TRAJECTORY, TURN), score=0)
    mine = Layout(names=("outcome", "seen"), levels=(TRAJECTORY, TURN), score=0)
    rows: list[list[Verdict]] = [[Scored(1.0)], [Scored(1.0), Scored(2.0)]]
    dense = torch.from_numpy(encode(other, rows, score=1.0, mask=mask, kl_in_reward=True))[None]
    with pytest.raises(InvalidArgument, match="verdicts of outcome, seen; rows 0 carry those of another recipe"):
        decode(mine, dense, Batch.from_mask(torch.from_numpy(mask)[None], ["q"]))


def test_a_mask_that_changed_is_refused() -> None:
    mask = np.array([True, True, True, False, True, False, False])
    layout = Layout(names=("outcome", "paid"), levels=(TRAJECTORY, TURN), score=0)
    dense = encode(layout, [[Scored(1.0)], [Scored(1.0)] * 2], score=1.0, mask=mask, kl_in_reward=False)
    split = torch.tensor([[1, 0, 1, 0, 1, 0, 0]])
    with pytest.raises(InvalidArgument, match="splits turns"):
        decode(layout, torch.from_numpy(dense)[None], Batch.from_mask(split, ["q"]))


def test_too_few_tokens_are_refused() -> None:
    layout = Layout(names=("outcome", "paid"), levels=(TRAJECTORY, TURN), score=0)
    with pytest.raises(InvalidArgument, match="2 more tokens to carry verdicts"):
        encode(
            layout,
            [[Scored(1.0)], [Scored(1.0)]],
            score=1.0,
            mask=np.array([True, True, False]),
            kl_in_reward=True,
        )


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused_by_row(bad: float) -> None:
    only = Layout(names=("outcome",), levels=(TRAJECTORY,), score=0)
    rewards = torch.tensor([[0.0, 1.0], [0.0, bad]])
    with pytest.raises(InvalidArgument, match=r"finite numbers; rows 1; .*FAILED"):
        decode(only, rewards, Batch.from_mask(torch.ones(2, 2), ["q", "q"]))
