"""TRL's real tool loop with scripted moves in place of a model's: everything but the sampling is TRL's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.integrations.trl_adapter import tiny
from tests.integrations.trl_adapter.watching import Watching

# Stands for a move that ran into the length limit: no end token follows.
CUT = "<cut>"


def call(name: str, **arguments: Any) -> str:
    """A tool call as Qwen3 writes it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


class Scripted(Watching):
    """`script[row][k]` is what row writes as its k-th move."""

    script: Sequence[Sequence[str]] = ()

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        self._written: list[list[int]] = [[] for _ in self.script]
        self._moves = [0] * len(self.script)
        return super()._generate(*args, **kwargs)

    def _generate_single_turn(self, prompt_ids: Sequence[list[int]], *args: Any, **kwargs: Any) -> tuple[Any, None]:
        free = [row for row, moves in enumerate(self.script) if self._moves[row] < len(moves)]
        answers = []
        for prompt in prompt_ids:
            row = next(row for row in free if prompt[: len(self._written[row])] == self._written[row])
            free.remove(row)
            text = self.script[row][self._moves[row]]
            self._moves[row] += 1
            whole = text.removesuffix(CUT) if text.endswith(CUT) else f"{text}<|im_end|>"
            ids = self.processing_class(whole)["input_ids"]
            self._written[row] = [*prompt, *ids]
            answers.append(ids)
        return answers, None


def scripted(folder: Path, script: Sequence[Sequence[str]], **settings: Any) -> Scripted:
    """One training step over the script; rows of one prompt are neighbours, two by two unless said otherwise."""
    settings = {
        "num_generations": 2,
        "per_device_train_batch_size": len(script),
        "max_completion_length": 400,
        "rollout_func": None,
        "recipe": "rlvp",
        "kind": Scripted,
        "words": tiny.tokenizer(learn=True),
        **settings,
    }
    if "rows" not in settings and "prompts" not in settings:
        settings["rows"] = [{"prompt": [{"role": "user", "content": f"q{i} "}], "seed": i} for i in range(len(script))]
    made: Any = tiny.trainer(folder, **settings)
    made.script = script
    made.train()
    return made  # type: ignore[no-any-return]
