"""A random two-layer Qwen3, a tokenizer of single bytes and a data set, written to a folder."""

from __future__ import annotations

from pathlib import Path

import datasets
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte."""
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.add_special_tokens(SPECIAL)
    words = PreTrainedTokenizerFast(tokenizer_object=made, eos_token=SPECIAL[2], pad_token=SPECIAL[0])
    words.chat_template = TEMPLATE
    return words


def write(folder: Path, *, prompts: int) -> None:
    """`folder/model` and `folder/train.parquet`."""
    words = tokenizer()
    words.save_pretrained(folder / "model")
    config = Qwen3Config(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    Qwen3ForCausalLM(config).to(torch.float32).save_pretrained(folder / "model")
    rows = [
        {
            "data_source": "tiny",
            "prompt": [{"role": "user", "content": f"task {i}"}],
            "ability": "none",
            "reward_model": {"style": "rule", "ground_truth": str(i)},
            "extra_info": {"index": i},
        }
        for i in range(prompts)
    ]
    datasets.Dataset.from_list(rows).to_parquet(folder / "train.parquet")
