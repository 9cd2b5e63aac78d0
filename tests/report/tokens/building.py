"""A tokenizer of a few hundred ids built here, chat templates, and token-exact rollouts made with them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from apportion.report.tokens import TokenAudit
from apportion.report.tokens.tokenizer import encode, render
from apportion.rollouts import Trajectory

BODY = "{{ m['content'] }}"
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n" + BODY + "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Qwen-like: history loses its thinking, an answer without any gets an empty block.
FORGETS = CHATML.replace(
    BODY,
    "{% set text = m['content'] %}{% if m['role'] == 'assistant' %}{% set text = text.split('</think>\n\n')[-1] %}"
    "{% endif %}{{ text }}",
)
INSERTS = CHATML.replace(BODY, "{% if m['role'] == 'assistant' %}<think>\n\n</think>\n\n{% endif %}" + BODY)
TRIMS = CHATML.replace(BODY, "{{ m['content'] | trim }}")
CALLS = CHATML.replace(
    BODY,
    BODY + "{% for c in m['tool_calls'] or [] %}<call>{{ c['function'] | tojson }}</call>{% endfor %}",
)
# Like GLM's: no end token, the next role's opener ends a reply.
NO_END = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
WITH_BOS = "<s>" + CHATML

SPECIAL = ("<|im_start|>", "<|im_end|>", "<s>", "<pad>", "<|user|>", "<|assistant|>", "<|tool|>")
MERGES = ("h e", "l l", "ll o", "he llo", "Ċ Ċ", "t h", "th e", "o k", "Ġ the", "4 2")


@cache
def tokenizer(template: str | None = CHATML, *, eos: str = "<|im_end|>", pad: str | None = None) -> Any:
    """Byte-level pairs without a pre-tokenizer's word boundaries, so that everything can merge with its neighbour."""
    words = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(merge.split()) for merge in MERGES)]
    merges = [tuple(merge.split()) for merge in MERGES]
    inner = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(list(SPECIAL))
    bos = "<s>" if template == WITH_BOS else None
    made = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=eos, bos_token=bos, pad_token=pad)
    made.chat_template = template
    return made


def rollout(
    tok: Any, *messages: tuple[str, str], prompt: int = 1, id: str = "r", end: str = "<|im_end|>", **changed: Any
) -> Trajectory:
    """A row as a sampler leaves it: replies were sampled, all else rendered; the first `prompt` messages are given."""
    listed = [{"role": role, "content": text} for role, text in messages]
    opener = render(tok, listed[:prompt], generate=True, arguments={})
    row, mask = encode(tok, opener), [0] * len(encode(tok, opener))
    size = len(row)
    written = opener
    for k in range(prompt, len(listed)):
        if listed[k]["role"] == "assistant":
            sampled = [*encode(tok, listed[k]["content"]), *encode(tok, end)]
            row, mask = row + sampled, mask + [1] * len(sampled)
            written += listed[k]["content"] + end
        else:
            waiting = k + 1 < len(listed) and listed[k + 1]["role"] == "assistant"
            text = render(tok, listed[: k + 1], generate=waiting, arguments={})
            assert text.startswith(written), (written, text)
            added = encode(tok, text[len(written) :])
            row, mask = row + added, mask + [0] * len(added)
            written = text
    fields: dict[str, Any] = {
        "id": id,
        "group": "q",
        "prompt_ids": row[:size],
        "response_ids": row[size:],
        "policy": mask[size:],
        "messages": listed,
        "behaviour_logps": np.where(mask[size:], -0.5, np.nan),
    }
    return Trajectory(**(fields | changed))


def codes(audit: TokenAudit) -> dict[str, int]:
    """code -> count."""
    return {finding.code: finding.count for finding in audit.findings}
