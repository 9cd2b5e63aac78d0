"""Log-probabilities of given tokens after given contexts, under a chosen model.

    answers = TransformersRescorer(model, name="frozen").score([at_boundaries(ids, at, target)])

- requests: `at_boundaries`, `continuation`, `own_tokens`; answers: `LogProbs`, or a verdict that says what is missing
- backends: `TransformersRescorer`; `VllmRescorer` (offline engine) and `VllmServerRescorer`; `RecordedRescorer`, which
  replays what `Recording` wrote
- checks: `Vocabulary`, `same_vocabulary`, `difference`, `check_alignment`
- text to ids, once per piece: `encode`, `encode_target`, `reference_target`
- `apportion.judges.scoring.potentials`: `log_gap`, `answer_probability`, `cluster_support`

Importing it does not import torch; a backend does when it is first named.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from apportion.judges.scoring.alignment import Alignment, check_alignment, difference
from apportion.judges.scoring.encode import Target, TargetOf, encode, encode_target, reference_target
from apportion.judges.scoring.recorded import RecordedRescorer, Recording
from apportion.judges.scoring.request import Answer, LogProbs, Request, at_boundaries, continuation, own_tokens
from apportion.judges.scoring.rescorer import Answers, Rescorer, Vocabulary, same_vocabulary

if TYPE_CHECKING:
    from apportion.judges.scoring.transformers import TransformersRescorer
    from apportion.judges.scoring.vllm_engine import VllmRescorer
    from apportion.judges.scoring.vllm_server import VllmServerRescorer

_LATER = {"TransformersRescorer": "transformers", "VllmRescorer": "vllm_engine", "VllmServerRescorer": "vllm_server"}

__all__ = [
    "Alignment",
    "Answer",
    "Answers",
    "LogProbs",
    "RecordedRescorer",
    "Recording",
    "Request",
    "Rescorer",
    "Target",
    "TargetOf",
    "TransformersRescorer",
    "VllmRescorer",
    "VllmServerRescorer",
    "Vocabulary",
    "at_boundaries",
    "check_alignment",
    "continuation",
    "difference",
    "encode",
    "encode_target",
    "own_tokens",
    "reference_target",
    "same_vocabulary",
]


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value
