"""The gap to the gold answer through the recipe that uses it: worked numbers from log-probs to advantages."""

import pytest

from apportion.judges.scoring.potentials import log_gap
from apportion.recipes.trace import trace
from apportion.rollouts import Trajectory, Turn
from tests.judges.scoring.told import Told, target


def rollout(name: str, reward: float) -> Trajectory:
    """Three calls that were answered, and the answer."""
    turns = (*(Turn(observation="seen") for _ in range(3)), Turn(text="Paris"))
    mask = [1, 0] * 3 + [1]
    return Trajectory(
        id=name,
        group="q",
        prompt_ids=[5],
        response_ids=[6] * len(mask),
        policy=mask,
        turns=turns,
        columns={"reward": reward},
    )


def test_worked_numbers_from_log_probs_to_advantages() -> None:
    told = Told([-2.0, -1.0, -1.0, -0.4, -0.3])
    recipe = trace(potential=log_gap(told, target=lambda _: target(7)))
    credit, _ = recipe.score([rollout("won", 1), rollout("lost", 0)])
    won = [1.2992, 1.3261, 1.4777, 1.0]
    lost = [-1.1104, -1.1859, -1.1623, -1.0]
    assert credit.advantages.values.tolist() == pytest.approx([*won, *lost], abs=1e-4)
    assert len(told.asked) == 2
