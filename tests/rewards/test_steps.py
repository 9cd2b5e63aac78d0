"""What the environment paid, turn by turn."""

from __future__ import annotations

import pytest

from apportion.advantages import group_center, return_to_go
from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.recipe import Recipe
from apportion.rewards import observe, step_reward
from apportion.rollouts import Trajectory, Turn
from apportion.verdicts import Abstained, Failed, Scored
from tests.rewards.builders import kinds, said, values


def paid(*rewards: float | None, id: str = "r", group: str = "q") -> Trajectory:
    return Trajectory(id=id, group=group, turns=tuple(Turn(reward=reward) for reward in rewards))


def test_rewards_are_read_turn_by_turn_and_what_was_not_paid_abstains() -> None:
    assert values(step_reward().observe([paid(0.5, None, -1.0), paid()])) == [0.5, None, -1.0]
    assert kinds(step_reward().observe([paid(0.0, None)])) == "SA"


def test_unpaid_turns_are_worth_zero_where_said_so() -> None:
    assert values(step_reward(unpaid="zero").observe([paid(None, 1.0)])) == [0.0, 1.0]
    assert values(step_reward(unpaid="zero").observe([paid(None, None)])) == [0.0, 0.0]


def test_a_turn_column_can_hold_it_instead() -> None:
    t = Trajectory(id="r", group="q", turns=(Turn(reward=9.0, columns={"paid": 0.5}), Turn(reward=9.0)))
    assert values(step_reward(column="paid").observe([t])) == [0.5, None]
    with pytest.raises(MissingInput, match="turn column 'gone'"):
        step_reward(column="gone").observe([t])


def test_rewards_that_nobody_recorded_are_an_error_that_names_the_way_out() -> None:
    with pytest.raises(MissingInput, match=r"Turn\.reward, or say unpaid='zero'"):
        step_reward().observe([paid(None, None), said("x")])
    assert step_reward().observe([paid()]) == [[]]


def test_a_table_of_turns_is_not_needed_where_another_rollout_has_rewards() -> None:
    tokens = Trajectory(id="t", group="q", response_ids=[1, 2, 3], policy=[1, 0, 1])  # type: ignore[arg-type]
    found = step_reward().observe([tokens, paid(1.0)])
    assert [type(cell) for row in found for cell in row] == [Abstained, Abstained, Scored]  # type: ignore[union-attr]


def test_a_reward_that_is_not_finite_is_nobodys_zero() -> None:
    (row,) = step_reward().observe([paid(float("nan"))])
    assert isinstance(row[0], Failed)  # type: ignore[index]


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="unpaid"):
        step_reward(unpaid="half")  # type: ignore[arg-type]


def test_it_drives_a_recipe_by_itself() -> None:
    """The return-to-go of what was paid, centred: (1 + 0, 0) and (0 + 0.5, 0.5) around the mean over the turns."""
    recipe = Recipe(
        name="returns",
        observers=[step_reward()],
        assign_signals=lambda batch, signals, *, step, state: group_center(return_to_go(signals["step_reward"])),
        aggregation="token-mean",
    )
    rollouts = [paid(1.0, 0.0, id="a"), paid(0.0, 0.5, id="b")]
    credit, _ = recipe.assign(Batch.pack(rollouts), observe(recipe.observers, rollouts))
    assert credit.advantages.values.tolist() == [0.5, -0.5, 0.0, 0.0]
