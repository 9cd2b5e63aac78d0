"""A task small enough to enumerate: with exact values, expected credit is the true advantage.

state  how many steps of three have worked so far;  action 1 works with 0.7, action 0 with 0.2
reward 1 after the third turn if at least two worked; each use of action 1 costs 0.1 at once
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from itertools import product

import pytest
import torch

from apportion.advantages import gae, lambda_returns, td
from apportion.advantages.states import critic_values, last_values
from apportion.batch import Batch
from apportion.rollouts import Level
from apportion.signal import Signal

TURNS, POLICY, WORKS, GAMMA = 3, 0.6, (0.2, 0.7), 0.9


def paid(turn: int, worked: int, action: int, success: int) -> float:
    solved = float(turn == TURNS - 1 and worked + success >= 2)
    return solved - 0.1 * action


@cache
def value(turn: int, worked: int) -> float:
    if turn == TURNS:
        return 0.0
    return POLICY * quality(turn, worked, 1) + (1 - POLICY) * quality(turn, worked, 0)


@cache
def quality(turn: int, worked: int, action: int) -> float:
    odds = ((1, WORKS[action]), (0, 1 - WORKS[action]))
    return sum(p * (paid(turn, worked, action, s) + GAMMA * value(turn + 1, worked + s)) for s, p in odds)


def everything(turns: int) -> tuple[Batch, list[tuple[int, int, int]], torch.Tensor, Signal, Signal, Signal]:
    """Every course that a rollout of so many turns can take: what was done in which state, and how likely it is."""
    done, odds, rewards, values, last = [], [], [], [], []
    for course in product(product((0, 1), (0, 1)), repeat=turns):
        worked, probability = 0, 1.0
        for turn, (action, success) in enumerate(course):
            done.append((turn, worked, action))
            values.append(value(turn, worked))
            rewards.append(paid(turn, worked, action, success))
            works = WORKS[action] if success else 1 - WORKS[action]
            probability *= (POLICY if action else 1 - POLICY) * works
            worked += success
        odds.append(probability)
        last.append(value(turns, worked))
    size = len(odds)
    batch = Batch.of(
        groups=["q"] * size, turns=[turns] * size, status=["terminated" if turns == TURNS else "truncated"] * size
    )
    reward = Signal.of(batch, Level.TURN, rewards, name="reward")
    bootstrap = Signal.of(batch, Level.TRAJECTORY, last, name="value")
    before = Signal.of(batch, Level.TURN, values, name="value")
    return batch, done, torch.tensor(odds, dtype=torch.float64), reward, before, bootstrap


def expected(credit: Signal, done: list[tuple[int, int, int]], odds: torch.Tensor) -> dict[tuple[int, int, int], float]:
    weight = credit.batch.spread(odds, Level.TRAJECTORY, Level.TURN)
    total: dict[tuple[int, int, int], float] = defaultdict(float)
    mass: dict[tuple[int, int, int], float] = defaultdict(float)
    for key, w, x in zip(done, weight.tolist(), credit.values.tolist(), strict=True):
        total[key] += w * x
        mass[key] += w
    return {key: total[key] / mass[key] for key in total}


@pytest.mark.parametrize("turns", [TURNS, TURNS - 1], ids=["to the end", "cut before it"])
@pytest.mark.parametrize(("lam", "n_step"), [(1.0, 1), (1.0, 2), (1.0, None), (0.5, None), (0.0, None)])
def test_expected_credit_is_the_true_advantage(lam: float, n_step: int | None, turns: int) -> None:
    batch, done, odds, reward, before, bootstrap = everything(turns)
    assert float(odds.sum()) == pytest.approx(1.0)
    states = critic_values(before, last_values(batch, bootstrap))
    made = expected(td(states, reward=reward, discount=GAMMA, lam=lam, n_step=n_step), done, odds)
    for (turn, worked, action), credit in made.items():
        assert credit == pytest.approx(quality(turn, worked, action) - value(turn, worked), abs=1e-12)


def test_a_cut_that_counts_as_an_end_is_wrong() -> None:
    batch, done, odds, reward, before, _ = everything(TURNS - 1)
    states = critic_values(before, last_values(batch, on_truncated="zero"))
    made = expected(gae(reward, states, discount=GAMMA, lam=1.0), done, odds)
    gaps = [credit - (quality(*key) - value(*key[:2])) for key, credit in made.items()]
    assert max(gaps) == pytest.approx(-0.036)


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_expected_targets_are_the_values(lam: float) -> None:
    batch, done, odds, reward, before, bootstrap = everything(TURNS)
    targets = lambda_returns(reward, critic_values(before, last_values(batch, bootstrap)), discount=GAMMA, lam=lam)
    for (turn, worked, action), target in expected(targets, done, odds).items():
        assert target == pytest.approx(quality(turn, worked, action), abs=1e-12)


def test_an_untrained_critic_changes_no_expectation_when_lambda_is_one() -> None:
    batch, done, odds, reward, before, _ = everything(TURNS)
    zero = critic_values(before * 0.0, last_values(batch))
    made = expected(gae(reward, zero, discount=GAMMA, lam=1.0), done, odds)
    for key, credit in made.items():
        assert credit == pytest.approx(quality(*key), abs=1e-12)
