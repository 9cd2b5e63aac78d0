"""GDPO by name: several columns, some missing, some dead, some only recorded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from apportion.errors import InvalidArgument, ObserverFailing
from apportion.recipes import load
from apportion.rewards import observe, summarise
from apportion.rollouts import Trajectory

NAN = float("nan")


def rollouts(groups: str, **columns: Sequence[float | None]) -> list[Trajectory]:
    return [
        Trajectory(id=str(i), group=group, columns={name: values[i] for name, values in columns.items()})
        for i, group in enumerate(groups)
    ]


def credit(rows: list[Trajectory], **settings: str) -> list[float]:
    made, _ = load("gdpo", **settings).score(rows)
    return made.advantages.values.tolist()  # type: ignore[no-any-return]


def test_combinations_with_equal_sums_stay_apart() -> None:
    rows = rollouts("aabb", r1=[0, 1, 0, 1], r2=[0, 0, 0, 1])
    made = credit(rows, rewards="r1,r2", final="none")
    assert made == pytest.approx([-0.7071, 0.7071, -1.4142, 1.4142], abs=1e-4)


def test_one_missing_reward_adds_nothing_and_spoils_nothing() -> None:
    rows = rollouts("qqqq", r1=[1, 0, 1, None], r2=[0.2, 0.4, 0.1, 0.3])
    made = credit(rows, rewards="r1,r2", final="none")
    assert made == pytest.approx([0.1901, 0.0072, -0.5845, 0.3873], abs=1e-4)


def test_weights_scale_what_was_normalised() -> None:
    rows = rollouts("qq", r1=[1, 0], r2=[0, 1])
    assert credit(rows, rewards="r1,r2", weights="1,0.5", final="none") == pytest.approx([0.3536, -0.3536], abs=1e-4)


def test_a_reward_that_is_dead_in_its_group_adds_exactly_nothing() -> None:
    rows = rollouts("qqq", letters=[0.36, 0.52, 0.48], words=[0.1, 0.2, 0.2], game=[0, 0, 0])
    made, _ = load("gdpo", rewards="letters,words,game").score(rows)
    assert made.ledger()["game"].tolist() == [0.0, 0.0, 0.0]
    seen = made.diagnostics()
    assert seen["terms/game/variance_share"] == 0.0
    assert seen["terms/letters/variance_share"] + seen["terms/words/variance_share"] == pytest.approx(1.0)
    assert seen["groups/game/dead_share"] == 1.0


def test_a_metric_of_weight_zero_may_fail_everywhere_and_stays_recorded() -> None:
    rows = rollouts("qq", reward=[1.0, 0.0], style=[NAN, NAN])
    recipe = load("gdpo", rewards="reward,style", weights="1,0")
    made, _ = recipe.score(rows)
    assert made.advantages.values.tolist() == pytest.approx([0.7071, -0.7071], abs=1e-4)
    assert made.diagnostics()["rewards/style/missing_share"] == 1.0
    assert "rewards/style/mean" not in made.diagnostics()
    assert summarise(observe(recipe.observers, rows)["style"]).failed == 2
    with pytest.raises(ObserverFailing, match="style"):
        load("gdpo", rewards="reward,style", weights="1,0.1").score(rows)


def test_lists_and_texts_mean_the_same() -> None:
    rows = rollouts("qq", a=[1, 0], b=[0, 3])
    listed, _ = load("gdpo", rewards=["a", "b"], weights=[1, 0.5], final="none").score(rows)
    assert listed.advantages.values.tolist() == credit(rows, rewards="a, b", weights="1, 0.5", final="none")
    assert load("gdpo", rewards=("a", "b"), weights=(2, 0.5)).parameters["weights"] == "2,0.5"


@pytest.mark.parametrize("rewards", ["", " , ", [], "a,a", ["a", "a"]])
def test_columns_are_named_once(rewards: object) -> None:
    with pytest.raises(InvalidArgument, match="rewards"):
        load("gdpo", rewards=rewards)


@pytest.mark.parametrize("weights", ["0,0", "0.0,-0.0", "nan,1", "1,inf", "1", "1,1,1", "1,x", [0, 0], [1], [1, None]])
def test_weights_that_cannot_be_meant_are_found_when_the_recipe_is_made(weights: object) -> None:
    with pytest.raises(InvalidArgument, match="weights"):
        load("gdpo", rewards="a,b", weights=weights)
