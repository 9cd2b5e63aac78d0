"""Selection: scores, the uniform share, resumption and what is logged. Every planner meets the same laws."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import remax
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.planning import DPS, SPO, XRPO, InSight, MoPPS, Planner, Sampler, ThinkPrior, Vigor, rewards_by_prompt
from apportion.planning.planner import Rewards
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal

NAMES = [f"q{i}" for i in range(12)]


def _started(planner: Vigor | XRPO) -> Planner:
    planner.start(NAMES)
    return planner


PLANNERS: dict[str, Callable[[], Planner]] = {
    "mopps": lambda: MoPPS(seed=5),
    "mopps (band)": lambda: MoPPS(band=(0.3, 0.7), seed=5, discount=0.9),
    "spo": SPO,
    "thinkprior": lambda: ThinkPrior(anchors={"q1": 0.5, "q2": 0.9}),
    "insight": InSight,
    "insight (entropy)": lambda: InSight(measure="entropy", discount=0.5),
    "dps": DPS,
    "vigor": lambda: _started(Vigor(seed=2)),
    "xrpo": lambda: _started(XRPO(seed=2)),
}
every_planner = pytest.mark.parametrize("make", PLANNERS.values(), ids=list(PLANNERS))


class Fixed:
    """Scores that are given."""

    def __init__(self, scores: Mapping[str, float]) -> None:
        self.scores = scores

    def score(self, prompt: str) -> float:
        return self.scores.get(prompt, 0.0)

    def update(self, rewards: Rewards) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {"kind": "Fixed"}

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


def _outcomes(step: int, prompts: list[str]) -> dict[str, list[float | None]]:
    rng = np.random.default_rng(step)
    return {name: [None, *rng.integers(0, 2, 4).astype(float).tolist()] for name in prompts}


@every_planner
def test_it_is_a_planner(make: Callable[[], Planner]) -> None:
    assert isinstance(make(), Planner)
    assert math.isfinite(make().score("q1")) or make().score("q1") == math.inf


@every_planner
def test_a_resumed_run_selects_what_the_first_would_have(make: Callable[[], Planner]) -> None:
    first = Sampler(make(), uniform_share=0.25, seed=9)
    for step in range(3):
        first.update(_outcomes(step, first.select(5, NAMES)))
    first.select(5, NAMES)  # saved between selection and update: the control group is known after the resumption too
    saved = json.loads(json.dumps(first.state_dict()))
    second = Sampler(make(), uniform_share=0.25, seed=1)
    second.load_state_dict(saved)
    assert second.state_dict() == saved
    for step in range(3, 8):
        for sampler in (first, second):
            sampler.update(_outcomes(step, sampler.select(5, NAMES)))
        assert first.metrics() == second.metrics()
    assert json.dumps(first.state_dict()) == json.dumps(second.state_dict())


@every_planner
@given(order=st.permutations(NAMES))
def test_the_order_of_the_candidates_means_nothing(make: Callable[[], Planner], order: list[str]) -> None:
    one, other = (Sampler(make(), uniform_share=0.25, seed=4) for _ in range(2))
    for sampler in (one, other):
        sampler.update(_outcomes(0, NAMES[:6]))
    chosen, again = one.select(6, NAMES), other.select(6, order)
    assert set(chosen) == set(again)
    assert chosen == [name for name in NAMES if name in set(chosen)]
    assert again == [name for name in order if name in set(chosen)]


@every_planner
def test_what_is_missing_changes_no_selection(make: Callable[[], Planner]) -> None:
    one, other = (Sampler(make(), seed=4) for _ in range(2))
    seen = _outcomes(0, NAMES[:6])
    one.update(seen)
    other.update({**seen, "q7": [], "q8": [None, None]})
    assert one.planner.state_dict() == other.planner.state_dict()
    assert [one.select(3, NAMES) for _ in range(3)] == [other.select(3, NAMES) for _ in range(3)]


@every_planner
def test_the_state_of_another_planner_is_refused(make: Callable[[], Planner]) -> None:
    for bad in ({"kind": "other"}, {**make().state_dict(), "more": 1}, {}):
        with pytest.raises(InvalidArgument, match="state"):
            make().load_state_dict(bad)


def test_the_best_are_taken() -> None:
    sampler = Sampler(Fixed({"q3": 2.0, "q5": 1.0, "q7": math.inf}), uniform_share=0.0)
    assert sampler.select(3, NAMES) == ["q3", "q5", "q7"]


@given(st.integers(0, 12), st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]))
def test_the_uniform_share_is_kept(n: int, share: float) -> None:
    best = {name: 10.0 - i for i, name in enumerate(NAMES)}
    sampler = Sampler(Fixed(best), uniform_share=share, seed=n)
    chosen = sampler.select(n, NAMES)
    assert len(set(chosen)) == n
    even = math.ceil(share * n - 1e-9)
    how = Counter(sampler.state_dict()["chosen"].values())
    assert (how["uniform"], how["planned"]) == (even, n - even)
    assert n == 0 or sampler.metrics()["planning/uniform_share"] == even / n


@pytest.mark.parametrize(("share", "n", "even"), [(0.1, 30, 3), (0.28, 25, 7), (0.1, 31, 4), (0.0, 9, 0), (1.0, 7, 7)])
def test_a_share_is_rounded_up_but_not_by_rounding_errors(share: float, n: int, even: int) -> None:
    sampler = Sampler(Fixed({}), uniform_share=share)
    sampler.select(n, [f"q{i}" for i in range(40)])
    assert sampler.metrics()["planning/uniform_share"] == even / n


def test_a_prompt_that_no_planner_wants_is_still_drawn() -> None:
    sampler = Sampler(Fixed(dict.fromkeys(NAMES[1:], 1.0)), uniform_share=0.1)
    drawn = sum("q0" in sampler.select(4, NAMES) for _ in range(600))
    # At least one of 4 is uniform over 12; 600 draws have a standard deviation of 6.8.
    assert 30 <= drawn <= 70


def test_ties_are_drawn_evenly() -> None:
    sampler = Sampler(Fixed({}), uniform_share=0.0)
    drawn = Counter(name for _ in range(600) for name in sampler.select(3, NAMES))
    assert all(100 <= drawn[name] <= 200 for name in NAMES)


def test_silent_groups_are_counted_for_each_half() -> None:
    sampler = Sampler(Fixed({"q0": 1.0, "q1": 1.0}), uniform_share=0.5, seed=0)
    chosen = sampler.select(4, NAMES)
    how = sampler.state_dict()["chosen"]
    rows: dict[str, list[float | None]] = {
        name: [1.0, 0.0] if how[name] == "planned" else [1.0, 1.0, None] for name in chosen
    }
    sampler.update({**rows, "unknown": [None], "single": [1.0]})
    assert sampler.metrics() == {
        "planning/uniform_share": 0.5,
        "planning/silent_share": 0.5,
        "planning/silent_share_uniform": 1.0,
        "planning/silent_share_planned": 0.0,
        "planning/unknown_share": pytest.approx(1 / 6),
    }
    sampler.update({})
    assert sampler.metrics() == {"planning/uniform_share": 0.5}


def test_bad_arguments() -> None:
    with pytest.raises(InvalidArgument, match="uniform_share"):
        Sampler(Fixed({}), uniform_share=1.1)
    sampler = Sampler(Fixed({"q1": math.nan}), uniform_share=0.0)
    with pytest.raises(InvalidArgument, match=r"candidates.*q0"):
        sampler.select(1, ["q0", "q0"])
    with pytest.raises(InvalidArgument, match="n="):
        sampler.select(3, ["q0", "q2"])
    with pytest.raises(InvalidArgument, match=r"planner=\['q1'\]"):
        sampler.select(1, NAMES)
    for bad in ({"q": ["x"]}, {"q": 1.0}, ["q"]):
        with pytest.raises(InvalidArgument, match="rewards"):
            sampler.update(bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="PCG64"):
        sampler.load_state_dict({**sampler.state_dict(), "rng": {"state": {"state": "x"}}})


def test_rewards_by_prompt_leave_out_what_is_missing() -> None:
    x = rewards_signal([1.0, None, 0.0, 0.5], groups=["s1-a", "s1-b", "s1-a", "s1-c"])
    assert rewards_by_prompt(x) == {"s1-a": [1.0, 0.0], "s1-b": [], "s1-c": [0.5]}
    assert rewards_by_prompt(x, prompts=["a", "b", "a"]) == {"a": [1.0, 0.0, 0.5], "b": []}
    assert rewards_by_prompt(x, prompts=["a", "b", "a"], success=0.5) == {"a": [1.0, 0.0, 1.0], "b": []}
    with pytest.raises(InvalidArgument, match="prompts"):
        rewards_by_prompt(x, prompts=["a"])
    with pytest.raises(InvalidArgument, match="TRAJECTORY"):
        rewards_by_prompt(x.spread(Level.TURN))


def test_a_belief_is_a_baseline_for_single_rollouts() -> None:
    planner = SPO()
    planner.update({"easy": [1.0] * 8, "hard": [0.0] * 8})
    batch = Batch.of(groups=["easy", "hard"])
    x = Signal.of(batch, Level.TRAJECTORY, [1.0, 1.0], name="outcome")
    rates = Signal.of(batch, Level.GROUP, [planner.mean(q) for q in batch.group_ids], name="pass rate")
    easy, hard = remax(x, baseline=rates).values.tolist()
    assert 0 < easy < 0.5 < hard < 1
