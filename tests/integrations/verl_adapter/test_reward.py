"""Scores as veRL's reward managers ask for them."""

from __future__ import annotations

import asyncio
import inspect
import threading
from pathlib import Path
from typing import Any

import pytest

from apportion.errors import InvalidArgument
from apportion.integrations import verl
from apportion.integrations.verl.encoding import ABSENT, FAILED
from apportion.integrations.verl.reward import CHECKS

FILE = """
from apportion.rewards import reward as as_reward
{kind} reward(trajectory):
    asked = trajectory.columns["asked"]
    if asked == "raise":
        raise RuntimeError("sandbox lost")
    return {{"one": 1.0, "none": None, "nan": float("nan")}}[asked]
"""


def both(**given: Any) -> dict[str, Any]:
    """The two functions agree."""
    made: dict[str, Any] = verl.compute_score(**given)
    assert asyncio.run(verl.compute_score_async(**given)) == made
    return made


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    ("asked", "score", "verdict", "evidence"),
    [
        ("one", 1.0, "scored", ""),
        ("none", ABSENT, "abstained", "outcome returned None"),
        ("nan", FAILED, "failed", "not a finite number"),
        ("raise", FAILED, "failed", "RuntimeError: sandbox lost"),
    ],
)
def test_verdicts_of_a_users_reward(
    tmp_path: Path, kind: str, asked: str, score: float, verdict: str, evidence: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILE.format(kind=kind))
    made = both(data_source="d", solution_str="s", ground_truth=None, extra_info={"asked": asked}, reward=str(file))
    assert (made["score"], made["verdict"]) == (score, verdict)
    assert evidence in made["evidence"]


def test_checks_by_name_take_arguments() -> None:
    given: dict[str, Any] = {"data_source": "sums", "solution_str": "about 4.1", "ground_truth": "4"}
    assert both(**given, reward="numeric")["score"] == 0.0
    assert both(**given, reward="numeric", reward_args={"tol": 0.2})["score"] == 1.0
    assert both(**{**given, "ground_truth": None}, reward="numeric")["score"] == FAILED


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_can_be_made(name: str) -> None:
    needed = {"call_match": {"order": "parallel"}, "schema_match": {"schema": {"type": "object"}}}
    made = both(data_source="d", solution_str="{}", ground_truth="[]", reward=name, reward_args=needed.get(name))
    assert set(made) == {"score", "verdict", "evidence"}


def test_turns_of_the_agent_loop_are_the_rollouts_turns(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "def reward(trajectory):\n    return len(trajectory.turns) + (trajectory.turns[0].observation == 'ok')\n"
    )
    texts = [{"text": "ls", "observation": "ok"}, {"text": "done", "observation": ""}]
    made = both(
        data_source="d",
        solution_str="ls ok done",
        ground_truth=None,
        extra_info={"apportion_turns": texts},
        reward=str(file),
    )
    assert made["score"] == 3.0


def test_an_interrupted_rollout_is_missing() -> None:
    made = both(
        data_source="d", solution_str="4", ground_truth="4", extra_info={"rollout_status": "aborted"}, reward="numeric"
    )
    assert made["verdict"] == "failed"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"reward": "guess"}, "a file ending in .py, or one of call_match"),
        ({"reward": "numeric", "reward_args": {"toll": 1}}, "arguments of 'numeric': answer, relative, tol"),
        ({"reward": "absent.py"}, "a Python file that exists"),
        ({"reward": "absent.py", "reward_args": {"a": 1}}, "none: absent.py makes its own reward"),
    ],
)
def test_a_wrong_set_up_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        verl.compute_score("d", "s", "g", **given)


def test_rewards_of_turns_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from apportion.rewards import step_reward\nreward = step_reward()\n")
    with pytest.raises(InvalidArgument, match="a reward of whole trajectories"):
        verl.compute_score("d", "s", "g", reward=str(file))


def test_it_works_off_the_main_thread() -> None:
    found: list[float] = []
    worker = threading.Thread(
        target=lambda: found.append(verl.compute_score("d", r"\boxed{1/2}", "0.5", reward="maths")["score"])
    )
    worker.start()
    worker.join()
    assert found == [1.0]


def test_verl_finds_the_function_under_its_default_name() -> None:
    from tests.differential import needs

    utils = needs.trainer("verl.utils.import_utils", extra="verl")
    assert utils.load_extern_object("pkg://apportion.integrations.verl", "compute_score") is verl.compute_score
    assert not inspect.iscoroutinefunction(verl.compute_score)
    assert inspect.iscoroutinefunction(verl.compute_score_async)


def test_verls_validation_metrics_take_what_we_return() -> None:
    from tests.differential import needs

    metrics = needs.trainer("verl.trainer.ppo.metric_utils", extra="verl")
    found = [verl.compute_score("d", text, "4", reward="numeric") for text in ("4", "5", "no")]
    found.append(verl.compute_score("d", "4", "four", reward="numeric"))
    infos = {name: [one[name] for one in found] for name in found[0]}
    made = metrics.process_validation_metrics(["d"] * 4, ["a", "a", "b", "b"], infos)
    assert made["d"]["score"]["mean@2"] == pytest.approx(0.25)
    assert set(made["d"]) == {"score"}
