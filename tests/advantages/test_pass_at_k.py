"""Both pass@k forms."""

from __future__ import annotations

from itertools import combinations
from math import comb, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import grpo, pass_at_k, pass_at_k_top
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal


def binary(n: int, c: int) -> list[float]:
    return [1.0] * c + [0.0] * (n - c)


@pytest.mark.parametrize(
    ("n", "c", "k", "plus", "minus"), [(4, 1, 2, 1.0, -1 / 3), (8, 2, 4, 0.522233, -0.174078), (2, 1, 1, 1.0, -1.0)]
)
def test_worked_numbers(n: int, c: int, k: int, plus: float, minus: float) -> None:
    got = pass_at_k(rewards_signal(binary(n, c)), k=k).values.tolist()
    assert got == pytest.approx([plus] * c + [minus] * (n - c), abs=1e-6)


@given(st.integers(1, 9), st.data())
def test_the_closed_form_is_the_mean_over_all_subsets(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    rewards = binary(n, c)
    got = pass_at_k(rewards_signal(rewards), k=k).values.tolist()
    rho = 1 - comb(n - c, k) / comb(n, k)
    sigma = sqrt(rho * (1 - rho))
    if sigma == 0:
        assert got == [0.0] * n
        return
    for i in range(n):
        others = [rewards[j] for j in range(n) if j != i]
        wins = [max(rewards[i], *s) if s else rewards[i] for s in combinations(others, k - 1)]
        assert got[i] == pytest.approx((sum(wins) / len(wins) - rho) / sigma, abs=1e-9)
    assert sum(got) == pytest.approx(0.0, abs=1e-9)


def test_one_attempt_is_grpo() -> None:
    x = rewards_signal(binary(5, 2))
    torch.testing.assert_close(pass_at_k(x, k=1).values, grpo(x, ddof=0).values)


def test_hard_prompts_weigh_more_than_easy_ones() -> None:
    hard, easy = (float(pass_at_k(rewards_signal(binary(8, c)), k=4).values[0]) for c in (1, 4))
    assert hard > easy > 0


def test_large_groups_do_not_overflow() -> None:
    made = pass_at_k(rewards_signal(binary(4096, 1)), k=64).values
    rho = 64 / 4096
    assert float(made[0]) == pytest.approx((1 - rho) / sqrt(rho * (1 - rho)), rel=1e-9)


def test_too_few_known_attempts_abstain() -> None:
    x = rewards_signal([1.0, 0.0, None, 1.0, 0.0, 0.0], groups=list("aaabbb"))
    made = pass_at_k(x, k=3)
    assert made.values.tolist()[:3] == [0.0, 0.0, 0.0]
    assert pass_at_k(x, k=2).values.tolist()[3:] == pytest.approx([1 / sqrt(2), -1 / sqrt(2) / 2, -1 / sqrt(2) / 2])


def test_more_attempts_than_anyone_has_cost_no_memory() -> None:
    assert pass_at_k(rewards_signal([1.0, 0.0, 0.0]), k=10**12).values.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("rewards", "k"), [([0.5, 1.0], 1), ([-1.0, 1.0], 1), ([1.0, 0.0], 0)])
def test_closed_form_refuses_what_it_is_not_for(rewards: list[float], k: int) -> None:
    with pytest.raises(InvalidArgument):
        pass_at_k(rewards_signal(rewards), k=k)


def test_the_best_earns_its_lead() -> None:
    x = rewards_signal([1.0, 0.6, 0.0])
    assert pass_at_k_top(x).values.tolist() == pytest.approx([0.7947, 0.0, 0.0], abs=1e-4)
    assert pass_at_k_top(x, scale="none").values.tolist() == pytest.approx([0.4, 0.0, 0.0])


def test_a_tie_for_the_first_place_earns_nothing() -> None:
    assert pass_at_k_top(rewards_signal([1.0, 0.0, 1.0])).values.tolist() == [0.0] * 3


def test_the_lead_is_over_known_rivals_of_the_same_prompt() -> None:
    x = rewards_signal([1.0, None, 0.5, 0.9, 3.0], groups=list("aaabb"))
    assert pass_at_k_top(x, scale="none").values.tolist() == pytest.approx([0.5, 0.0, 0.0, 0.0, 2.1])


def test_one_attempt_has_no_lead() -> None:
    assert pass_at_k_top(rewards_signal([1.0, None])).values.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("options", [{"scale": "mad"}, {"ddof": 2}, {"eps": -1.0}])
def test_top_options_are_named(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        pass_at_k_top(rewards_signal([1.0, 0.0]), **options)  # type: ignore[arg-type]


def test_gradients_reach_best_and_second() -> None:
    x = rewards_signal([1.0, 0.6, 0.0])
    raw = x.values.clone().requires_grad_()
    made = pass_at_k_top(type(x).of(x.batch, x.level, raw, name="r"), scale="none")
    (gradient,) = torch.autograd.grad(made.values.sum(), raw)
    assert gradient.tolist() == [1.0, -1.0, 0.0]
