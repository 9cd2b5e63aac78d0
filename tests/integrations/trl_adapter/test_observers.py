"""Observers inside a real training step: asked once, together, in time; and stopped when they only fail."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from apportion.advantages import group_center
from apportion.errors import InvalidArgument, MissingInput, ObserverFailing
from apportion.integrations.trl import as_reward_func
from apportion.recipe import Recipe
from apportion.rewards import Reward, metric, outcome, reward
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Failed, Scored
from tests.integrations.trl_adapter.tiny import half_right, trainer

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")


def centred(*observers: Reward, **fields: Any) -> Recipe:
    def assign(batch: Any, signals: Any, *, step: Any, state: Any) -> Any:
        total = group_center(signals[observers[0].name])
        for observer in observers[1:]:
            total = total + group_center(signals[observer.name])
        return total

    return Recipe(name="mine", observers=observers, assign_signals=assign, aggregation="token-mean", **fields)


def number(trajectory: Trajectory) -> int:
    return int(trajectory.id.rpartition(".")[2])


def test_async_observers_run_together_and_late_ones_leave_their_group(tmp_path: Path) -> None:
    """Six rollouts, 0.2 s each and one that never answers: one after another it would take more than a second."""
    at_once: list[int] = [0, 0]

    @reward
    async def judged(trajectory: Trajectory) -> float:
        at_once[0] += 1
        at_once[1] = max(at_once)
        await asyncio.sleep(60 if number(trajectory) == 4 else 0.2)
        at_once[0] -= 1
        return float(number(trajectory) % 2)

    made = trainer(tmp_path, recipe=centred(judged), observe_timeout=0.5, logging_strategy="steps", logging_steps=1)
    began = time.perf_counter()
    made.train()
    assert time.perf_counter() - began < 6
    assert at_once[1] == 6
    credit = made.last_credit
    assert credit is not None
    per_rollout = credit.advantages.pool(Level.TRAJECTORY, "mean")
    assert per_rollout.known.tolist() == [True, True, True, True, False, True]
    assert per_rollout.values.tolist() == pytest.approx([-1 / 3, 2 / 3, -1 / 3, 0.0, 0.0, 0.0])
    logged = made.state.log_history[0]
    assert logged["apportion/groups/judged/effective_n"] == 2.5
    assert logged["apportion/rewards/judged/missing_share"] == pytest.approx(1 / 6)


def test_a_slot_holds_back_what_is_too_much(tmp_path: Path) -> None:
    most = [0, 0]

    @reward
    async def judged(trajectory: Trajectory) -> float:
        most[0] += 1
        most[1] = max(most)
        await asyncio.sleep(0.01)
        most[0] -= 1
        return 1.0

    trainer(tmp_path, recipe=centred(judged), observe_concurrency=2).train()
    assert most[1] == 2


def test_an_observer_that_only_fails_stops_training(tmp_path: Path) -> None:
    @reward
    def judged(trajectory: Trajectory) -> float:
        raise ConnectionError("no route to the judge")

    made = trainer(tmp_path, recipe=centred(outcome(), judged))
    with pytest.raises(ObserverFailing, match=r"'judged' failed on 6 of 6 .*'0\.0': ConnectionError: no route"):
        made.train()
    assert made.state.global_step == 0


def test_what_is_only_watched_stops_nothing(tmp_path: Path) -> None:
    @reward
    def judged(trajectory: Trajectory) -> float:
        raise ConnectionError("no route to the judge")

    made = trainer(tmp_path, recipe=centred(outcome(), metric(judged)))
    made.train()
    assert made.state.global_step == 1
    assert made.last_credit is not None
    assert not made.last_credit.rewards["judged"].known.any()


def test_how_much_may_fail_is_a_setting(tmp_path: Path) -> None:
    @reward
    def judged(trajectory: Trajectory) -> float | Failed:
        return Failed("down") if number(trajectory) < 2 else 1.0

    trainer(tmp_path, recipe=centred(judged)).train()
    strict = trainer(tmp_path, recipe=centred(judged), observe_failure_limit=0.3)
    with pytest.raises(ObserverFailing, match="2 of 6"):
        strict.train()


def test_rewards_that_all_gave_none_stop_training_too(tmp_path: Path) -> None:
    """And so does a misnamed one: nothing would be left to train on."""

    def nothing(completion_ids: Any, **_: Any) -> list[None]:
        return [None] * len(completion_ids)

    with pytest.raises(ObserverFailing, match=r"'outcome' failed on 6 of 6 .*every reward function returned None"):
        trainer(tmp_path, recipe="grpo", reward_funcs=nothing).train()
    with pytest.raises(MissingInput, match=r"the column 'score'.*columns are"):
        trainer(tmp_path, recipe="grpo", recipe_args={"reward": "score"}).train()


def test_a_recipe_that_needs_turn_columns_says_where_they_come_from(tmp_path: Path) -> None:
    made = trainer(tmp_path, recipe="rlvp", rollout_func=None, max_completion_length=4)
    with pytest.raises(MissingInput, match=r"a turn column 'violations'.*rollout_func.*recipe_args=\{'rules'"):
        made.train()


def test_observers_are_asked_once_per_generation(tmp_path: Path) -> None:
    asked: list[int] = []

    class Outcome:
        name, level = "outcome", Level.TRAJECTORY

        def observe(self, trajectories: Any) -> list[Scored]:
            asked.append(len(trajectories))
            return [Scored(float(number(t) % 2)) for t in trajectories]

    trainer(
        tmp_path,
        recipe=centred(Outcome()),
        num_iterations=2,
        steps_per_generation=2,
        per_device_train_batch_size=3,
        max_steps=8,
    ).train()
    assert asked == [6, 6]


@pytest.mark.parametrize(
    ("setting", "value"), [("observe_timeout", 0), ("observe_concurrency", 0), ("observe_failure_limit", 2.0)]
)
def test_limits_are_checked_before_anything_is_loaded(setting: str, value: float, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=setting.removeprefix("observe_")):
        trainer(tmp_path, **{setting: value})


def test_partial_none_and_weights_are_trls_sum(tmp_path: Path) -> None:
    """Absent rewards add nothing to "reward"; it is missing only where every function gave None."""

    def sometimes(completion_ids: Any, **_: Any) -> list[float | None]:
        return [None if i % 2 else 10.0 for i in range(len(completion_ids))]

    def mostly(completion_ids: Any, **_: Any) -> list[float | None]:
        return [None if i == 3 else float(i) for i in range(len(completion_ids))]

    made = trainer(tmp_path, recipe="dr_grpo", reward_funcs=[sometimes, mostly], reward_weights=[0.5, 2.0])
    made.train()
    credit = made.last_credit
    assert credit is not None
    assert credit.rewards["outcome"].values.tolist() == [5.0, 2.0, 9.0, 0.0, 13.0, 10.0]
    assert credit.rewards["outcome"].known.tolist() == [True, True, True, False, True, True]
    # A recipe may ask for one of them by its name; then what it did not score is missing.
    one = trainer(
        tmp_path,
        recipe=centred(outcome("sometimes")),
        reward_funcs=[sometimes, mostly],
        reward_weights=[0.5, 2.0],
    )
    one.train()
    assert one.last_credit is not None
    assert one.last_credit.rewards["outcome"].known.tolist() == [True, False] * 3


def test_functions_of_one_name_are_summed_and_not_offered_by_name(tmp_path: Path) -> None:
    made = trainer(tmp_path, recipe="grpo", reward_funcs=[half_right, half_right])
    made.train()
    values = {t.columns["reward"] for t in made.last_rollouts}
    assert values <= {0.0, 2.0}
    assert all("half_right" not in t.columns for t in made.last_rollouts)


def test_a_reward_function_of_ours_stops_when_it_only_fails() -> None:
    @reward
    def judged(trajectory: Trajectory) -> float:
        raise ConnectionError("no route")

    with pytest.raises(ObserverFailing, match="2 of 2"):
        as_reward_func(judged)(prompts=["q"] * 2, completions=["a", "b"], completion_ids=[[1], [2]])
    lenient = as_reward_func(judged, failure_limit=1.0)
    assert lenient(prompts=["q"] * 2, completions=["a", "b"], completion_ids=[[1], [2]]) == [None, None]
