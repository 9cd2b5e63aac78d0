"""A recipe's state is saved with the checkpoint, and a resumed run gives identical credit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

from apportion.advantages import group_center
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe
from apportion.rewards import outcome
from tests.integrations.trl_adapter.tiny import trainer

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")


class Killed(Exception):
    """The machine went away."""


class Kill(TrainerCallback):
    """Stops without a word in the middle of step 3, after the checkpoint of step 2."""

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 2:
            raise Killed

    on_pre_optimizer_step = on_substep_end


def running(**fields: Any) -> Recipe:
    """Centred by the mean of all outcomes so far, which is its state."""

    def assign(batch: Any, signals: Any, *, step: int, state: Any) -> Any:
        x = signals["outcome"]
        seen, total = state["seen"] + len(batch), state["total"] + float(x.values.sum())
        shifted = x.changed(x.values - total / seen, because="running mean")
        return group_center(x) + shifted, {"seen": seen, "total": total}

    return Recipe(
        name="running",
        observers=[outcome()],
        assign_signals=assign,
        aggregation="token-mean",
        initial_state={"seen": 0, "total": 0.0},
        **fields,
    )


@pytest.mark.parametrize("recipe", ["rlvp", "running"])
def test_a_killed_run_continues_with_identical_credit(tmp_path: Path, recipe: str) -> None:
    settings: dict[str, Any] = {"recipe": running(), "save_strategy": "steps", "save_steps": 2, "max_steps": 4}
    if recipe == "rlvp":
        gate = {"gate": "reachable", "gate_share": 0.9, "anneal_after": 3}
        settings |= {"recipe": "rlvp", "recipe_args": gate}
    whole = trainer(tmp_path / "whole", **settings)
    whole.train()
    first = trainer(tmp_path / "cut", callbacks=[Kill()], **settings)
    with pytest.raises(Killed):
        first.train()
    saved = json.loads((tmp_path / "cut" / "checkpoint-2" / "apportion_state.json").read_text())
    assert saved["recipe"] == recipe
    if recipe == "running":
        assert (saved["state"]["seen"], first.recipe_state["seen"]) == (12, 18)
    second = trainer(tmp_path / "cut", **settings)
    second.train(resume_from_checkpoint=True)
    assert second.recipe_state == whole.recipe_state
    assert second.last_credit is not None
    assert whole.last_credit is not None
    assert torch.equal(second.last_credit.advantages.values, whole.last_credit.advantages.values)
    ledgers = [made.last_credit.ledger() for made in (second, whole) if made.last_credit is not None]
    assert all(torch.equal(term, ledgers[1][name]) for name, term in ledgers[0].items())


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path: Path) -> None:
    trainer(tmp_path, recipe="rlvp", save_strategy="steps", save_steps=1).train()
    other = trainer(tmp_path, recipe="grpo", max_steps=2)
    with pytest.raises(InvalidArgument, match="'rlvp'"):
        other.train(resume_from_checkpoint=True)
    (tmp_path / "checkpoint-1" / "apportion_state.json").unlink()
    with pytest.raises(InvalidArgument, match="give them as the model"):
        other.train(resume_from_checkpoint=True)


@pytest.mark.parametrize("state", [{1: 0.5}, {"seen": torch.tensor(1.0)}, {"rows": (1, 2)}, {"mean": float("nan")}])
def test_a_state_that_would_not_come_back_the_same_is_refused_at_once(tmp_path: Path, state: dict[Any, Any]) -> None:
    recipe = Recipe(
        name="odd",
        observers=[outcome()],
        assign_signals=lambda batch, signals, *, step, state: (group_center(signals["outcome"]), odd),
        aggregation="token-mean",
    )
    odd = state
    with pytest.raises(InvalidArgument, match="saved as JSON"):
        trainer(tmp_path, recipe=recipe).train()
