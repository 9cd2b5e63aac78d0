"""Signals: terms always sum, missing stays missing, levels broadcast downwards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.batch import Batch
from apportion.errors import InvalidArgument, LedgerMismatch
from apportion.rollouts import Level
from apportion.signal import RESIDUAL_TOL, Signal, Term
from apportion.verdicts import Abstained, Failed, Presence, Scored
from tests.strategies import batches, signals

TWO = Batch.of(groups=["q", "q"], turns=[2, 1], tokens=[1, 2, 1])
KNOWN, ABSENT, FAILED = Scored(1.0), Abstained("-"), Failed("-")


def turn(*values: float | None, name: str = "path") -> Signal:
    return Signal.of(TWO, Level.TURN, list(values), name=name)


def outcome(*values: float | None) -> Signal:
    return Signal.of(TWO, Level.TRAJECTORY, list(values), name="outcome")


@st.composite
def composed(draw: st.DrawFn) -> Signal:
    """A few random moves on two signals with missing elements."""
    batch = draw(batches())
    levels = st.sampled_from([Level.TRAJECTORY, Level.TURN, Level.TOKEN, Level.GROUP])
    x = draw(signals(batch, draw(levels), "a", failed=True)) + 0.3 * draw(signals(batch, draw(levels), "b"))
    for _ in range(draw(st.integers(0, 4))):
        move = draw(st.sampled_from(["scale", "neg", "add", "spread", "pool", "factor", "clip", "mask", "linear"]))
        if move == "scale":
            x = x * draw(st.sampled_from([0.0, 0.1, 3.0])) / 7
        elif move == "neg":
            x = -x
        elif move == "add":
            x = x - draw(signals(batch, draw(levels), draw(st.sampled_from("ac")), failed=True))
        elif move == "spread":
            x = x.spread(Level(draw(st.integers(0, x.level))))
        elif move == "pool":
            how = draw(st.sampled_from(["sum", "mean", "min", "max"]))
            x = x.pool(Level(draw(st.integers(x.level, Level.GROUP))), how)  # type: ignore[arg-type]
        elif move == "factor":
            level = draw(levels)
            x = x.scaled(torch.linspace(-2, 2, batch.size(level), dtype=torch.float64), level)
        elif move == "clip":
            x = x.clipped(-0.5, 0.25)
        elif move == "mask":
            x = x.masked(torch.arange(x.values.numel()) % 2 == 0).neutral()
        else:
            x = x.linear(lambda v: v.flip(0))
    return x


@given(composed())
def test_terms_sum_after_any_moves(x: Signal) -> None:
    assert x.residual() <= RESIDUAL_TOL
    assert x.check() is x


@given(composed())
def test_what_is_not_known_is_exactly_zero(x: Signal) -> None:
    assert (x.values[~x.known] == 0).all()
    assert torch.isfinite(x.values).all()
    for term in x.ledger(min(x.level, Level.TURN)).values():
        assert (term[~x.batch.spread(x.known, x.level, min(x.level, Level.TURN))] == 0).all()


@pytest.mark.parametrize("weight", [0, 0.0, -0.0])
def test_a_part_of_weight_zero_never_makes_a_sum_unknown(weight: float) -> None:
    metric = Signal.from_verdicts(TWO, Level.TRAJECTORY, [Failed("nan"), Scored(3.0)], name="metric")
    total = outcome(1.0, 0.5) + weight * metric
    assert total.known.tolist() == [True, True]
    assert total.values.tolist() == [1.0, 0.5]
    assert not metric.known.all()
    assert not (outcome(1.0, 0.5) + 0.1 * metric).known.all()


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -float("inf")])
def test_a_weight_is_a_finite_number(weight: float) -> None:
    with pytest.raises(InvalidArgument, match="factor"):
        outcome(1.0, 0.0) * weight


@pytest.mark.parametrize("values", [["a", 1.0], [[1.0], [0.0]], 1.0, [1.0], np.array([1.0, 2.0, 3.0])])
def test_what_is_not_a_value_per_element_is_refused(values: object) -> None:
    with pytest.raises(InvalidArgument, match="values"):
        Signal.of(TWO, Level.TRAJECTORY, values, name="r")  # type: ignore[arg-type]


def test_none_is_absent_and_nan_is_an_error_unless_marked() -> None:
    for values in ([1.0, None], np.array([1.0, None], dtype=object)):
        assert Signal.of(TWO, Level.TRAJECTORY, values, name="r").known.tolist() == [True, False]
    with pytest.raises(InvalidArgument, match=r"elements \[1\]"):
        Signal.of(TWO, Level.TRAJECTORY, [1.0, float("nan")], name="r")
    marked = Signal.of(TWO, Level.TRAJECTORY, [1.0, float("nan")], name="r", known=[True, False])
    assert (marked.values.tolist(), marked.known.tolist()) == ([1.0, 0.0], [True, False])


def test_arrays_are_values_with_the_resolution_of_their_type() -> None:
    made = [
        Signal.of(TWO, Level.TRAJECTORY, np.array([1, 0], dtype=kind), name="r") for kind in ("f2", "f4", "f8", "i8")
    ]
    assert [x.resolution > 1e-8 for x in made] == [True, True, False, False]
    assert all(x.values.tolist() == [1.0, 0.0] for x in made)


@given(st.data(), batches(tokens=None))
def test_addition_commutes_and_spreads(data: st.DataObject, batch: Batch) -> None:
    a = data.draw(signals(batch, Level.TRAJECTORY, "a"))
    b = data.draw(signals(batch, Level.TURN, "b"))
    ab, ba = a + b, b + a
    assert ab.level == Level.TURN
    assert torch.equal(ab.values, ba.values)
    assert torch.equal(ab.presence, ba.presence)
    assert torch.equal((a.spread(Level.TURN) + b).values, ab.values)


@given(st.data(), batches())
def test_addition_is_associative(data: st.DataObject, batch: Batch) -> None:
    a, b, c = (data.draw(signals(batch, Level.TURN, name, failed=True)) for name in "abc")
    left, right = (a + b) + c, a + (b + c)
    torch.testing.assert_close(left.values, right.values, rtol=1e-12, atol=1e-12)
    assert torch.equal(left.presence, right.presence)


@given(st.data(), batches())
def test_scaling_distributes_over_addition(data: st.DataObject, batch: Batch) -> None:
    a, b = (data.draw(signals(batch, Level.TURN, name)) for name in "ab")
    torch.testing.assert_close((3.0 * (a + b)).values, (3.0 * a + 3.0 * b).values, rtol=1e-12, atol=1e-10)


@given(st.data(), batches())
def test_pooling_sums_is_the_adjoint_of_spreading(data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, Level.TRAJECTORY, missing=False))
    down = x.spread(Level.TOKEN)
    torch.testing.assert_close(
        down.pool(Level.TRAJECTORY, "sum").values, x.values * (batch.tokens_per_trajectory), rtol=1e-12, atol=1e-10
    )


def test_levels_broadcast_like_shapes() -> None:
    total = outcome(1.0, 0.0) + 0.5 * turn(0.0, -1.0, None)
    assert total.level == Level.TURN
    assert total.values.tolist() == [1.0, 0.5, 0.0]
    assert {n: v.tolist() for n, v in total.ledger().items()} == {"outcome": [1, 1, 0], "path": [0, -0.5, 0]}
    assert {n: v.tolist() for n, v in total.ledger(Level.TOKEN).items()} == {
        "outcome": [1, 1, 1, 0],
        "path": [0, -0.5, -0.5, 0],
    }


def test_terms_of_one_name_are_one_cause() -> None:
    total = outcome(1.0, 0.0) + Signal.of(TWO, Level.TURN, [0.5, 0.0, 0.0], name="outcome")
    assert total.ledger()["outcome"].tolist() == [1.5, 1.0, 0.0]
    assert list(total.terms) == ["outcome"]


@pytest.mark.parametrize(
    ("a", "b", "state", "value"),
    [
        (KNOWN, KNOWN, Presence.KNOWN, 2.0),
        (KNOWN, ABSENT, Presence.KNOWN, 1.0),
        (ABSENT, ABSENT, Presence.ABSENT, 0.0),
        (KNOWN, FAILED, Presence.FAILED, 0.0),
        (ABSENT, FAILED, Presence.FAILED, 0.0),
        (FAILED, FAILED, Presence.FAILED, 0.0),
    ],
)
def test_missing_algebra_of_a_sum(a: object, b: object, state: Presence, value: float) -> None:
    batch = Batch.of(groups=["q"])
    x, y = (Signal.from_verdicts(batch, Level.TRAJECTORY, [v], name=n) for v, n in ((a, "a"), (b, "b")))  # type: ignore[list-item]
    for total in (x + y, y + x):
        assert (int(total.presence), float(total.values)) == (state, value)
        assert sum(float(t) for t in total.ledger().values()) == value


def test_after_a_baseline_failure_is_neutral() -> None:
    batch = Batch.of(groups=["q"])
    failed = Signal.from_verdicts(batch, Level.TRAJECTORY, [FAILED], name="a").neutral()
    known = Signal.of(batch, Level.TRAJECTORY, [1.0], name="b")
    total = failed + known
    assert (int(total.presence), float(total.values)) == (Presence.KNOWN, 1.0)


def test_what_a_failed_sum_knew_does_not_come_back() -> None:
    batch = Batch.of(groups=["q"])
    a = Signal.of(batch, Level.TRAJECTORY, [5.0], name="a")
    spoiled = (a + Signal.from_verdicts(batch, Level.TRAJECTORY, [FAILED], name="b")).neutral()
    total = spoiled + Signal.of(batch, Level.TRAJECTORY, [1.0], name="c")
    assert (float(total.values), total.residual()) == (1.0, 0.0)


def test_a_missing_trajectory_hides_its_turns() -> None:
    total = outcome(None, 1.0) + turn(0.5, 0.5, 0.5)
    assert total.values.tolist() == [0.5, 0.5, 1.5]


@pytest.mark.parametrize(
    ("how", "values", "expected"),
    [
        ("sum", (1.0, 2.0, None), (3.0, None)),
        ("mean", (1.0, None, 4.0), (1.0, 4.0)),
        ("min", (2.0, -1.0, None), (-1.0, None)),
        ("max", (None, -1.0, -2.0), (-1.0, -2.0)),
        ("last", (2.0, None, 7.0), (2.0, 7.0)),
        ("last", (0.0, 0.0, None), (0.0, None)),
    ],
)
def test_pool_looks_at_known_children_only(
    how: str, values: tuple[float | None, ...], expected: tuple[float | None, ...]
) -> None:
    pooled = turn(*values).pool(Level.TRAJECTORY, how)  # type: ignore[arg-type]
    got = tuple(v if k else None for v, k in zip(pooled.values.tolist(), pooled.known.tolist(), strict=True))
    assert got == expected


@pytest.mark.parametrize("how", ["sum", "mean", "min", "max", "last"])
def test_one_failed_child_makes_the_parent_unknown(how: str) -> None:
    x = Signal.from_verdicts(TWO, Level.TURN, [FAILED, KNOWN, KNOWN], name="x").pool(Level.TRAJECTORY, how)  # type: ignore[arg-type]
    assert x.presence.tolist() == [Presence.FAILED, Presence.KNOWN]
    assert x.values.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("how", ["min", "max", "last"])
def test_a_picked_element_brings_its_own_terms(how: str) -> None:
    x = turn(1.0, -3.0, 0.0, name="a") + turn(1.0, 1.0, 0.0, name="b")
    pooled = x.pool(Level.TRAJECTORY, how)  # type: ignore[arg-type]
    first = {name: float(term[0]) for name, term in pooled.ledger().items()}
    assert first == ({"a": 1.0, "b": 1.0} if how == "max" else {"a": -3.0, "b": 1.0})


def test_a_group_has_extremes_but_no_last() -> None:
    x = outcome(1.0, 3.0)
    assert x.pool(Level.GROUP, "max").values.tolist() == [3.0]
    assert x.pool(Level.GROUP, "mean").values.tolist() == [2.0]
    with pytest.raises(InvalidArgument, match="order"):
        x.pool(Level.GROUP, "last")


@given(st.data(), batches())
@pytest.mark.parametrize("how", ["sum", "mean", "min", "max", "last"])
def test_pool_is_the_loop(how: str, data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, Level.TURN))
    pooled = x.pool(Level.TRAJECTORY, how)  # type: ignore[arg-type]
    reduce: Callable[[list[float]], float] = {
        "sum": sum,
        "mean": lambda v: sum(v) / len(v),
        "min": min,
        "max": max,
        "last": lambda v: v[-1],
    }[how]
    owner = batch.owner(Level.TURN, Level.TRAJECTORY)
    for i in range(len(batch)):
        known = x.values[(owner == i) & x.known].tolist()
        assert bool(pooled.known[i]) == bool(known)
        assert float(pooled.values[i]) == pytest.approx(reduce(known) if known else 0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("values", "resolution"),
    [
        ([1.0, 0.0], 1e-9),
        (torch.tensor([1, 0]), 1e-9),
        (torch.tensor([1.0, 0.0], dtype=torch.float64), 1e-9),
        (torch.tensor([1.0, 0.0]), torch.finfo(torch.float32).eps),
        (torch.tensor([1.0, 0.0], dtype=torch.bfloat16), torch.finfo(torch.float32).eps),
    ],
)
def test_resolution_follows_where_values_came_from(values: object, resolution: float) -> None:
    x = Signal.of(TWO, Level.TRAJECTORY, values, name="x")  # type: ignore[arg-type]
    assert x.values.dtype == torch.float64
    assert x.resolution == resolution
    assert (x + outcome(1.0, 0.0)).resolution == resolution
    assert (outcome(1.0, 0.0) + x).resolution == resolution


def test_clipping_is_a_cause_of_its_own() -> None:
    x = turn(2.0, -2.0, 0.1).clipped(-1.0, 1.0)
    assert x.values.tolist() == [1.0, -1.0, 0.1]
    assert x.ledger()["clip"].tolist() == [-1.0, 1.0, 0.0]


def test_clipping_twice_is_still_one_term() -> None:
    x = turn(2.0, -2.0, 0.1).clipped(-1.0, 1.0).clipped(-0.5, 0.5)
    assert list(x.terms) == ["path", "clip"]
    assert x.ledger()["clip"].tolist() == [-1.5, 1.5, 0.0]


def test_masked_elements_leave() -> None:
    x = turn(1.0, 2.0, 3.0).masked(torch.tensor([True, False, True]))
    assert x.presence.tolist() == [Presence.KNOWN, Presence.ABSENT, Presence.KNOWN]
    assert x.pool(Level.TRAJECTORY, "mean").values.tolist() == [1.0, 3.0]


def test_named_merges_the_causes() -> None:
    x = (outcome(1.0, 0.0) + turn(0.0, 1.0, 0.0)).named("reward")
    assert {n: t.tolist() for n, t in x.ledger().items()} == {"reward": [1.0, 2.0, 0.0]}


def test_a_broken_ledger_is_a_bug_and_says_so() -> None:
    x = outcome(1.0, 0.0)
    broken = Signal(
        batch=TWO,
        level=x.level,
        values=x.values,
        presence=x.presence,
        terms={"outcome": Term(Level.TRAJECTORY, x.values * (1 + 1e-11))},
    )
    with pytest.raises(LedgerMismatch, match="outcome"):
        broken.check()


def test_scaling_by_a_statistic_of_any_level() -> None:
    x = outcome(1.0, 2.0) + turn(1.0, 1.0, 1.0)
    by_group = x.scaled(torch.tensor([10.0], dtype=torch.float64), Level.GROUP)
    by_token = x.scaled(torch.arange(4, dtype=torch.float64), Level.TOKEN)
    assert (by_group.level, by_group.values.tolist()) == (Level.TURN, [20.0, 20.0, 30.0])
    assert (by_token.level, by_token.values.tolist()) == (Level.TOKEN, [0.0, 2.0, 4.0, 9.0])
    assert by_token.residual() == 0.0


def test_gradients_flow_through_every_linear_move() -> None:
    raw = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
    x = Signal.of(TWO, Level.TURN, raw, name="x")
    y = (0.5 * x + outcome(1.0, 1.0)).spread(Level.TOKEN).pool(Level.TRAJECTORY, "sum").pool(Level.GROUP, "mean")
    (gradient,) = torch.autograd.grad(y.values.sum(), raw)
    assert gradient.tolist() == [0.25, 0.5, 0.25]


def test_gradients_follow_a_picked_element() -> None:
    raw = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(
        Signal.of(TWO, Level.TURN, raw, name="x").pool(Level.TRAJECTORY, "min").values.sum(), raw
    )
    assert gradient.tolist() == [0.0, 1.0, 1.0]


def test_a_missing_value_has_no_gradient() -> None:
    raw = torch.tensor([1.0, float("nan"), 3.0], dtype=torch.float64, requires_grad=True)
    x = Signal.of(TWO, Level.TURN, raw, name="x", known=torch.tensor([True, False, True]))
    (gradient,) = torch.autograd.grad((2 * x).pool(Level.GROUP, "sum").values.sum(), raw)
    assert gradient.tolist() == [2.0, 0.0, 2.0]


def test_text_only_signals_add_up_per_turn() -> None:
    batch = Batch.of(groups=["q", "q"], turns=[2, 1])
    total = Signal.of(batch, Level.TRAJECTORY, [1.0, 0.0], name="a") + Signal.zeros(batch, Level.TURN, name="b")
    assert total.spread(batch.finest).values.tolist() == [1.0, 1.0, 0.0]
    with pytest.raises(InvalidArgument, match="text only"):
        total.spread(Level.TOKEN)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: outcome(1.0), "2 values at the TRAJECTORY level"),
        (lambda: outcome(float("nan"), 1.0), r"elements \[0\]"),
        (lambda: outcome(float("inf"), float("-inf")), r"elements \[0, 1\]"),
        (lambda: outcome(1.0, 0.0) + Signal.of(Batch.of(groups=["q"]), Level.TURN, [1.0], name="y"), "same batch"),
        (lambda: outcome(1.0, 0.0) * torch.ones(2), "scaled"),  # type: ignore[operator]
        (lambda: outcome(1.0, 0.0) / 0, "other than 0"),
        (lambda: outcome(1.0, 0.0).clipped(1.0, -1.0), "at most high"),
        (lambda: outcome(1.0, 0.0).masked(torch.tensor([True])), "keep"),
        (lambda: turn(1.0, 0.0, 1.0).spread(Level.TRAJECTORY), "pool"),
        (lambda: outcome(1.0, 0.0).pool(Level.TURN), "spread"),
    ],
)
def test_bad_signals_are_refused(make: Callable[[], object], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        make()


def test_a_signal_does_not_add_to_a_number() -> None:
    with pytest.raises(TypeError):
        outcome(1.0, 0.0) + 1.0  # type: ignore[operator]
