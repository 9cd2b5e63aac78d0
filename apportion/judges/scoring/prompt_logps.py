"""Prompt log-probs of vLLM: one entry per prompt token, the first of them empty, since nothing precedes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apportion.errors import shorten
from apportion.judges.scoring.request import Answer, FloatArray, IntArray, Request, answered
from apportion.verdicts import Failed

__all__ = ["prompt_of", "target_log_probs"]

# The server writes this instead of -inf, which JSON cannot hold.
_FLOOR = -9999.0


def prompt_of(request: Request, k: int) -> list[int]:
    """Context and target of one boundary as one prompt."""
    prompt: list[int] = np.concatenate((request.context(k), request.targets[k])).tolist()
    return prompt


def target_log_probs(entries: object, prompt: Sequence[int], target: IntArray) -> Answer:
    """The log-probs of the last tokens of a prompt, read by token id: entry i belongs to prompt token i.

    Args:
        entries: what the engine (ids to objects with `logprob`) or the server (ids as text to mappings) returned.
        prompt: the ids that were sent.
        target: the last a of them, which are wanted.

    Returns:
        The log-probs; `Failed` when an entry is absent, has not the token, or holds no number.
    """
    if not isinstance(entries, Sequence) or isinstance(entries, str) or len(entries) != len(prompt):
        found = len(entries) if isinstance(entries, Sequence) else shorten(entries, 80)
        return Failed(f"prompt_logprobs has {found} entries for {len(prompt)} prompt tokens")
    start = len(prompt) - target.size
    values: FloatArray = np.full(target.size, np.nan)
    for offset, token in enumerate(target.tolist()):
        value = _value(entries[start + offset], token)
        if value is None:
            return Failed(f"prompt_logprobs[{start + offset}] has no number for token {token}")
        if value <= _FLOOR:
            return Failed(f"the log-prob of token {token} is {value:g}, a filler for minus infinity")
        values[offset] = value
    return answered(values)


def _value(entry: Any, token: int) -> float | None:
    if not isinstance(entry, Mapping):
        return None
    found = entry.get(token, entry.get(str(token)))
    value = found.get("logprob") if isinstance(found, Mapping) else getattr(found, "logprob", None)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
