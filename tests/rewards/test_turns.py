"""Differences between turns, and reductions that do not pay for length."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.rewards import difference, reduce_turns
from apportion.rollouts import Level
from apportion.verdicts import Abstained, Failed, Scored
from tests.rewards.builders import VERDICTS, Fixed, fixed, fixed_turns, kinds, said, values
from tests.rewards.test_linear import seen


def turns(count: int, **fields: Any) -> list[Any]:
    return [said(*[""] * count, id="0", **fields)]


def test_process_scores_in_every_safe_form() -> None:
    process = fixed_turns("prm", 0.2, 0.6, 0.5)
    assert values(seen(reduce_turns(process, how="last"), turns(3))) == [0.5]
    assert values(seen(reduce_turns(process, how="min"), turns(3))) == [0.2]
    assert values(seen(reduce_turns(process, how="mean"), turns(3))) == [pytest.approx(1.3 / 3)]
    steps = difference(process, initial=0.0)
    assert values(seen(steps, turns(3))) == [pytest.approx(v) for v in (0.2, 0.4, -0.1)]
    assert values(seen(reduce_turns(steps, how="sum"), turns(3))) == [pytest.approx(0.5)]


def test_a_raw_sum_of_process_scores_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidArgument, match=r"pays for .or against. every further turn"):
        reduce_turns(fixed_turns("prm", 0.2), how="sum")


@given(st.lists(VERDICTS.filter(lambda verdict: not isinstance(verdict, Failed)), max_size=6), st.floats(-5, 5))
def test_differences_telescope_over_what_was_measured(verdicts: list[Any], initial: float) -> None:
    part = Fixed("f", {"0": verdicts}, Level.TURN)
    found = values(seen(difference(part, initial=initial), turns(len(verdicts))))
    known = [verdict.value for verdict in verdicts if isinstance(verdict, Scored)]
    total = sum(value for value in found if value is not None)
    assert total == pytest.approx((known[-1] - initial) if known else 0.0, abs=1e-9)


def test_a_turn_that_was_not_measured_is_skipped_and_one_that_failed_poisons_both_sides() -> None:
    skipped = seen(difference(fixed_turns("f", 0.5, None, 1.0), initial=0.0), turns(3))
    assert values(skipped) == [0.5, None, 0.5]
    assert kinds(skipped) == "SAS"
    failed = seen(difference(fixed_turns("f", 0.5, Failed("x"), 1.0, 1.0), initial=0.0), turns(4))
    assert values(failed) == [0.5, None, None, 0.0]
    assert failed[0][2] == Failed("the value before this turn is unknown: x")


@pytest.mark.parametrize(
    ("how", "verdicts", "expected"),
    [
        ("last", (), "A"),
        ("last", (None, None), "A"),
        ("last", (0.5, None), "S"),
        ("last", (0.5, Failed("x")), "F"),
        ("last", (Failed("x"), 0.5), "S"),
        ("min", (Failed("x"), 0.5), "F"),
        ("mean", (None, 0.5), "S"),
    ],
)
def test_reductions_of_missing_turns(how: Any, verdicts: tuple[Any, ...], expected: str) -> None:
    assert kinds(seen(reduce_turns(fixed_turns("f", *verdicts), how=how), turns(len(verdicts)))) == expected


def test_a_rollout_that_the_infrastructure_cut_has_no_final_score() -> None:
    cut = turns(1, status="aborted", error="node lost")
    assert seen(reduce_turns(fixed_turns("f", 0.5), how="last"), cut) == [
        Failed("aborted by the infrastructure: node lost")
    ]


def test_evidence_says_from_where_to_where() -> None:
    part = Fixed("f", {"0": [Scored(0.5, "2 of 4"), Abstained("x")]}, Level.TURN)
    assert seen(difference(part, initial=0.25), turns(2))[0][0] == Scored(0.25, "0.25 -> 0.5 (2 of 4)")
    assert seen(reduce_turns(part, how="last"), turns(2)) == [Scored(0.5, "last of 1 scored turns (2 of 4)")]


def test_levels_and_options_are_checked() -> None:
    with pytest.raises(InvalidArgument, match="TURN level"):
        difference(fixed("a", 1.0), initial=0.0)
    with pytest.raises(InvalidArgument, match="TURN level"):
        reduce_turns(fixed("a", 1.0), how="last")
    with pytest.raises(InvalidArgument, match="initial"):
        difference(fixed_turns("a", 1.0), initial=float("nan"))
    with pytest.raises(InvalidArgument, match="how"):
        reduce_turns(fixed_turns("a", 1.0), how="max")  # type: ignore[arg-type]
