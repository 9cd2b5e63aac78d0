"""IGPO: information gain per turn, the outcome on the last."""

from __future__ import annotations

import pytest

from apportion.advantages import grpo
from apportion.errors import InvalidArgument, MissingInput
from apportion.quick import rewards_signal
from apportion.recipes.igpo import igpo
from apportion.rollouts import Trajectory
from apportion.verdicts import Scored
from tests.recipes.builders import advantages, by, rollout


def told(name: str, start: float, *after: float | None, reward: float, group: str = "q") -> Trajectory:
    turns = by("answer_probability", after)
    return rollout(name, turns, group=group, reward=reward, answer_probability_start=start)


def pooled(*values: float) -> list[float]:
    mean = sum(values) / len(values)
    std = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
    return [(v - mean) / std for v in values]


RISES, FALLS = told("1", 0.1, 0.3, 0.25, 0.25, reward=1.0), told("2", 0.1, 0.1, 0.2, reward=0.0)


def test_gains_and_outcomes_in_pools_of_their_own() -> None:
    """The specification's p = [.1, .3, .25]: gains .2 and -.05, then the outcome."""
    a, b, c = pooled(0.2, -0.05, 0.0)
    won, lost = 0.5**0.5, -(0.5**0.5)
    made = advantages(igpo(eps=0.0), [RISES, FALLS])
    assert made == pytest.approx([a + b + won, b + won, won, c + lost, lost])


def test_all_in_one_pool() -> None:
    a, b, won, c, lost = pooled(0.2, -0.05, 1.0, 0.0, 0.0)
    made = advantages(igpo(normalise="joint", discount=0.5, eps=0.0), [RISES, FALLS])
    assert made == pytest.approx([a + 0.5 * (b + 0.5 * won), b + 0.5 * won, won, c + 0.5 * lost, lost])


def test_equal_gains_leave_grpo() -> None:
    rollouts = [told(str(i), 0.1, 0.2, 0.3, 0.3, reward=float(i == 0)) for i in range(4)]
    made = advantages(igpo(eps=0.0), rollouts)
    expected = grpo(rewards_signal([1.0, 0.0, 0.0, 0.0])).values.tolist()
    assert made == pytest.approx([a for a in expected for _ in range(3)])


def test_a_rollout_of_one_turn_has_its_outcome_alone() -> None:
    made = advantages(igpo(eps=0.0), [told("1", 0.1, 0.9, reward=1.0), told("2", 0.1, 0.1, reward=0.0)])
    assert made == pytest.approx([0.5**0.5, -(0.5**0.5)])


def test_an_unknown_probability_is_no_zero_gain() -> None:
    """The second turn's p is not known: neither its gain nor the next one's, which would start from it."""
    rollouts = [told("1", 0.1, 0.3, None, 0.5, 0.5, reward=1.0), told("2", 0.1, 0.2, 0.2, reward=1.0)]
    a, b = pooled(0.2, 0.1)
    assert advantages(igpo(eps=0.0), rollouts) == pytest.approx([a, 0.0, 0.0, 0.0, b, 0.0])


def test_two_prompts_never_mix() -> None:
    alone = advantages(igpo(), [RISES, FALLS])
    mixed = [RISES, told("3", 0.9, 0.1, 0.8, reward=5.0, group="p"), FALLS]
    made = advantages(igpo(), mixed)
    assert [*made[:3], *made[5:]] == pytest.approx(alone)


def test_a_potential_object_takes_the_place_of_columns() -> None:
    class Half:
        name = "p"

        def values(self, trajectories: list[Trajectory]) -> list[list[Scored]]:
            return [[Scored(0.5 * k) for k in range(t.n_turns + 1)] for t in trajectories]

    recipe = igpo(potential=Half())  # type: ignore[arg-type]
    assert recipe.needs == ("trajectory column 'reward'",)
    assert advantages(recipe, [RISES, FALLS])[2] > 0


def test_what_is_missing_or_wrong_is_said() -> None:
    with pytest.raises(MissingInput, match="turn column 'answer_probability'"):
        igpo().score([rollout("a", [{}], reward=1.0)])
    with pytest.raises(InvalidArgument, match="normalise"):
        igpo(normalise="both")  # type: ignore[arg-type]
