"""SIOP: support of the rollout's own answer, weighted by its reliability, in one pool per prompt."""

from __future__ import annotations

import math

import pytest

from apportion.errors import InvalidArgument, MissingInput
from apportion.recipes.siop import siop
from apportion.rewards import reward
from apportion.rollouts import Trajectory
from tests.recipes.builders import advantages, by, rollout
from tests.recipes.test_igpo import pooled

Q = 0.75
GAIN = Q * math.log(2)


def told(name: str, q: float, start: float, *after: float | None, group: str = "q") -> Trajectory:
    """Support p before the first turn and after each; what is recorded is q ln p."""
    phi = [None if p is None else q * math.log(p) for p in (start, *after)]
    return rollout(name, by("cluster_support", phi[1:]), group=group, reliability=q, cluster_support_start=phi[0])


TWO = told("1", Q, 0.1, 0.2, 0.4)


def test_rewards_of_the_specification() -> None:
    """q = .75, p = [.1, .2, .4]: .5199 and .8949; a rollout of one turn has (1 - lambda) q alone."""
    one, two, alone = pooled(0.5199, 0.8949, 0.125)
    made = advantages(siop(), [TWO, told("2", 0.25, 0.5, 0.6)])
    assert made == pytest.approx([one + two, two, alone], abs=1e-4)


def test_equal_rewards_are_exactly_zero() -> None:
    flat = [told(str(i), Q, 0.1, 0.1, group="q") for i in range(3)]
    assert advantages(siop(), flat) == [0.0] * 3
    assert advantages(siop(), flat[:1]) == [0.0]


def test_no_valid_answer_is_out_of_the_pool_and_still_in_the_loss() -> None:
    rollouts = [TWO, told("2", 0.0, 0.5, 0.9, 0.9)]
    one, two = pooled(GAIN, GAIN + 0.375)
    assert advantages(siop(), rollouts) == pytest.approx([one + two, two, 0.0, 0.0], abs=1e-6)
    credit, _ = siop().score(rollouts)
    assert credit.in_loss.tolist() == [True] * 4


def test_an_unknown_support_is_no_zero_gain() -> None:
    rollouts = [told("1", 1.0, 0.1, None, 0.4), told("2", 1.0, 0.1, 0.2, 0.2)]
    last, gain, share = pooled(0.5, math.log(2), 0.5)
    assert advantages(siop(), rollouts) == pytest.approx([last, last, gain + share, share], abs=1e-6)


def test_constant_support_leaves_the_reliability_alone() -> None:
    rollouts = [told("1", 1.0, 0.1, 0.1), told("2", 0.5, 0.1, 0.1)]
    assert advantages(siop(), rollouts) == pytest.approx([0.5**0.5, -(0.5**0.5)])


def test_two_prompts_never_mix() -> None:
    rollouts = [TWO, told("2", 0.25, 0.5, 0.6)]
    mixed = [*rollouts, told("3", 1.0, 0.1, 0.9, group="p"), told("4", 0.2, 0.9, 0.1, group="p")]
    assert advantages(siop(), mixed)[:3] == pytest.approx(advantages(siop(), rollouts))


def test_any_reward_can_say_how_reliable_an_answer_is() -> None:
    certain = reward(name="trust")(lambda trajectory: 1.0)
    recipe = siop(reliability=certain)
    assert recipe.needs == siop().needs[1:]
    assert advantages(recipe, [TWO, told("2", 0.0, 0.5, 0.6)])[2] != 0.0


def test_what_is_missing_or_wrong_is_said() -> None:
    with pytest.raises(MissingInput, match="turn column 'cluster_support'"):
        siop().score([rollout("a", [{}], reliability=1.0)])
    with pytest.raises(MissingInput, match="'reliability'"):
        siop().score([rollout("a", [{}])])
    with pytest.raises(InvalidArgument, match="discount"):
        siop(discount=1.5)


def test_a_second_turn_in_which_the_policy_wrote_nothing_is_no_turn() -> None:
    """A rollout of one turn has (1 - lambda) q alone: 0.5 and 0.25, so plus and minus one standard deviation."""
    answered = rollout(
        "1", by("cluster_support", [-1.0, -9.0]), tokens=[2, 0], reliability=1.0, cluster_support_start=0.0
    )
    other = rollout("2", by("cluster_support", [-1.0]), tokens=[1], reliability=0.5, cluster_support_start=0.0)
    assert advantages(siop(), [answered, other]) == pytest.approx([0.5**0.5, 0.5**0.5, -(0.5**0.5)])
