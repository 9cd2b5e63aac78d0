"""Traces in, scores and credit out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from apportion.errors import InvalidArgument, ObserverFailing
from apportion.integrations.verifiers import as_reward, assign, rollout_of
from apportion.recipes import load
from apportion.rewards import outcome, reward
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Failed
from tests.integrations.verifiers_adapter import stand_ins


@pytest.fixture(autouse=True)
def _verifiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one function that is called of it, where it is not installed."""
    if stand_ins.vf is None:
        module = ModuleType("verifiers.v1")

        def mark(function: Any, weight: float = 1.0) -> Any:
            function._vf_weight = weight
            return function

        module.reward = mark  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "verifiers", ModuleType("verifiers"))
        monkeypatch.setitem(sys.modules, "verifiers.v1", module)


def test_a_trace_is_token_exact() -> None:
    t = rollout_of(stand_ins.trace())
    assert (t.id, t.group, t.status) == ("t0", "q", "terminated")
    assert t.prompt_ids is not None
    assert t.response_ids is not None
    assert t.policy is not None
    assert t.prompt_ids.tolist() == [1, 2, 3]
    assert t.response_ids.tolist() == [10, 11, 4, 5, 6, 12]
    assert t.policy.tolist() == [True, True, False, False, False, True]
    assert t.behaviour_logps is not None
    assert t.behaviour_logps[t.policy].tolist() == [-0.5] * 3
    assert [turn.span for turn in t.turns] == [(0, 5), (5, 6)]
    assert [turn.observation for turn in t.turns] == ["Grace", ""]
    assert [action.name for action in t.turns[0].actions] == ["find"]
    assert t.turns[1].text == "Grace"
    assert t.columns["correct"] == 1.0
    assert t.columns["length"] == 3.0
    assert t.columns["prompt"] == "who?"


def test_ends_and_rewards_that_were_not_computed() -> None:
    lost = rollout_of(stand_ins.trace(error="no sandbox"))
    assert lost.status == "aborted"
    assert "no sandbox" in str(lost.error)
    assert rollout_of(stand_ins.trace(stop="max_turns")).status == "truncated"
    assert rollout_of(stand_ins.trace(stop="agent_timeout")).status == "truncated"
    assert isinstance(rollout_of(stand_ins.trace(rewards={"correct": None})).columns["reward"], Failed)
    assert "reward" not in rollout_of(stand_ins.trace(rewards={})).columns


def test_a_trace_without_tokens_is_text() -> None:
    t = rollout_of(stand_ins.trace(tokens=False))
    assert not t.has_tokens
    assert [turn.observation for turn in t.turns] == ["Grace", ""]


def test_credit_is_written_per_sampled_token() -> None:
    traces = [
        stand_ins.trace("a", rewards={"correct": 1.0}),
        stand_ins.trace("b", rewards={"correct": 0.0}),
        stand_ins.trace("c", rewards={"correct": None}),
    ]
    credit, state = assign(traces, load("grpo"))
    assert state == {}
    written = [[node.advantages for node in trace.nodes] for trace in traces]
    up = pytest.approx(2**-0.5)
    assert written[0] == [None, [up, up], None, [up]]
    assert written[1][1] == [-up.expected] * 2
    assert written[2] == [None, [0.0, 0.0], None, [0.0]]
    assert credit.aggregation == "seq-mean-token-mean"


def test_what_cannot_be_credited_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="traces with tokens"):
        assign([stand_ins.trace(tokens=False)], load("grpo"))
    forked = SimpleNamespace(id="f", branches=[SimpleNamespace(trainable=True), SimpleNamespace(trainable=True)])
    with pytest.raises(InvalidArgument, match="here are 2"):
        rollout_of(forked)


def test_a_reward_scores_a_trace() -> None:
    @reward
    def length(trajectory: Trajectory) -> float | None:
        return float(len(trajectory.turns))

    made = as_reward(length, weight=0.5)
    assert made.__name__ == "length"
    assert made._vf_weight == 0.5  # type: ignore[attr-defined]
    assert asyncio.run(made(stand_ins.trace())) == {"length": 2.0}  # type: ignore[arg-type]


def test_a_missing_verdict_is_no_number() -> None:
    @reward
    def silent(trajectory: Trajectory) -> float | None:
        return None

    @reward
    def broken(trajectory: Trajectory) -> float | None:
        raise RuntimeError("sandbox lost")

    assert asyncio.run(as_reward(silent)(stand_ins.trace())) == {}  # type: ignore[arg-type]
    with pytest.raises(ObserverFailing, match="sandbox lost"):
        asyncio.run(as_reward(broken)(stand_ins.trace()))  # type: ignore[arg-type]


def test_a_reward_of_turns_belongs_to_a_recipe() -> None:
    class Turns:
        name, level = "turns", Level.TURN

        def observe(self, trajectories: Sequence[Trajectory]) -> Any: ...

    with pytest.raises(InvalidArgument, match="belong to a recipe"):
        as_reward(Turns())


@pytest.mark.skipif(stand_ins.vf is None, reason="verifiers is not installed")
def test_its_own_scoring_takes_the_function_from_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    vf = stand_ins.vf
    module = ModuleType("my_task")
    module.correct = as_reward(outcome("length", name="correct"), weight=2.0)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_task", module)
    config = vf.TaskConfig.model_validate({"rewards": {"correct": {"fn": "my_task:correct"}}})
    trace = stand_ins.trace(rewards={})
    asyncio.run(vf.Task(vf.TaskData(idx=0), config).score(trace))
    assert trace.rewards["correct"].score == 3.0
    assert trace.reward == 6.0
