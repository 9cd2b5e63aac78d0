"""GiGPO: anchors give turns something to be compared with; without them GRPO is left."""

from __future__ import annotations

import pytest

from apportion.advantages import dr_grpo, grpo
from apportion.errors import InvalidArgument, MissingInput
from apportion.quick import rewards_signal
from apportion.recipes.gigpo import gigpo
from apportion.rollouts import Trajectory, Turn
from tests.recipes.builders import advantages, by, rollout


def walks() -> list[Trajectory]:
    return [
        rollout("1", by("at", "abc"), reward=1.0),
        rollout("2", by("at", "adb"), reward=0.0),
    ]


def test_the_two_walks_of_the_specification() -> None:
    made = advantages(gigpo(anchors="at"), walks())
    assert made == pytest.approx([0.95125, 0.975, 0.5, -0.95125, -0.5, -0.975])


def test_with_standard_deviations() -> None:
    made = advantages(gigpo(anchors="at", mode="mean_std", eps=0.0), walks())
    assert made == pytest.approx([1.41421, 1.41421, 0.70711, -1.41421, -0.70711, -1.41421], abs=1e-5)


def test_states_that_nobody_shares_leave_grpo() -> None:
    rollouts = [rollout(str(i), by("at", [f"{i}.{k}" for k in range(3)]), reward=float(i % 2)) for i in range(4)]
    once = rewards_signal([0.0, 1.0, 0.0, 1.0])
    for recipe, expected in (
        (gigpo(anchors="at"), dr_grpo(once)),
        (gigpo(anchors="at", mode="mean_std", eps=0.0), grpo(once)),
    ):
        made = advantages(recipe, rollouts)
        assert made[::3] == pytest.approx(expected.values.tolist())
        assert made[::3] == made[2::3]


def test_equal_states_of_two_prompts_are_two_states() -> None:
    alone = advantages(gigpo(anchors="at"), walks())
    other = [rollout(f"p{i}", by("at", "abc"), group="p", reward=5.0 * i) for i in range(2)]
    assert advantages(gigpo(anchors="at"), [*walks(), *other])[:6] == pytest.approx(alone)


def test_visits_of_one_rollout_to_one_state_all_count() -> None:
    made = advantages(gigpo(anchors="at", discount=0.5, step_weight=2.0), [rollout("1", by("at", "aba"), reward=1.0)])
    assert made == pytest.approx([2 * (0.25 - 0.625), 0.0, 2 * (1 - 0.625)])


def test_observations_are_the_anchors_unless_told_otherwise() -> None:
    def walk(name: str, seen: str, solved: float) -> Trajectory:
        turns = [Turn(observation=state) for state in seen]
        return Trajectory(id=name, group="q", turns=tuple(turns), columns={"reward": solved})

    made = advantages(gigpo(), [walk("1", "bc.", 1.0), walk("2", "db.", 0.0)])
    assert made == pytest.approx([0.95125, 0.975, 0.5, -0.95125, -0.5, -0.975])


def test_environment_rewards_can_be_the_steps_rewards() -> None:
    rollouts = [
        rollout("1", [{"at": "a", "paid": 0.0}, {"at": "b", "paid": 1.0}], reward=1.0),
        rollout("2", [{"at": "a", "paid": 0.0}, {"at": "b"}], reward=1.0),
    ]
    assert advantages(gigpo(anchors="at", paid="turns", unpaid="zero"), rollouts) == pytest.approx(
        [0.475, 0.5, -0.475, -0.5]
    )
    assert advantages(gigpo(anchors="at", paid="both", unpaid="zero"), rollouts) == pytest.approx(
        [0.475, 0.5, -0.475, -0.5]
    )
    assert advantages(gigpo(anchors="at"), rollouts) == [0.0] * 4


def test_an_unknown_state_keeps_the_outcomes_part() -> None:
    rollouts = [rollout("1", by("at", ["a", None]), reward=1.0), rollout("2", by("at", ["a", "b"]), reward=0.0)]
    made = advantages(gigpo(anchors="at", discount=1.0), rollouts)
    assert made == pytest.approx([1.0, 0.5, -1.0, -0.5])


def test_what_is_missing_or_wrong_is_said() -> None:
    tokens = Trajectory(id="t", group="q", response_ids=[1, 2], policy=[1, 0], columns={"reward": 1})  # type: ignore[arg-type]
    with pytest.raises(MissingInput, match="table of turns"):
        gigpo().score([tokens])
    with pytest.raises(MissingInput, match=r"record it as Turn\.reward"):
        gigpo(anchors="at", paid="turns").score(walks())
    with pytest.raises(InvalidArgument, match="mode"):
        gigpo(mode="std")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="discount"):
        gigpo(discount=2.0)
