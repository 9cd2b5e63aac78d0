"""Scoring an answer after K turn boundaries of one trajectory, against one plain forward pass over it.

A random Qwen3 (8 layers of width 512, 8 and 4 heads, 32k tokens, float32). Times are CPU times of this process, taken
round robin; only their ratios are shown. Takes about five minutes of one core.
"""

import ctypes
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import transformers
from measuring import Table, load_note

from apportion.judges.scoring import Answer, LogProbs, Request, TransformersRescorer, at_boundaries

Size = tuple[int, int, int]

WORDS = 32_000
ROUNDS = 3
SIZES: list[Size] = [(length, k, a) for length in (1024, 4096) for k in (8, 32) for a in (8, 32)]
# Naive scoring of this one would take as long as of the next, and show less.
NOT_NAIVE = {(4096, 32, 8)}
LARGEST = (4096, 32, 32)


def network() -> torch.nn.Module:
    config = transformers.Qwen3Config(
        vocab_size=WORDS,
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
        max_position_embeddings=8192,
    )
    torch.manual_seed(0)
    return transformers.Qwen3ForCausalLM(config).eval()


def request(size: Size) -> Request:
    length, k, a = size
    rng = np.random.default_rng(sum(size))
    at = np.linspace(length / k, length, k).astype(int)
    return at_boundaries(rng.integers(0, WORDS, length), at, rng.integers(0, WORDS, a))


def cpu_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def timed(model: torch.nn.Module, packed: TransformersRescorer) -> dict[Size | int, float]:
    """Medians in CPU seconds: of a plain pass by length, of packed scoring by size."""
    times: dict[Size | int, list[float]] = {}

    @torch.no_grad()
    def plain(ids: torch.Tensor) -> object:
        return model.model(ids, use_cache=False)

    for length in sorted({size[0] for size in SIZES}):
        ids = torch.from_numpy(request((length, 8, 8)).ids)[None]
        for _ in range(ROUNDS):
            times.setdefault(length, []).append(cpu_seconds(lambda ids=ids: plain(ids)))
            for size in SIZES:
                if size[0] == length:
                    asked = [request(size)]
                    times.setdefault(size, []).append(cpu_seconds(lambda asked=asked: packed.score(asked)))
    return {what: statistics.median(seconds) for what, seconds in times.items()}


def status(field: str) -> float:
    """MiB of this process: VmRSS now, VmHWM at most since it was reset; nan where the system does not tell."""
    file = Path("/proc/self/status")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), math.nan)


def peak(call: Callable[[], object]) -> float:
    """MiB that a call needs at most beyond what the process holds in use."""
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        return math.nan
    # What earlier calls have freed goes back first: it would hide what this one takes.
    ctypes.CDLL(None).malloc_trim(0)
    reset.write_text("5")
    before = status("VmRSS")
    call()
    return status("VmHWM") - before


def largest_gap(one: list[Answer], other: list[Answer]) -> float:
    pairs = [(a.values, b.values) for a, b in zip(one, other, strict=True) if isinstance(a, LogProbs)]
    assert len(pairs) == len(other)
    return max(float(np.abs(a - b).max()) for a, b in pairs)


def limit(size: Size) -> float:
    length, k, a = size
    return 1.15 + 2.5 * k * (a - 1) / length


def main() -> int:
    torch.set_num_threads(1)
    model = network()
    packed = TransformersRescorer(model, name="random", how="packed")
    naive = TransformersRescorer(model, name="random", how="naive")
    seconds = timed(model, packed)
    peaks = {size: peak(lambda size=size: packed.score([request(size)])) for size in SIZES}
    slow: dict[Size, float] = {}
    gaps: dict[Size, float] = {}
    for size in SIZES:
        if size not in NOT_NAIVE:
            answers: list[list[list[Answer]]] = []
            slow[size] = cpu_seconds(lambda size=size, to=answers: to.append(naive.score([request(size)])))
            gaps[size] = largest_gap(packed.score([request(size)])[0], answers[0][0])
    return report(seconds, slow, gaps, peaks)


def report(
    seconds: dict[Size | int, float], slow: dict[Size, float], gaps: dict[Size, float], peaks: dict[Size, float]
) -> int:
    table = Table(
        "Re-scorer: one answer after K turn boundaries",
        ["L", "K", "a", "packed / plain", "limit", "naive / plain", "largest difference", "peak MiB"],
    )
    for size in SIZES:
        plain = seconds[size[0]]
        against = [f"{slow[size] / plain:.1f}", f"{gaps[size]:.1e}"] if size in slow else ["not run", "not run"]
        shown = [f"{seconds[size] / plain:.2f}", f"{limit(size):.2f}", *against, f"{peaks[size]:.0f}"]
        table.rows.append([*map(str, size), *shown])
    table.notes += [
        f"CPU time, median of {ROUNDS} round-robin rounds; naive once. Plain: hidden states only, no cache.",
        "Log-probs lie near -10 per token. Naive computes logits for the target tokens only, too.",
        "Peak: resident memory at most during the call, beyond what the model and the process hold.",
        load_note(),
    ]
    worst = max(seconds[size] / seconds[size[0]] / limit(size) for size in SIZES)
    whole = 4 * LARGEST[0] * WORDS / 2**20
    met = [
        table.target("packed / (1.15 + 2.5 K (a - 1) / L) plain passes, the worst size", worst, 1, at="most"),
        table.target("naive / packed at L 4096, K 32, a 32", slow[LARGEST] / seconds[LARGEST], 10, at="least"),
        table.target("largest difference from naive, float32", max(gaps.values()), 2e-5, at="most"),
        table.target(f"peak MiB / the logits of 4096 tokens ({whole:.0f})", max(peaks.values()) / whole, 1, at="most"),
    ]
    table.save("rescorer")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
