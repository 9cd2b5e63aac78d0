"""Scoring chunk by chunk: steps stay apart, state goes from one to the next, failures stop it in time."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from apportion.advantages.group_stat import group_stat
from apportion.batch import Batch
from apportion.errors import InvalidArgument, ObserverFailing
from apportion.recipe import Recipe
from apportion.recipes import load
from apportion.report.scoring import Scoring, read_state, write_state
from apportion.rewards import outcome
from apportion.rollouts import Trajectory
from apportion.signal import Signal


def made(*, scope: Any = "group", initial: Mapping[str, Any] | None = None) -> tuple[Recipe, list[tuple[Any, int]]]:
    calls: list[tuple[Any, int]] = []

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: Any) -> Any:
        calls.append((step, len(batch)))
        advantages = group_stat(signals["outcome"], scale="none")
        return (advantages, {"seen": state["seen"] + len(batch)}) if initial else advantages

    recipe = Recipe(
        name="mine",
        observers=[outcome("reward")],
        assign_signals=assign,
        aggregation="token-mean",
        scope=scope,
        initial_state=initial or {},
    )
    return recipe, calls


def row(id: str, reward: float | None, step: int | None = None, **fields: Any) -> Trajectory:
    return Trajectory(id=id, group="q", step=step, response_ids=[1], columns={"reward": reward}, **fields)


def test_a_group_id_that_returns_at_another_step_is_scored_apart() -> None:
    recipe, calls = made()
    rows = [row("a", 1.0, 1), row("b", 0.0, 2), row("c", 0.0, 1), row("d", 0.0, 2)]
    records = list(Scoring(recipe).records(rows))
    assert calls == [(1, 2), (2, 2)]
    assert {r["id"]: r["advantages"]["values"] for r in records} == {"a": 0.5, "c": -0.5, "b": 0.0, "d": 0.0}


def test_state_goes_from_step_to_step_and_resumes(tmp_path: Path) -> None:
    recipe, _ = made(initial={"seen": 0})
    scoring = Scoring(recipe)
    assert scoring.by_step
    list(scoring.records([row("a", 1.0, 1), row("b", 1.0, 2)]))
    assert scoring.state == {"seen": 2}
    path = tmp_path / "state.json"
    write_state(path, recipe, scoring.state)
    resumed = Scoring(recipe, state=read_state(path, recipe))
    list(resumed.records([row("c", 1.0, 3)]))
    assert resumed.state == {"seen": 3}
    assert recipe.initial_state == {"seen": 0}


@pytest.mark.parametrize(("scope", "by_step"), [("group", False), ("batch", True)])
def test_statistics_over_a_batch_need_whole_steps(scope: str, by_step: bool) -> None:
    assert Scoring(made(scope=scope)[0]).by_step is by_step


def test_no_state_file_is_the_beginning(tmp_path: Path) -> None:
    assert read_state(tmp_path / "absent.json", made()[0]) is None
    assert read_state(None, made()[0]) is None


STATE = {"format": "apportion-state", "version": 1, "recipe": "made", "state": {}}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"format": "other"}',
        json.dumps({"format": "apportion-state"}),
        json.dumps({name: value for name, value in STATE.items() if name != "recipe"}),
        json.dumps({name: value for name, value in STATE.items() if name != "state"}),
        json.dumps(STATE | {"state": [["a", 1]]}),
        json.dumps(STATE)[:-1],
        "[" * 100_000,
    ],
)
def test_another_file_is_no_state(tmp_path: Path, content: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(content)
    with pytest.raises(InvalidArgument, match="apportion score --state"):
        read_state(path, made()[0])


def test_the_state_of_another_recipe_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps({"format": "apportion-state", "version": 1, "recipe": "theirs", "state": {}}))
    with pytest.raises(InvalidArgument, match="'theirs'"):
        read_state(path, made()[0])


@pytest.mark.parametrize("state", [{"x": float("nan")}, {"x": object()}, {"x": (1, 2)}, {"x": {1: 2}}])
def test_a_state_that_json_cannot_hold_is_refused(tmp_path: Path, state: dict[str, Any]) -> None:
    path = tmp_path / "state.json"
    with pytest.raises(InvalidArgument, match="state"):
        write_state(path, made()[0], state)
    assert not list(tmp_path.iterdir())


def aborted(count: int, of: int) -> Sequence[Trajectory]:
    return [
        row(str(i), None, status="aborted", error="machine lost") if i < count else row(str(i), 1.0) for i in range(of)
    ]


def test_failures_are_judged_over_everything_seen() -> None:
    scoring = Scoring(made()[0], failure_limit=0.5)
    list(scoring.records(aborted(3, 4)))
    scoring.check(enough=10)
    with pytest.raises(ObserverFailing, match=r"3 of 4 \(75%.*'0': .*machine lost"):
        scoring.check()


def test_as_many_failures_as_allowed_are_no_reason_to_stop() -> None:
    scoring = Scoring(made()[0], failure_limit=0.5)
    list(scoring.records(aborted(2, 4)))
    scoring.check()


def test_token_and_text_rollouts_do_not_mix() -> None:
    with pytest.raises(InvalidArgument, match="tokens"):
        list(Scoring(made()[0]).records([row("a", 1.0), Trajectory(id="b", group="q", columns={"reward": 1.0})]))


def test_a_reward_that_is_only_recorded_does_not_stop_the_stream() -> None:
    rows = [
        Trajectory(id=str(i), group="q", response_ids=[1], columns={"reward": i, "style": float("nan")})
        for i in range(2)
    ]
    scoring = Scoring(load("gdpo", rewards="reward,style", weights="1,0"))
    assert len(list(scoring.records(rows))) == 2
    scoring.check()
    assert scoring.totals.rewards["style"].failed == 2
    used = Scoring(load("gdpo", rewards="reward,style", weights="1,1"))
    list(used.records(rows))
    with pytest.raises(ObserverFailing, match="style"):
        used.check()
