"""Real training runs of veRL, two optimizer steps each: what reached the actor is what the library says.

A run takes a minute or more, so these belong to `make test-verl`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from apportion.batch import Batch
from apportion.recipe import Recipe
from apportion.recipes import load
from apportion.rollouts import Level
from apportion.verdicts import Abstained, Failed, Scored, Verdict
from tests.differential import needs

pytestmark = pytest.mark.skipif(os.environ.get("APPORTION_VERL_RUNS") != "1", reason="run with make test-verl")

needs.trainer("verl", extra="verl")

REWARD = '''
"""The outcome follows from which session it is; one in four fails, one abstains."""


def reward(trajectory):
    session, index = trajectory.columns["session"], trajectory.columns["index"]
    if session == 1:
        raise RuntimeError("sandbox lost")
    return None if (session, index % 2) == (3, 0) else ((session + index) % 3) / 2
'''


def outcome(session: Mapping[str, Any]) -> Verdict:
    """The same without veRL."""
    if session["session"] == 1:
        return Failed("sandbox lost")
    if (session["session"], session["index"] % 2) == (3, 0):
        return Abstained("nothing to say")
    return Scored(((session["session"] + session["index"]) % 3) / 2)


def run(folder: Path, loop: str, **overrides: Any) -> Any:
    from tests.integrations.verl_adapter.cpu_platform import HERE, harness

    file = folder / "rewards.py"
    file.write_text(REWARD)
    chosen = {
        "reward.custom_reward_function.path": "pkg://apportion.integrations.verl",
        "+reward.custom_reward_function.reward_kwargs.reward": file,
        **{name.replace("__", "."): value for name, value in overrides.items()},
    }
    made = harness.run_main_ppo(folder, chosen, loop=f"{HERE}.loops.{loop}", limit=900)
    assert made.returncode == 0, made.output[-4000:]
    assert len(made.actor) == 2
    return made


def sessions_of(made: Any, step: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The session of every row, by its uid and tokens."""
    known = {(one["uid"], tuple(one["ids"])): one for one in made.sessions}
    lengths = [len(one["ids"]) for one in made.sessions]
    found = []
    for uid, row in zip(step["uid"], step["responses"].tolist(), strict=True):
        (one,) = {id(known[key]): known[key] for n in set(lengths) if (key := (uid, tuple(row[:n]))) in known}.values()
        found.append(one)
    return found


def expected(recipe: Recipe, step: Mapping[str, Any], sessions: list[Mapping[str, Any]]) -> Tensor:
    """The library's advantages from what the agent loop saw; KL is veRL's own number."""
    mask = step["response_mask"]
    kl = (step["rm_scores"] - step.get("token_level_rewards", step["rm_scores"])).to(torch.float64).sum(1).tolist()
    batch = Batch.from_mask(mask, step["uid"])
    solved = [outcome(one) for one in sessions]
    solved = [Scored(v.value - k) if isinstance(v, Scored) else v for v, k in zip(solved, kl, strict=True)]
    verdicts: dict[str, Any] = {"outcome": solved}
    for observer in recipe.observers:
        if observer.level is Level.TURN:
            verdicts[observer.name] = [
                [Scored(float(facts[observer.name])) for facts in one["turn_columns"]] for one in sessions
            ]
    made: Tensor = recipe.assign(batch, verdicts)[0].padded(width=mask.shape[1])
    return made


def logged(output: str, name: str) -> list[float]:
    """A metric of every step, from what the console logger printed."""
    pattern = rf"{re.escape(name)}:(?:np\.\w+\()?(-?[\d.]+(?:e[-+]?\d+)?|nan|inf)"
    return [float(value) for value in re.findall(pattern, output)]


def check(made: Any, recipe: Recipe) -> None:
    for step, score in zip(made.actor, logged(made.output, "critic/score/mean"), strict=True):
        sessions = sessions_of(made, step)
        assert torch.allclose(step["advantages"], expected(recipe, step, sessions), rtol=0, atol=1e-6)
        assert float(step["advantages"].abs().max()) > 1e-3
        assert torch.equal(step["returns"], step["advantages"])
        shown = [v.value if isinstance(v, Scored) else 0.0 for v in map(outcome, sessions)]
        assert step["rm_scores"].sum(1).tolist() == pytest.approx(shown, abs=1e-6)
        assert score == pytest.approx(sum(shown) / len(shown), abs=1e-6)
        for name in ("response_mask", "rm_scores", "advantages", "returns"):
            assert bool(torch.isfinite(step[name]).all())
    for name in ("critic/rewards/mean", "critic/advantages/max", "actor/grad_norm", "actor/pg_loss"):
        values = logged(made.output, name)
        assert len(values) == 2
        assert all(abs(value) < 1e3 for value in values), (name, values)


def test_grpo_by_configuration_alone(tmp_path: Path) -> None:
    made = run(tmp_path, "ScriptedLoop", algorithm__adv_estimator="apportion_grpo")
    check(made, load("grpo"))
    for step in made.actor:
        missing = [not isinstance(outcome(one), Scored) for one in sessions_of(made, step)]
        assert any(missing)
        assert not step["advantages"][torch.tensor(missing)].any()


def test_rlvp_with_counts_of_turns_and_kl_in_the_reward(tmp_path: Path) -> None:
    made = run(
        tmp_path,
        "CreditScriptedLoop",
        algorithm__adv_estimator="apportion_rlvp",
        algorithm__use_kl_in_reward=True,
        algorithm__kl_ctrl__kl_coef=0.5,
    )
    check(made, load("rlvp"))
    last = made.actor[-1]
    moved = last["token_level_rewards"] != last["rm_scores"]
    assert bool(moved.any())
    assert not moved[last["response_mask"] == 0].any()
