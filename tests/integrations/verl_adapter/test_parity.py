"""The same scored rollouts through the library, the TRL adapter and the veRL adapter: equal advantages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from apportion.recipes import load
from apportion.rewards import observe
from apportion.rollouts import Layout, Trajectory, Turn
from tests.differential import needs
from tests.integrations.verl_adapter.cpu_platform import tiny
from tests.integrations.verl_adapter.playing import algorithm, computed, output, played

needs.trainer("trl", extra="trl")

RECIPES: dict[str, Mapping[str, Any]] = {
    "dr_grpo": {},
    "gigpo": {},
    "grpo": {},
    "mt_grpo": {},
    "mt_grpo, each": {"turns": "each"},
    "opo": {},
    "pbrs": {"column": "potential"},
    "procredit": {"column": "checks"},
    "pure": {"score": "score"},
    "reinforce_pp": {},
    "reinforce_pp_baseline": {},
    "rloo": {},
    "rlvp": {},
    "rlvp, c2": {"variant": "c2", "penalty": 0.5},
    "rlvp_centred": {},
    "trace": {"column": "potential"},
}
WIDTH = 32
WORDS = tiny.tokenizer()


def decode(ids: Sequence[int]) -> str:
    text: str = WORDS.decode(list(ids), skip_special_tokens=True)
    return text


def sessions() -> list[dict[str, Any]]:
    """Two prompts, short and long groups interleaved, one to three turns; one outcome is missing."""
    random = np.random.default_rng(0)
    made = []
    for i, uid in enumerate(["a", "b", "a", "a", "b", "a", "a"]):
        turns = 1 + i % 3
        ids: list[int] = []
        mask: list[int] = []
        for turn in range(turns):
            size = int(random.integers(1, 4))
            ids += random.integers(70, 90, size).tolist() + ([60, 61] if turn < turns - 1 else [])
            mask += [1] * size + ([0, 0] if turn < turns - 1 else [])
        facts: list[dict[str, Any]] = [
            {"violations": int(n), "fulfilments": int(m), "score": float(s), "potential": abs(float(s))}
            for n, m, s in zip(
                random.integers(0, 3, turns), random.integers(0, 2, turns), random.uniform(-1, 1, turns), strict=True
            )
        ]
        paid = [float(np.float32(r)) for r in random.uniform(0, 1, turns)]
        outcome = None if i == 3 else float(np.float32(random.uniform()))
        for one in facts:
            one["checks"] = {"passed": int(random.integers(0, 5)), "total": 4}
        columns = {"potential_start": float(random.uniform(0, 1)), "checks_start": {"passed": 1, "total": 4}}
        facts_of_all = {"facts": facts, "paid": paid, "outcome": outcome, "columns": columns}
        made.append({"uid": uid, "ids": ids, "mask": mask, **facts_of_all})
    return made


def by_library(recipe: Any) -> Tensor:
    rollouts = []
    for i, one in enumerate(sessions()):
        layout = Layout.from_mask(np.array(one["mask"], bool))
        stops = np.cumsum(layout.turn_lengths + layout.gap_lengths)
        spans = zip(stops - layout.turn_lengths - layout.gap_lengths, stops, strict=True)
        turns = [
            Turn(
                text=decode(one["ids"][a : a + size]),
                observation=decode(one["ids"][a + size : b]),
                span=(int(a), int(b)),
                reward=reward,
                columns=columns,
            )
            for (a, b), size, reward, columns in zip(spans, layout.turn_lengths, one["paid"], one["facts"], strict=True)
        ]
        rollouts.append(
            Trajectory(
                id=str(i),
                group=one["uid"],
                response_ids=one["ids"],
                policy=one["mask"],
                turns=tuple(turns),
                columns=one["columns"] if one["outcome"] is None else {**one["columns"], "reward": one["outcome"]},
            )
        )
    made: Tensor = recipe.score(rollouts)[0].padded(width=WIDTH)
    return made


def by_trl(recipe: Any) -> Tensor:
    """What `CreditMixin` does between TRL's generation and its loss."""
    from apportion.integrations.trl.gathering import gathered
    from apportion.integrations.trl.rollouts import Completion, to_trajectory
    from apportion.integrations.trl.steps import Recorded

    rollouts = []
    for i, one in enumerate(sessions()):
        mask = np.array(one["mask"], bool)
        completion = Completion(
            id=str(i),
            group=one["uid"],
            prompt="task",
            prompt_ids=np.array([5, 6]),
            response_ids=np.array(one["ids"]),
            written=mask,
            in_loss=mask,
            logps=None,
            completion="text",
            row=one["columns"],
            rewards={},
            reward=one["outcome"],
            ended=True,
            per_turn=Recorded(rewards=one["paid"], columns=one["facts"]),
        )
        rollouts.append(to_trajectory(completion, step=0, decode=decode))
    everyone = gathered(rollouts, observe(recipe.observers, rollouts))
    credit, _ = recipe.assign(everyone.batch, everyone.verdicts)
    made: Tensor = credit.padded(width=WIDTH)
    return made


def by_verl(name: str, parameters: Mapping[str, Any], *, kl: bool) -> Tensor:
    from apportion.integrations.verl import FAILED

    config = algorithm(f"apportion_{name}", kl=kl, **parameters)
    fields = [
        played(
            output(
                one["ids"],
                one["mask"],
                turn_columns=one["facts"],
                turn_rewards=one["paid"],
                rollout_columns=one["columns"],
            ),
            config,
            score=FAILED if one["outcome"] is None else one["outcome"],
        )
        for one in sessions()
    ]
    made, _ = computed(fields, [one["uid"] for one in sessions()], config)
    return torch.nn.functional.pad(made, (0, WIDTH - made.shape[1]))


@pytest.mark.parametrize("case", RECIPES)
def test_three_ways_to_one_credit(case: str) -> None:
    name, parameters = case.partition(",")[0], RECIPES[case]
    library = by_library(load(name, **parameters))
    assert float(library.abs().max()) > 1e-3
    assert torch.allclose(by_trl(load(name, **parameters)), library, rtol=0, atol=1e-6)
    for kl in (False, True):
        assert torch.allclose(by_verl(name, parameters, kl=kl), library, rtol=0, atol=1e-6)
