from __future__ import annotations

import pytest

from apportion.errors import MissingInput
from apportion.rewards.potentials import recorded_potential
from apportion.rollouts import Trajectory, Turn
from apportion.verdicts import Abstained, Failed, Scored


def rollout(**columns: object) -> Trajectory:
    turns = [Turn(columns={"potential": 0.25}), Turn(), Turn(columns={"potential": float("nan")})]
    return Trajectory(id="r", group="q", turns=turns, columns=columns)


def test_what_was_recorded_is_scored_and_what_was_not_abstains() -> None:
    start, first, second, third = recorded_potential().values([rollout(potential_start=0.1)])[0]
    assert (start, first) == (Scored(0.1), Scored(0.25))
    assert isinstance(second, Abstained)
    assert isinstance(third, Failed)


def test_the_start_is_declared_or_recorded_never_guessed() -> None:
    assert recorded_potential(start_value=0.0).values([rollout()])[0][0] == Scored(0.0, "declared")
    assert recorded_potential(start_value=0.0).values([rollout(potential_start=0.1)])[0][0] == Scored(0.1)
    with pytest.raises(MissingInput, match="potential_start"):
        recorded_potential().values([rollout()])


def test_a_column_that_no_turn_has_is_a_wrong_name() -> None:
    with pytest.raises(MissingInput, match="'progress'"):
        recorded_potential("progress", start_value=0.0).values([rollout()])
    assert recorded_potential(start_value=0.0).values([]) == []
