"""The example's potential file, by name in a recipe, as the command line loads it."""

from pathlib import Path

import pytest
import tokenizers
import transformers

import apportion
from apportion.rollouts import Trajectory, Turn
from tests.judges.scoring.tiny import WIDTH, qwen3

EXAMPLE = Path(__file__).parents[4] / "examples" / "trace_potential.py"


def test_a_potential_file_with_a_model_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["?", "The", "answer", "is", "Paris", *(f"w{index}" for index in range(WIDTH - 5))]
    model = tokenizers.models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="?")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="?").save_pretrained(tmp_path)
    qwen3().save_pretrained(tmp_path)
    monkeypatch.setenv("REFERENCE_MODEL", str(tmp_path))
    turns = (Turn(observation="seen"), Turn(text="Paris"))
    rollouts = [
        Trajectory(
            id=f"r{reward}",
            group="q",
            prompt_ids=[7],
            response_ids=[8, 9 + reward, 10],
            policy=[1, 0, 1],
            turns=turns,
            reference="Paris",
            columns={"reward": reward},
        )
        for reward in (0, 1)
    ]
    credit, _ = apportion.load("trace", potential=str(EXAMPLE)).score(rollouts)
    lost, lost_answer, won, won_answer = credit.advantages.values.tolist()
    assert (lost_answer, won_answer) == pytest.approx((-1.0, 1.0), abs=1e-3)
    # Other results were shown, so the turns earned different parts beside the outcome and its fill.
    assert lost != pytest.approx(-won, abs=1e-3)
