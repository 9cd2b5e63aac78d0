"""The planner: the largest sum by one at a time, caps and decays, and the numbers of the methods that it serves."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages.branch_plan import BranchPlan, Candidate, agreement, branch_plan
from apportion.errors import InvalidArgument


def places(*priorities: float, parent: str = "a", every: int = 1) -> list[Candidate]:
    return [Candidate(parent=parent, offset=i * every, priority=p) for i, p in enumerate(priorities)]


def counts(plan: BranchPlan) -> dict[tuple[str, int], int]:
    return {(branch.parent, branch.offset): branch.count for branch in plan.branches}


def value(gain: str, p: float, k: int) -> float:
    return 1 - p**k if gain == "disagree" else 1 - p**k - (1 - p) ** k


@pytest.mark.parametrize(("v", "m", "expected"), [(0.5, 2, 0.5), (0.9, 2, 0.18)])
def test_the_chance_that_rollouts_of_a_prompt_differ(v: float, m: int, expected: float) -> None:
    plan = branch_plan(places(v), budget=m, gain="mixed")
    assert plan.gain - 1 == pytest.approx(expected)  # no rollout at all counts as -1


@pytest.mark.parametrize(("outcome", "expected"), [(1, 0.64), (0, 0.84)])
def test_the_chance_that_a_continuation_ends_otherwise(outcome: int, expected: float) -> None:
    assert branch_plan(places(agreement(0.6, outcome)), budget=2, gain="disagree").gain == pytest.approx(expected)


@given(
    st.sampled_from(["disagree", "mixed"]),
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([0.0, 0.1, 0.5, 0.6, 0.9, 1.0])), max_size=4),
    st.integers(0, 5),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 1, 3]),
)
def test_one_at_a_time_is_the_best_plan(
    gain: Any, given_places: list[tuple[str, float]], budget: int, per_node: int | None, per_path: int | None
) -> None:
    found = [Candidate(parent=n, offset=i, priority=p) for i, (n, p) in enumerate(given_places)]
    plan = branch_plan(found, budget=budget, gain=gain, per_node=per_node, per_path=per_path)
    best = 0.0
    for ks in itertools.product(range(budget + 1), repeat=len(found)):
        on_path = [sum(k for k, c in zip(ks, found, strict=True) if c.parent == name) for name in "ab"]
        fits = sum(ks) <= budget and max(ks, default=0) <= (per_node or budget)
        if fits and max(on_path) <= (per_path or budget):
            best = max(
                best,
                sum(value(gain, c.priority, k) - value(gain, c.priority, 0) for k, c in zip(ks, found, strict=True)),
            )
    assert plan.gain == pytest.approx(best)
    assert sum(counts(plan).values()) + plan.fresh == budget


def test_hindsight_branches_where_the_outcome_moves_the_policy_most() -> None:
    # 16 = 2 roots x (1 + 3 + 4): seven continuations at two points each
    seen = [*places(0.0, 1.5, 0.1), *places(0.2, 0.1, 0.3, parent="b")]
    plan = branch_plan(seen, budget=14, gain="even", points=2, per_path=7)
    assert counts(plan) == {("a", 1): 4, ("a", 2): 3, ("b", 0): 3, ("b", 2): 4}
    lone = branch_plan(places(1.5), budget=7, gain="even", points=2)
    assert counts(lone) == {("a", 0): 7}


def test_points_keep_their_distance() -> None:
    seen = places(0.5, 0.9, 0.8, 0.7, every=32)
    assert counts(branch_plan(seen, budget=2, gain="even", points=2, spacing=64)) == {("a", 32): 1, ("a", 96): 1}
    assert counts(branch_plan(seen, budget=2, gain="even", points=2)) == {("a", 32): 1, ("a", 64): 1}


def test_cbpo_balances_what_nodes_and_paths_have_already() -> None:
    # first 0.9 and 0.8; once used, 0.9 / (2^.2 2^.2) = .682 falls behind 0.8 / 2^.2 = .696 of the same path
    seen = places(0.9, 0.8, 0.3)
    settings: dict[str, Any] = {"node_decay": 0.2, "path_decay": 0.2, "above": 0.25}
    one = branch_plan(seen, budget=2, **settings)
    assert counts(one) == {("a", 0): 1, ("a", 1): 1}
    assert one.gain == pytest.approx(0.9 + 0.8 / 2**0.2)
    caps = {"points": 3, "per_node": 3, "per_path": 4}
    full = branch_plan(seen, budget=10, **caps, **settings)
    # third .9 / (3^.2 2^.2) = .629 against .559, fourth .9 / (4^.2 3^.2) = .547 against .528, and the path is full
    assert counts(full) == {("a", 0): 3, ("a", 1): 1}
    assert full.gain - one.gain == pytest.approx(0.9 / 6**0.2 + 0.9 / 12**0.2)
    assert full.fresh == 6


def test_what_is_not_worth_it_becomes_fresh_rollouts() -> None:
    assert branch_plan(places(0.2, 0.25), budget=3, above=0.25).fresh == 3
    assert branch_plan(places(1.0), budget=3, gain="disagree").fresh == 3
    assert branch_plan([], budget=3) == BranchPlan(branches=(), fresh=3, gain=0.0)


def test_treerl_takes_the_top_tokens_twice() -> None:
    seen = [*places(0.1, 2.0, 1.0, 3.0), *places(5.0, 4.0, 0.0, parent="b")]
    plan = branch_plan(seen, budget=100, points=2, per_node=2)
    assert counts(plan) == {("a", 1): 2, ("a", 3): 2, ("b", 0): 2, ("b", 1): 2}


def test_ties_go_to_the_first_candidate() -> None:
    for gain in ("balanced", "even", "disagree", "mixed"):
        plan = branch_plan(places(0.5, 0.5, 0.5), budget=1, gain=gain, points=2)  # type: ignore[arg-type]
        assert counts(plan) == {("a", 0): 1}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"gain": "most"}, "gain"),
        ({"budget": -1}, "budget"),
        ({"points": -1}, "points"),
        ({"per_node": 0}, "per_node"),
        ({"per_path": 1.5}, "per_path"),
        ({"node_decay": -0.1}, "decay"),
        ({"gain": "even", "path_decay": 0.1}, "decay"),
        ({"above": float("nan")}, "above"),
        ({"gain": "mixed", "candidates": places(1.5)}, "probabilities"),
        ({"candidates": places(float("nan"))}, "finite"),
        ({"candidates": [*places(0.5), *places(0.6)]}, "each place once"),
    ],
)
def test_bad_arguments_are_named(wrong: dict[str, Any], message: str) -> None:
    arguments = {"candidates": places(0.5), "budget": 1, **wrong}
    with pytest.raises(InvalidArgument, match=message):
        branch_plan(arguments.pop("candidates"), **arguments)


def test_agreement_wants_a_probability_and_an_outcome() -> None:
    with pytest.raises(InvalidArgument):
        agreement(0.5, 0.5)
    with pytest.raises(InvalidArgument):
        agreement(1.5, 1)
