"""veRL: recipes as advantage estimators by configuration alone, and apportion's rewards as its reward functions.

    algorithm.adv_estimator=apportion_rlvp                                    a recipe
    reward.custom_reward_function.path=pkg://apportion.integrations.verl     rewards (name=compute_score)
    agent loops: `CreditLoop` before a loop's class                           what happened in each turn

    plugin       the entry point: puts the recipes into veRL's registry, in every process
    settings     algorithm.apportion.* of the configuration
    encoding     how verdicts travel in the dense scores
    estimator    scores and mask to advantages
    reward       scores from verdicts
    agent_loop   verdicts of turns into the scores

See docs/verl.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apportion.integrations.verl.encoding import ABSENT as ABSENT
    from apportion.integrations.verl.encoding import FAILED as FAILED
    from apportion.integrations.verl.reward import compute_score as compute_score
    from apportion.integrations.verl.reward import compute_score_async as compute_score_async

__all__ = ["ABSENT", "FAILED", "compute_score", "compute_score_async"]

_HOMES = {"ABSENT": "encoding", "FAILED": "encoding", "compute_score": "reward", "compute_score_async": "reward"}


def __getattr__(name: str) -> object:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
