"""Temporal differences: worked numbers, laws, and what is missing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import return_to_go
from apportion.advantages.states import StateValues, state_values
from apportion.advantages.td import Window, td
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Presence
from tests.strategies import batches, signals


def potential(*rows: list[float | None], name: str = "phi") -> StateValues:
    """One trajectory per row: Phi_0, Phi_1, ..."""
    b = Batch.of(groups=["q"] * len(rows), turns=[len(row) - 1 for row in rows])
    start = Signal.of(b, Level.TRAJECTORY, [row[0] for row in rows], name=name)
    return state_values(start, Signal.of(b, Level.TURN, [phi for row in rows for phi in row[1:]], name=name))


# ------------------------------------------------------------------------------------------------ the worked numbers

GAPS = [math.log(2.1 / (0.1 + loss)) for loss in (2.0, 1.0, 1.0, 0.4)]


def test_gap_differences_in_windows() -> None:
    v = potential(GAPS)
    assert td(v).values.tolist() == pytest.approx([0.6466, 0.0, 0.7885], abs=1e-4)
    window = td(v, lam=0.8, n_step=3, window="normalised")
    assert window.values.tolist() == pytest.approx([0.4718, 0.3504, 0.7885], abs=1e-4)


@pytest.mark.parametrize(
    ("outcome", "n_step", "expected"),
    [
        (1.0, 3, [1.2992, 1.3261, 1.4777]),
        (-1.0, 3, [-1.1104, -1.1859, -1.1623]),
        # A window of two does not reach the end from the first step: 1 + 0.2 * 0.3592.
        (1.0, 2, [1.07184, 1.3261, 1.4777]),
        # Without a window only the last step has what follows it.
        (1.0, 0, [1.0, 1.0, 1.32]),
    ],
)
def test_the_outcome_fills_windows_that_reach_the_end(outcome: float, n_step: int, expected: list[float]) -> None:
    v = potential(GAPS)
    a = Signal.of(v.after.batch, Level.TRAJECTORY, [outcome], name="outcome")
    made = a + 0.2 * td(v, lam=0.8, n_step=n_step, window="normalised", fill=2.0 * a)
    assert made.values.tolist() == pytest.approx(expected, abs=1e-4)
    assert made.check().ledger()["phi"].tolist() == pytest.approx(
        (0.2 * td(v, lam=0.8, n_step=n_step, window="normalised")).values.tolist()
    )


def test_shaping_with_a_worthless_end() -> None:
    v = potential([0.0, 0.3, 0.3])
    shaped = td(v, discount=0.9, terminal="zero")
    assert shaped.values.tolist() == pytest.approx([0.27, -0.3])
    assert float(return_to_go(shaped, discount=0.9).values[0]) == pytest.approx(0.0)


def test_shaping_whose_end_is_a_state_of_its_own() -> None:
    # F = [.27, -.03, -.3]: the third step enters the terminal state.
    v = potential([0.0, 0.3, 0.3, None])
    assert td(v, discount=0.9, terminal="zero").values.tolist() == pytest.approx([0.27, -0.03, -0.3])


def test_monte_carlo_values_with_the_outcome_at_the_end() -> None:
    v = potential([0.5, 0.75, 0.25, 0.0])
    reward = Signal.of(v.after.batch, Level.TURN, [0.0, 0.0, 1.0], name="outcome")
    made = td(v, reward=reward)
    assert made.values.tolist() == pytest.approx([0.25, -0.5, 0.75])
    assert float(made.values.sum()) == pytest.approx(1.0 - 0.5)


# ---------------------------------------------------------------------------------------------------- against loops


def reference(
    v: StateValues, r: Signal | None, discount: float, lam: list[float], n: int | None, window: Window
) -> list:
    """What `td` says, one element after the other; None where it is absent."""
    b, level = v.after.batch, v.after.level
    row = b.owner(level, Level.TRAJECTORY).tolist()
    spoken = set() if r is None else {row[k] for k in range(len(row)) if r.known[k]}
    delta: list[float | None] = []
    for k in range(len(row)):
        fine = bool(v.before.known[k] and v.after.known[k])
        if r is not None:
            fine = fine and int(r.presence[k]) != Presence.FAILED and row[k] in spoken
        gain = 0.0 if r is None else float(r.values[k])
        delta.append(gain + discount * float(v.after.values[k]) - float(v.before.values[k]) if fine else None)
    found: list[float | None] = []
    for k in range(len(row)):
        if delta[k] is None:
            found.append(None)
            continue
        steps = [delta[j] for j in range(k, len(row)) if row[j] == row[k] and delta[j] is not None][:n]
        weights = [(discount * lam[row[k]]) ** j for j in range(len(steps))]
        total = sum(w * d for w, d in zip(weights, steps, strict=True))
        found.append(total / sum(weights) if window == "normalised" and steps else total)
    return found


@given(st.data(), batches(), st.sampled_from([0.0, 0.9, 1.0]), st.sampled_from([None, 0, 1, 2, 3, 50]))
@pytest.mark.parametrize("level", [Level.TURN, Level.TOKEN])
@pytest.mark.parametrize("window", ["sum", "normalised"])
@pytest.mark.parametrize("each", [True, False])
def test_td_is_the_loop(
    each: bool, window: Window, level: Level, data: st.DataObject, batch: Batch, discount: float, n_step: int | None
) -> None:
    start = data.draw(signals(batch, Level.TRAJECTORY, failed=True))
    v = state_values(start, data.draw(signals(batch, level, failed=True)))
    reward = data.draw(st.one_of(st.none(), signals(batch, level, "r", failed=True)))
    lams = [[0.0, 0.5, 0.95, 1.0][i % 4] for i in range(len(batch))] if each else [0.95] * len(batch)
    lam = torch.tensor(lams, dtype=torch.float64) if each else 0.95
    made = td(v, reward=reward, discount=discount, lam=lam, n_step=n_step, window=window).check()
    expected = reference(v, reward, discount, lams, n_step, window)
    assert made.known.tolist() == [one is not None for one in expected]
    assert made.values.tolist() == pytest.approx([one or 0.0 for one in expected], rel=1e-9, abs=1e-9)
    assert not (made.presence == int(Presence.FAILED)).any()


# ------------------------------------------------------------------------------------------------------------- laws


@given(st.data(), batches())
def test_steps_telescope(data: st.DataObject, batch: Batch) -> None:
    start = data.draw(signals(batch, Level.TRAJECTORY, missing=False))
    after = data.draw(signals(batch, Level.TURN, missing=False))
    rise = torch.where(batch.turns > 0, after.pool(Level.TRAJECTORY, "last").values - start.values, 0.0)
    v = state_values(start, after)
    torch.testing.assert_close(td(v).pool(Level.TRAJECTORY).values, rise)
    sunk = torch.where(batch.turns > 0, -start.values, 0.0)
    torch.testing.assert_close(td(v, terminal="zero").pool(Level.TRAJECTORY).values, sunk)


def test_a_turn_that_changes_nothing_gets_nothing_and_moves_no_other() -> None:
    assert td(potential([0.0, 0.5, 0.5, 1.0])).values.tolist() == [0.5, 0.0, 0.5]
    assert td(potential([0.0, 0.5, 1.0])).values.tolist() == [0.5, 0.5]


def test_a_cut_trajectory_keeps_the_value_of_its_last_state() -> None:
    b = Batch.of(groups=["q"] * 3, turns=[1, 1, 1], status=["terminated", "truncated", "aborted"])
    start = Signal.of(b, Level.TRAJECTORY, [0.25] * 3, name="phi")
    v = state_values(start, Signal.of(b, Level.TURN, [0.75] * 3, name="phi"))
    assert td(v, terminal="zero").values.tolist() == [-0.25, 0.5, 0.5]


def test_what_is_no_step_is_skipped() -> None:
    # The answer turn is no transition: it has no state after it, and windows end before it.
    v = potential([0.0, 0.5, 0.25, None])
    outcome = Signal.of(v.after.batch, Level.TRAJECTORY, [1.0], name="outcome")
    made = td(v, n_step=2, lam=0.5, fill=outcome)
    assert made.values.tolist() == pytest.approx([0.5 - 0.125 + 0.25, -0.25 + 0.5, 0.0])
    assert made.known.tolist() == [True, True, False]


def test_a_trajectory_without_a_reward_is_left_out() -> None:
    v = potential([0.0, 0.5], [0.0, 0.5, 1.0], [0.0, 0.5, 1.0])
    reward = Signal.of(v.after.batch, Level.TURN, [None, 1.0, None, 1.0, None], name="r")
    broken = reward.presence.index_fill(0, torch.tensor([4]), int(Presence.FAILED))
    made = td(v, reward=replace(reward, presence=broken), n_step=None)
    assert made.known.tolist() == [False, True, True, True, False]
    assert made.values.tolist() == [0.0, 2.0, 0.5, 1.5, 0.0]


def test_a_missing_outcome_fills_nothing() -> None:
    v = potential([0.0, 1.0], [0.0, 1.0])
    outcome = Signal.of(v.after.batch, Level.TRAJECTORY, [None, 1.0], name="outcome")
    assert td(v, fill=outcome).values.tolist() == [1.0, 2.0]


def test_causes_stay_apart() -> None:
    v = potential([0.0, 0.5, 1.0])
    b = v.after.batch
    reward = Signal.of(b, Level.TURN, [0.0, 1.0], name="a") + Signal.of(b, Level.TURN, [0.25, 0.0], name="b")
    ledger = td(v, reward=reward, n_step=None).check().ledger()
    assert {name: term.tolist() for name, term in ledger.items()} == {"a": [1, 1], "b": [0.25, 0], "phi": [1, 0.5]}


def test_gradients_agree_with_differences() -> None:
    b = Batch.of(groups=["q", "q"], turns=[3, 2])
    start = Signal.of(b, Level.TRAJECTORY, [0.0, 0.1], name="phi")
    raw = torch.tensor([1.0, 0.3, 0.5, 0.2, 0.9], dtype=torch.float64, requires_grad=True)

    def credit(x: torch.Tensor) -> torch.Tensor:
        v = state_values(start, Signal.of(b, Level.TURN, x, name="phi"))
        return td(v, discount=0.9, lam=0.8, n_step=2, window="normalised").values

    assert torch.autograd.gradcheck(credit, (raw,))


@pytest.mark.parametrize(
    "options",
    [
        {"discount": 1.5},
        {"discount": float("nan")},
        {"lam": -0.1},
        {"lam": torch.tensor([0.5, 0.5])},
        {"lam": torch.tensor([1.5])},
        {"lam": torch.tensor([float("nan")])},
        {"n_step": -1},
        {"window": "mean"},
        {"terminal": "fill"},
        {"within": Level.TURN},
        {"within": Level.GROUP},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        td(potential([0.0, 1.0]), **options)  # type: ignore[arg-type]


def test_signals_must_fit_the_values() -> None:
    v = potential([0.0, 1.0])
    other = Batch.of(groups=["q"], turns=[1])
    with pytest.raises(InvalidArgument, match="reward"):
        td(v, reward=Signal.of(other, Level.TURN, [1.0], name="r"))
    with pytest.raises(InvalidArgument, match="reward"):
        td(v, reward=Signal.of(v.after.batch, Level.TRAJECTORY, [1.0], name="r"))
    with pytest.raises(InvalidArgument, match="fill"):
        td(v, fill=Signal.of(other, Level.TRAJECTORY, [1.0], name="r"))
