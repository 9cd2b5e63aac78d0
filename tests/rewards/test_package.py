"""The package as a whole: its names, its imports, and that every ready-made reward keeps the contract."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

import apportion.rewards as rewards
from apportion.rewards import (
    before,
    called,
    checks_passed,
    clip,
    cosine_length,
    difference,
    exact,
    first_of,
    gate,
    observe,
    outcome,
    overlong,
    passes,
    path,
    reduce_turns,
    repetition,
    reward,
    scoped,
    step_reward,
    stop_properly,
    tag_format,
    tool_calls,
    unit_tests,
    weighted_mean,
)
from apportion.rollouts import Level, Trajectory, Turn
from apportion.verdicts import Abstained, Failed, Scored
from tests.rewards.builders import broken_call, call, kinds


@reward
def own(trajectory: Trajectory) -> float:
    return 1.0


def ready_made() -> dict[str, Any]:
    made = [
        outcome(exact()),
        outcome(),
        path([before(called("read"), called("edit"))]),
        path([before(called("read"), called("edit"))]).violations,
        checks_passed(),
        unit_tests(),
        difference(checks_passed(), initial=0.0),
        reduce_turns(checks_passed(), how="last"),
        overlong(max_tokens=8, cache=4),
        cosine_length(outcome(), max_tokens=8),
        stop_properly(outcome(), 0.5),
        tag_format(),
        tag_format(level=Level.TURN),
        tool_calls(),
        step_reward(unpaid="zero"),
        repetition(),
        own,
        own + 0.5 * tag_format(),
        gate(tag_format(), then=own),
        first_of([own, outcome()]),
        clip(own, high=0.5),
        scoped("maths", own),
        weighted_mean([(own, 1.0), (outcome(), 1.0)]),
        passes(own, at=0.5),
    ]
    return {f"{at}-{part.name}": part for at, part in enumerate(made)}


def rollout(id: str, turns: int, status: Any = "terminated") -> Trajectory:
    one = Turn(
        text="<think>x</think>",
        actions=(call("read"), broken_call(), call("edit")),
        observation="ok",
        columns={"checks": {"a": True}},
    )
    return Trajectory(
        id=id,
        group="q",
        response_ids=[1, 2, 9] * turns,  # type: ignore[arg-type]
        policy=[1, 1, 0] * turns,  # type: ignore[arg-type]
        turns=(one,) * turns,
        status=status,
        error="lost" if status == "aborted" else None,
        reference="x",
        columns={"reward": 1.0, "task": "maths"},
    )


ROLLOUTS = [
    rollout("none", 0),
    rollout("one", 1),
    rollout("cut", 2, "truncated"),
    rollout("lost", 1, "aborted"),
    rollout("three", 3),
]


@pytest.mark.parametrize("name", ready_made())
def test_every_reward_gives_verdicts_with_something_to_read(name: str) -> None:
    part = ready_made()[name]
    (found,) = observe([part], ROLLOUTS, failure_limit=1).values()
    for trajectory, entry in zip(ROLLOUTS, found, strict=True):
        row: Any = entry if part.level is Level.TURN else [entry]
        assert len(row) == (trajectory.n_turns if part.level is Level.TURN else 1)
        for verdict in row:
            told = {Scored: "evidence", Abstained: "reason", Failed: "error"}[type(verdict)]
            # A plain function that returns a bare number has nothing more to say.
            assert part.name in ("own", "own[maths]") or getattr(verdict, told)


@pytest.mark.parametrize("name", ready_made())
def test_every_reward_pickles_and_observes_the_same(name: str) -> None:
    part = ready_made()[name]
    again = pickle.loads(pickle.dumps(part))
    assert again.name == part.name
    one, other = (observe([made], ROLLOUTS, failure_limit=1)[part.name] for made in (part, again))
    assert one == other


@pytest.mark.parametrize("name", ready_made())
def test_observing_one_by_one_is_observing_together(name: str) -> None:
    part = ready_made()[name]
    together = observe([part], ROLLOUTS, failure_limit=1)[part.name]
    apart: list[Any] = []
    for trajectory in ROLLOUTS:
        apart.extend(observe([part], [trajectory], failure_limit=1)[part.name])
    assert together == apart


def test_a_lost_rollout_has_no_outcome_of_any_kind() -> None:
    lost = [rollout("lost", 1, "aborted")]
    of_the_whole = [
        outcome(),
        tag_format(),
        cosine_length(outcome(), max_tokens=8),
        reduce_turns(checks_passed(), how="last"),
        tool_calls(level=Level.TRAJECTORY),
    ]
    for part in of_the_whole:
        assert kinds(observe([part], lost, failure_limit=1)[part.name]) == "F", part.name


def test_public_names_resolve_and_are_sorted() -> None:
    assert list(rewards.__all__) == sorted(rewards.__all__)
    assert all(getattr(rewards, name) is not None for name in rewards.__all__)


def test_importing_rewards_does_not_import_torch() -> None:
    code = "import sys, apportion.rewards; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
