"""Tiny random models and requests, and naive scoring written out: one forward pass over each prefix and target."""

import numpy as np
import torch
import transformers

from apportion.judges.scoring import LogProbs, Request, at_boundaries

WIDTH = 61


def qwen3(*, seed: int = 0, width: int = WIDTH, **settings: object) -> torch.nn.Module:
    config = transformers.Qwen3Config(
        vocab_size=width,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=256,
        initializer_range=0.4,  # far from uniform: a token out of place shows
        **settings,
    )
    torch.manual_seed(seed)
    return transformers.Qwen3ForCausalLM(config).eval()


def ragged(*, seed: int = 0, requests: int = 7, width: int = WIDTH) -> list[Request]:
    """Sequences of 1 to 40 tokens with up to 6 boundaries, targets of 1 to 7 tokens, some with a lead."""
    rng = np.random.default_rng(seed)
    made = []
    for index in range(requests):
        ids = rng.integers(0, width, rng.integers(1, 41))
        at = rng.integers(1, ids.size + 1, rng.integers(1, 7))
        targets = [rng.integers(0, width, rng.integers(1, 8)) for _ in at]
        made.append(at_boundaries(ids, at, targets, lead=rng.integers(0, width, index % 3)))
    return made


@torch.no_grad()
def written_out(model: torch.nn.Module, request: Request, k: int, *, temperature: float = 1.0) -> np.ndarray:
    context, target = request.context(k), request.targets[k]
    logits = model(torch.from_numpy(np.concatenate((context, target)))[None]).logits[0].double() / temperature
    every = torch.log_softmax(logits, dim=-1).numpy()
    return np.array([every[context.size - 1 + j, token] for j, token in enumerate(target)])


def values(answer: object) -> np.ndarray:
    assert isinstance(answer, LogProbs), answer
    return answer.values
