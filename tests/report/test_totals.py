"""Sums that stream: the same numbers as all at once."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages.group_stat import group_stat
from apportion.batch import Batch
from apportion.recipe import Credit, Recipe, State
from apportion.report.totals import Totals
from apportion.rollouts import Level, Trajectory
from apportion.signal import Signal
from apportion.verdicts import Abstained, Failed, Scored, Verdict


class Observer:
    def __init__(self, name: str, level: Level) -> None:
        self.name, self.level = name, level

    def observe(self, trajectories: Sequence[Trajectory]) -> Any:
        raise NotImplementedError


def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
    return group_stat(signals["outcome"], scale="none") + 0.5 * signals["path"].neutral()


RECIPE = Recipe(
    name="both",
    observers=[Observer("outcome", Level.TRAJECTORY), Observer("path", Level.TURN)],
    assign_signals=assign,
    aggregation="token-mean",
)


def credit(group: str, outcomes: Sequence[Verdict], path: Sequence[Verdict], tokens: int = 2) -> Credit:
    batch = Batch.of(groups=[group] * len(outcomes), tokens=[tokens] * len(outcomes))
    made, _ = RECIPE.assign(batch, {"outcome": list(outcomes), "path": [[verdict] for verdict in path]})
    return made


def test_one_credit_in_closed_form() -> None:
    totals = Totals()
    totals.add(credit("q", [Scored(1.0), Scored(0.0)], [Scored(0.0), Scored(-1.0)]))
    # advantages +0.5 and -1.0, outcome +-0.5, path 0 and -0.5; every one twice (two tokens)
    whole, terms = totals.advantage(), totals.terms()
    assert (whole.mean, whole.std) == (-0.25, 0.75)
    assert (terms["outcome"].mean, terms["outcome"].std) == (0.0, 0.5)
    assert (terms["path"].mean, terms["path"].std) == (-0.25, 0.25)
    assert terms["outcome"].variance_share == pytest.approx(2 / 3)
    assert terms["path"].variance_share == pytest.approx(1 / 3)
    assert (totals.trajectories, totals.groups, totals.turns, totals.tokens, totals.in_loss) == (2, 1, 2, 4, 4)


def test_rewards_count_what_is_missing_by_kind() -> None:
    totals = Totals()
    totals.add(credit("q", [Scored(1.0), Failed("x"), Abstained("y"), Scored(1.0)], [Scored(0.0)] * 4))
    seen = totals.rewards["outcome"]
    assert (seen.scored, seen.abstained, seen.failed, seen.mean, seen.missing_share) == (2, 1, 1, 1.0, 0.5)
    assert (seen.groups, seen.dead, totals.without_credit) == (1, 1, 1)


def test_nothing_scored_has_no_mean() -> None:
    totals = Totals()
    totals.add(credit("q", [Failed("x")], [Abstained("y")]))
    assert totals.rewards["outcome"].mean is None
    assert totals.rewards["outcome"].groups == 0
    assert totals.advantage().variance_share is None


def test_nothing_at_all() -> None:
    assert Totals().advantage().mean == 0.0
    assert Totals().terms() == {}


@given(st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=4), min_size=1, max_size=5), st.floats(-1e6, 1e6))
def test_streamed_is_all_at_once(groups: list[list[float]], shift: float) -> None:
    """Far from 0 as well, where sums of squares would lose every digit."""
    totals, values = Totals(), []
    for number, numbers in enumerate(groups):
        made = credit(f"g{number}", [Scored(v) for v in numbers], [Scored(2 * (v + shift)) for v in numbers], tokens=1)
        totals.add(made)
        values.append(made.advantages.values)
    whole = torch.cat(values)
    scale = max(1.0, float(whole.abs().max()))
    assert math.isclose(totals.advantage().mean, float(whole.mean()), abs_tol=1e-9 * scale)
    assert math.isclose(totals.advantage().std, float(whole.std(correction=0)), abs_tol=1e-7 * scale)
    shares = [term.variance_share for term in totals.terms().values()]
    if totals.advantage().std > 1e-6 * scale:
        assert sum(share for share in shares if share is not None) == pytest.approx(1.0, abs=1e-6)


def test_a_term_that_appears_later_counts_as_zero_before() -> None:
    batch = Batch.of(groups=["q"], tokens=[2])
    first = Signal.of(batch, Level.TOKEN, [1.0, 3.0], name="a")
    second = first + Signal.of(batch, Level.TOKEN, [1.0, 1.0], name="b")
    totals = Totals()
    for signal in (first, second):
        totals.add(Credit(advantages=signal, aggregation="token-mean", rewards={}, recipe="r"))
    assert totals.terms()["b"].mean == 0.5
    assert totals.terms()["b"].std == 0.5
    assert totals.advantage().mean == 2.5


def test_summaries_merge_to_the_last_bit() -> None:
    parts = [
        credit("q", [Scored(1.0), Scored(0.1)], [Scored(0.3), Abstained("no path")]),
        credit("p", [Scored(0.7), Failed("outage"), Scored(0.2)], [Scored(-1.0)] * 3),
        credit("dead", [Failed("outage")], [Failed("outage")]),
    ]
    together, merged = Totals(), Totals()
    for part in parts:
        together.add(part)
        alone = Totals()
        alone.add(part)
        merged.include(json.loads(json.dumps(alone.summary())))
    assert merged.summary() == together.summary()
    assert merged.terms() == together.terms()
