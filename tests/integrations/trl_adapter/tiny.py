"""A tiny random Qwen3, a byte tokenizer made in code, and a scripted three-turn rollout: a real trainer in seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import torch
import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from apportion.integrations.trl import CreditGRPOTrainer

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>"]
TEMPLATE = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"


def tokenizer() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *alphabet])}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(SPECIAL)
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE.read_text()
    return fast


def model(vocabulary: int, seed: int = 0) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=2,
        pad_token_id=0,
    )
    return Qwen3ForCausalLM(config)


def three_turns(prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
    """Scripted rollouts of one to three moves, each but the last answered; a row depends on its global index only."""
    rows: dict[str, Any] = {"prompt_ids": [], "completion_ids": [], "logprobs": [], "env_mask": [], "turn_columns": []}
    first = trainer.accelerator.process_index * len(prompts)
    for i, prompt in enumerate(prompts, start=first):
        generator = torch.Generator().manual_seed(1000 * int(trainer.state.global_step) + i)
        ids: list[int] = []
        mask: list[int] = []
        n_turns = 1 + i % 3
        for turn in range(n_turns):
            move = torch.randint(len(SPECIAL), 200, (1 + (i + turn) % 3,), generator=generator).tolist()
            observation = [40 + turn] * 2 if turn < n_turns - 1 else []
            ids += move + observation
            mask += [1] * len(move) + [0] * len(observation)
        rows["prompt_ids"].append(trainer.processing_class(prompt)["input_ids"])
        rows["completion_ids"].append([*ids, 2])
        rows["env_mask"].append([*mask, 1])
        rows["logprobs"].append([-1.0] * (len(ids) + 1))
        facts = [
            {"violations": int(turn == 1), "fulfilments": int(turn == 0 and i % 2 == 0)} for turn in range(n_turns)
        ]
        rows["turn_columns"].append(facts)
    return rows


def half_right(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    """A reward that varies inside every group."""
    return [float((len(ids) + ids[0]) % 2) for ids in completion_ids]


def trainer(folder: Path, *, reward_funcs: Any = half_right, seed: int = 0, **settings: Any) -> CreditGRPOTrainer:
    ours = {
        name: settings.pop(name)
        for name in ("recipe", "recipe_args", "on_aggregation", "rollout_func", "environment_factory", "callbacks")
        if name in settings
    }
    ours.setdefault("rollout_func", three_turns)
    kind: Callable[..., Any] = settings.pop("kind", CreditGRPOTrainer)
    prompts = settings.pop("prompts", [f"task {i}" for i in range(8)])
    config = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 6,
        "gradient_accumulation_steps": 1,
        "num_generations": 3,
        "max_completion_length": 24,
        "max_steps": 1,
        "learning_rate": 1e-2,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_strategy": "no",
        "shuffle_dataset": False,
        **settings,
    }
    words = tokenizer()
    return kind(
        model=model(len(words), seed),
        reward_funcs=reward_funcs,
        args=trl.GRPOConfig(**config),
        train_dataset=datasets.Dataset.from_list([{"prompt": p} for p in prompts]),
        processing_class=words,
        **ours,
    )
