"""The Beta core and the planners on it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.planning import SPO, BetaPosterior, InSight, MoPPS, ThinkPrior, information, learnability

ROWS = st.lists(st.sampled_from([0.0, 1.0, 0.5]), max_size=6)
MAKERS: list[Callable[[], BetaPosterior]] = [MoPPS, SPO, InSight, lambda: ThinkPrior(anchors={"a": 0.25})]


def test_discounted_counts() -> None:
    planner = InSight(discount=0.5, prior=(2.0, 1.0))
    planner.update({"q": [1.0, 1.0, 0.0]})
    assert planner.counts("q") == (0.5 * 2 + 0.5 * 2 + 2, 0.5 + 0.5 + 1)
    planner.update({"q": [0.0]})
    assert planner.counts("q") == (0.5 * 4 + 0.5 * 2, 0.5 * 2 + 0.5 + 1)
    assert planner.mean("q") == pytest.approx(3.0 / 5.5)


def test_one_rollout_counts_as_one() -> None:
    def released(xi: float, a: float, a0: float, successes: float, n: int) -> float:
        # Without brackets the conditional takes in the whole sum: with one rollout nothing but the 8 is left.
        return xi * a + (1 - xi) * a0 + successes if n != 1 else 8

    planner = MoPPS()
    planner.update({"q": [1.0]})
    assert planner.counts("q") == (2.0, 1.0)
    assert released(1.0, 1.0, 1.0, 1.0, 1) == 8
    planner.update({"q": [1.0, 0.0]})
    assert planner.counts("q") == (3.0, 2.0)
    assert released(1.0, 2.0, 1.0, 1.0, 2) == 3.0


def test_partial_rewards_count_in_parts() -> None:
    planner = InSight()
    planner.update({"q": [0.25, 0.75, 1.0]})
    assert planner.counts("q") == (3.0, 2.0)


@pytest.mark.parametrize("make", MAKERS)
@given(rows=st.dictionaries(st.sampled_from("abc"), ROWS))
def test_what_is_missing_changes_nothing(make: Callable[[], BetaPosterior], rows: dict[str, list[float]]) -> None:
    one, other = make(), make()
    one.update(rows)
    other.update({**rows, "z": [], "y": [None]})
    other.update({"a": [None, None], "b": []})
    assert one.state_dict() == other.state_dict()


@given(st.permutations([1.0, 0.0, 0.5, 1.0]))
def test_the_order_of_rollouts_and_prompts_means_nothing(row: list[float]) -> None:
    one, other = InSight(discount=0.5), InSight(discount=0.5)
    one.update({"a": [1.0, 0.0, 0.5, 1.0], "b": [1.0]})
    other.update({"b": [1.0], "a": row})
    assert (one.counts("a"), one.counts("b")) == (other.counts("a"), other.counts("b"))


def test_a_bad_reward_counts_nothing() -> None:
    planner = InSight()
    with pytest.raises(InvalidArgument, match="'bad': "):
        planner.update({"good": [1.0], "bad": [2.0]})
    for wrong in (math.nan, -0.1, math.inf):
        with pytest.raises(InvalidArgument, match="rewards"):
            planner.update({"bad": [wrong]})
    assert planner.counts("good") == (1.0, 1.0)


def test_mopps_draws_around_the_belief() -> None:
    planner = MoPPS(seed=3)
    planner.update({"half": [1.0, 0.0] * 200, "easy": [1.0] * 400})
    draws = [planner.score("half") for _ in range(50)]
    assert len(set(draws)) == 50
    assert -0.1 < min(draws) <= max(draws) <= 0
    assert planner.score("easy") < -0.45


def test_mopps_takes_anything_inside_its_band() -> None:
    planner = MoPPS(band=(0.3, 0.7), seed=3)
    planner.update({"half": [1.0, 0.0] * 200, "easy": [1.0] * 400})
    assert {planner.score("half") for _ in range(20)} == {0.0}
    assert planner.score("easy") == pytest.approx(-0.3, abs=0.05)


def test_spo_forgets_with_drift() -> None:
    planner = SPO(half_drift=0.1, least=0.75)
    assert planner.counts("q") == (2.0, 2.0)  # 1 / (1 - 0.75) pseudo-counts
    assert [planner.discount(d) for d in (0.0, 0.01, 0.1 * math.log2(1 / 0.8), 0.1)] == pytest.approx(
        [0.96, 2**-0.1, 0.8, 0.75]
    )
    planner.update({"q": [1.0]})
    assert planner.counts("q") == pytest.approx((3.0, 2.0))
    planner.moved({"q": 9.0})
    planner.update({"q": [1.0]})
    assert planner.counts("q") == pytest.approx((0.75 * 3 + 0.25 * 2 + 1, 2.0))
    planner.update({"q": [0.0]})  # the drift was used up
    assert planner.counts("q") == pytest.approx((0.96 * 3.75 + 0.04 * 2, 0.96 * 2 + 0.04 * 2 + 1))


def test_spo_gives_single_rollouts_a_baseline() -> None:
    planner = SPO()
    before = planner.mean("q")
    planner.update({"q": [1.0]})
    assert 1.0 - before == 0.5
    assert planner.score("q") == pytest.approx(math.sqrt(planner.mean("q") * (1 - planner.mean("q"))))


def test_thinkprior_starts_from_the_anchor() -> None:
    planner = ThinkPrior(anchors={"half": 0.5, "solved": 1.0}, strength=14.0)
    assert planner.counts("half") == (8.0, 8.0)
    assert planner.score("half") == pytest.approx(0.235294, abs=1e-6)
    assert planner.counts("solved") == (15.0, 1.0)
    assert planner.score("unknown") == learnability(1, 1)
    faded = ThinkPrior(anchors={"half": 0.5}, strength=14.0, discount=0.0)
    faded.update({"half": [1.0]})
    assert faded.counts("half") == (9.0, 8.0)


def test_insight_scores_what_its_rollouts_tell() -> None:
    assert InSight(prior=(2, 2), rollouts=8).score("q") == information(2, 2, rollouts=8)
    assert InSight(prior=(2, 2), measure="entropy").score("q") == pytest.approx(0.109814, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: InSight(prior=(0.0, 1.0)), "prior"),
        (lambda: InSight(discount=1.5), "discount"),
        (lambda: InSight(measure="guess"), "measure"),  # type: ignore[arg-type]
        (lambda: InSight(rollouts=0), "rollouts"),
        (lambda: MoPPS(band=(0.7, 0.3)), "band"),
        (lambda: SPO(half_drift=0.0), "half_drift"),
        (lambda: SPO(least=0.99), "least"),
        (lambda: SPO().moved({"q": -1.0}), "drift"),
        (lambda: ThinkPrior(anchors={"q": 1.5}), "anchors"),
        (lambda: ThinkPrior(anchors={}, strength=-1.0), "strength"),
    ],
)
def test_bad_options_are_named(make: Callable[[], object], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        make()
