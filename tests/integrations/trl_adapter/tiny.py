"""A tiny random Qwen3, a tokenizer made in code, and a scripted three-turn rollout: a real trainer in seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import datasets
import torch
import trl
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils import get_json_schema

from apportion.environments.trl import TerminalTools
from apportion.integrations.trl import CreditGRPOTrainer

# As in Qwen3 the tags of tools are tokens of their own, but not special ones: decoding keeps them.
CONTROL, TAGS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], ["<tool_call>", "</tool_call>", "<tool_response>"]
SPECIAL = [*CONTROL, *TAGS]
TEMPLATE = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"
OURS = ("recipe", "recipe_args", "on_aggregation", "observe_timeout", "observe_concurrency", "observe_failure_limit")
THEIRS = ("rollout_func", "environment_factory", "tools", "callbacks", "eval_dataset")


def tokenizer(*, learn: bool = False) -> PreTrainedTokenizerFast:
    """One token per byte, or, with `learn`, merges learned from tool prompts, which are long."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate([*SPECIAL, *alphabet])}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    if learn:
        made.train_from_iterator(
            _prompts(),
            trainers.BpeTrainer(
                vocab_size=800, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False, min_frequency=1
            ),
        )
    made.add_special_tokens(CONTROL)
    made.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE.read_text()
    return fast


@cache
def _prompts() -> list[str]:
    tools = [get_json_schema(getattr(TerminalTools, name)) for name in ("cat", "edit", "rm", "wait", "run", "submit")]
    message = [{"role": "user", "content": TerminalTools().reset(seed=0)}]
    text: Any = tokenizer().apply_chat_template(message, tools=tools, tokenize=False)
    return [text]


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
        max_position_embeddings=4096,
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


def dataset(rows: list[dict[str, Any]]) -> datasets.Dataset:
    return datasets.Dataset.from_list(rows)


def half_right(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    """A reward that varies inside every group."""
    return [float((len(ids) + ids[0]) % 2) for ids in completion_ids]


def trainer(folder: Path, *, reward_funcs: Any = half_right, seed: int = 0, **settings: Any) -> CreditGRPOTrainer:
    """A trainer for one step over six rollouts in groups of three; settings of the config, the trainer and ours."""
    given = {name: settings.pop(name) for name in (*OURS, *THEIRS) if name in settings}
    given.setdefault("rollout_func", three_turns)
    kind: Callable[..., Any] = settings.pop("kind", CreditGRPOTrainer)
    words = settings.pop("words", None) or tokenizer()
    weights = settings.pop("model", None) or model(len(words), seed)
    rows = settings.pop("rows", None) or [
        {"prompt": p} for p in settings.pop("prompts", [f"task {i}" for i in range(8)])
    ]
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
    return kind(
        model=weights,
        reward_funcs=reward_funcs,
        args=trl.GRPOConfig(**config),
        train_dataset=dataset(rows),
        processing_class=words,
        **given,
    )
