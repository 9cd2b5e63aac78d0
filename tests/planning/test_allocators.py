"""VIGOR's rounds and XRPO's intervals."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from apportion.advantages import grpo
from apportion.errors import InvalidArgument
from apportion.planning import XRPO, Vigor
from apportion.quick import rewards_signal

EIGHT = [f"q{i}" for i in range(8)]


def _rewards(planner: Vigor | XRPO, plan: dict[str, int], seed: int = 0) -> Counter[str]:
    rng = np.random.default_rng(seed)
    planner.update({prompt: rng.integers(0, 2, n).astype(float).tolist() for prompt, n in plan.items()})
    return Counter(plan)


def test_every_round_costs_the_same_and_totals_are_2_6_14_30() -> None:
    planner, spent, totals = Vigor(), [], Counter[str]()
    planner.start(EIGHT)
    while plan := planner.next_round():
        spent.append(sum(plan.values()))
        totals += _rewards(planner, plan, seed=len(spent))
    assert spent == [16, 16, 16, 16]
    assert sorted(totals.values()) == [2, 2, 2, 2, 6, 6, 14, 30]
    assert planner.next_round() == {}


def test_what_varies_goes_on() -> None:
    planner = Vigor()
    planner.start(EIGHT)
    planner.next_round()
    planner.update({prompt: [1.0, 0.0] if i in (1, 2, 5, 7) else [1.0, 1.0] for i, prompt in enumerate(EIGHT)})
    assert planner.next_round() == dict.fromkeys(["q1", "q2", "q5", "q7"], 4)
    # q2 stays mixed half and half, the others drift towards all-pass.
    planner.update({"q1": [1.0] * 4, "q2": [1.0, 0.0, 1.0, 0.0], "q5": [1.0] * 4, "q7": [1.0, 1.0, 1.0, 0.0]})
    assert planner.next_round() == {"q2": 8, "q7": 8}
    assert planner.score("q2") == 0.25
    assert planner.score("q1") == pytest.approx(5 / 36)


def test_ties_are_broken_at_random_and_the_same_way_for_one_seed() -> None:
    def second(seed: int) -> tuple[str, ...]:
        planner = Vigor(seed=seed)
        planner.start(EIGHT)
        planner.next_round()
        return tuple(planner.next_round())

    assert second(3) == second(3)
    assert len({second(seed) for seed in range(10)}) > 1


@given(st.integers(1, 40), st.sampled_from([0.1, 0.3, 0.5, 1.0]), st.permutations(range(5)))
def test_rounds_shrink_to_the_share_and_never_to_nothing(n: int, keep: float, order: list[int]) -> None:
    names = [f"q{i}" for i in range(n)]
    planner = Vigor(keep=keep, rounds=3)
    planner.start(names)
    sizes = []
    while plan := planner.next_round():
        sizes.append(len(plan))
    assert sizes[0] == n
    assert all(math.ceil(keep * a - 1e-9) == b >= 1 for a, b in pairwise(sizes))
    shuffled = Vigor(keep=keep, rounds=3)
    shuffled.start(names[::-1])
    assert [len(shuffled.next_round()) for _ in sizes] == sizes


def test_the_prompts_order_means_nothing() -> None:
    chosen = []
    for names in (EIGHT, EIGHT[::-1]):
        planner = Vigor(seed=1)
        planner.start(names)
        planner.next_round()
        chosen.append(set(planner.next_round()))
    assert chosen[0] == chosen[1]


def test_noise_is_no_variance() -> None:
    planner = Vigor()
    planner.start(["noisy"])
    planner.update({"noisy": [0.1, 0.1 + 1e-12, 0.3 - 0.2]})
    assert planner.score("noisy") == 0.0


@given(st.integers(2, 30), st.integers(0, 30))
def test_for_binary_rewards_the_signal_grows_with_size_and_variance(n: int, wins: int) -> None:
    # Why variance is the score: sum |A| = 2 sqrt(wins * losses (n - 1) / n), which is G times sigma.
    row = [1.0] * min(wins, n) + [0.0] * max(n - wins, 0)
    total = float(grpo(rewards_signal(row)).values.abs().sum())
    assert total == pytest.approx(2 * n * float(np.std(row)) * math.sqrt((n - 1) / n), abs=1e-9)


def test_the_score_is_the_predicted_reduction_of_the_interval() -> None:
    planner = XRPO(alpha=0.1, bonus=0.0)
    planner.start(["a", "b"])
    planner.update({"a": [1.0, 0.0, 0.0, 1.0, 1.0], "b": [1.0]})
    std = float(np.std([1, 0, 0, 1, 1], ddof=1))
    widths = [float(stats.t.ppf(0.95, n - 1)) * std / math.sqrt(n) for n in (5, 6)]
    assert planner.score("a") == pytest.approx(widths[0] - widths[1])
    assert planner.score("b") == math.inf


def test_a_constant_prompt_keeps_only_the_bonus() -> None:
    planner = XRPO(bonus=0.5)
    planner.start(["mixed", "solved"])
    planner.update({"mixed": [1.0, 0.0], "solved": [1.0, 1.0]})
    assert planner.score("solved") == pytest.approx(0.5 * math.sqrt(math.log(5) / 2))
    assert planner.score("mixed") > planner.score("solved")


@given(st.integers(2, 40))
def test_the_score_falls_with_the_rollouts_a_prompt_has(n: int) -> None:
    planner = XRPO()
    planner.start(["few", "many"])
    planner.update({"few": [1.0, 0.0] * n, "many": [1.0, 0.0] * (n + 1)})
    assert planner.score("few") > planner.score("many")


@given(st.integers(0, 60), st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.integers(1, 7))
def test_all_rollouts_are_given_and_the_uniform_share_reaches_everyone(n: int, share: float, prompts: int) -> None:
    planner = XRPO(uniform_share=share)
    names = [f"q{i}" for i in range(prompts)]
    planner.start(names)
    planner.update({name: [1.0, 0.0] if i == 0 else [1.0, 1.0] for i, name in enumerate(names)})
    plan = planner.allocate(n)
    assert sum(plan.values()) == n
    assert min(plan.values()) >= math.ceil(share * n - 1e-9) // prompts


@given(st.permutations(EIGHT))
def test_the_order_of_the_batch_means_nothing(names: list[str]) -> None:
    plans = []
    for order in (EIGHT, names):
        planner = XRPO(seed=3)
        planner.start(order)
        planner.update({"q1": [1.0, 0.0], "q2": [1.0, 0.0], "q3": [1.0, 1.0]})
        plans.append(planner.allocate(13))
        assert list(plans[-1]) == list(order)
    assert plans[0] == plans[1]


def test_unknown_prompts_come_first_and_evenly() -> None:
    planner = XRPO(uniform_share=0.0)
    planner.start(["a", "b", "known"])
    planner.update({"known": [1.0, 0.0]})
    assert planner.allocate(4) == {"a": 2, "b": 2, "known": 0}
    planner.start(["a", "b"])
    assert planner.score("known") == math.inf
    assert planner.allocate(2) == {"a": 1, "b": 1}


@pytest.mark.parametrize("planner", [Vigor(), XRPO()])
def test_what_is_missing_changes_nothing_and_strangers_are_refused(planner: Vigor | XRPO) -> None:
    planner.start(["a", "b"])
    planner.update({"a": [1.0, -7.0]})
    before = planner.state_dict()
    planner.update({"b": [], "a": [None]})
    assert planner.state_dict() == before
    for bad in ({"c": [1.0]}, {"a": [math.nan]}, {"b": [1.0], "a": [math.inf]}):
        with pytest.raises(InvalidArgument, match="rewards"):
            planner.update(bad)
    assert planner.state_dict() == before


def test_bad_options_are_named() -> None:
    for make, named in (
        (lambda: Vigor(rounds=0), "rounds"),
        (lambda: Vigor(first=0), "first"),
        (lambda: Vigor(growth=0), "growth"),
        (lambda: Vigor(keep=0.0), "keep"),
        (lambda: Vigor().start([]), "prompts"),
        (lambda: Vigor().start(["a", "a"]), "prompts"),
        (lambda: XRPO(alpha=0.0), "alpha"),
        (lambda: XRPO(bonus=-1.0), "bonus"),
        (lambda: XRPO(uniform_share=2.0), "uniform_share"),
        (lambda: XRPO().allocate(2), "prompts"),
        (lambda: XRPO().allocate(-1), "rollouts"),
    ):
        with pytest.raises(InvalidArgument, match=named):
            make()
