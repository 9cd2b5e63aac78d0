"""Pluggable rewards and credit assignment for the RL post-training of LLM agents.

Everything named in `__all__` is imported on first use, so `import apportion` itself stays cheap:

    >>> import apportion
    >>> issubclass(apportion.InvalidArgument, apportion.ApportionError)
    True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # What type checkers and editors see; tests/test_exports.py keeps it equal to the table below.
    from apportion.advantages.channel import channel as channel
    from apportion.advantages.channel import group_center as group_center
    from apportion.advantages.grpo import grpo as grpo
    from apportion.advantages.padded import padded_advantages as padded_advantages
    from apportion.batch import Batch as Batch
    from apportion.errors import ApportionError as ApportionError
    from apportion.errors import BadRow as BadRow
    from apportion.errors import InvalidArgument as InvalidArgument
    from apportion.errors import LedgerMismatch as LedgerMismatch
    from apportion.errors import MissingExtra as MissingExtra
    from apportion.errors import MissingInput as MissingInput
    from apportion.errors import ObserverFailing as ObserverFailing
    from apportion.errors import RecipeRefused as RecipeRefused
    from apportion.integrations.files.reader import read as read
    from apportion.integrations.files.writer import write as write
    from apportion.quick import rewards_signal as rewards_signal
    from apportion.recipe import Credit as Credit
    from apportion.recipe import Recipe as Recipe
    from apportion.recipes import load as load
    from apportion.rewards.function import reward as reward
    from apportion.rewards.observe import observe as observe
    from apportion.rewards.outcome import outcome as outcome
    from apportion.rewards.path import path as path
    from apportion.rollouts import Action as Action
    from apportion.rollouts import Level as Level
    from apportion.rollouts import Trajectory as Trajectory
    from apportion.rollouts import Turn as Turn
    from apportion.signal import Signal as Signal
    from apportion.verdicts import Abstained as Abstained
    from apportion.verdicts import Failed as Failed
    from apportion.verdicts import Scored as Scored

__version__ = "0.1.0.dev0"

# The reviewed public surface: name -> the module that defines it.
_EXPORTS = {
    "Abstained": "apportion.verdicts",
    "Action": "apportion.rollouts",
    "ApportionError": "apportion.errors",
    "BadRow": "apportion.errors",
    "Batch": "apportion.batch",
    "Credit": "apportion.recipe",
    "Failed": "apportion.verdicts",
    "InvalidArgument": "apportion.errors",
    "LedgerMismatch": "apportion.errors",
    "Level": "apportion.rollouts",
    "MissingExtra": "apportion.errors",
    "MissingInput": "apportion.errors",
    "ObserverFailing": "apportion.errors",
    "Recipe": "apportion.recipe",
    "RecipeRefused": "apportion.errors",
    "Scored": "apportion.verdicts",
    "Signal": "apportion.signal",
    "Trajectory": "apportion.rollouts",
    "Turn": "apportion.rollouts",
    "channel": "apportion.advantages.channel",
    "group_center": "apportion.advantages.channel",
    "grpo": "apportion.advantages.grpo",
    "load": "apportion.recipes",
    "observe": "apportion.rewards.observe",
    "outcome": "apportion.rewards.outcome",
    "padded_advantages": "apportion.advantages.padded",
    "path": "apportion.rewards.path",
    "read": "apportion.integrations.files.reader",
    "reward": "apportion.rewards.function",
    "rewards_signal": "apportion.quick",
    "write": "apportion.integrations.files.writer",
}

__all__ = sorted([*_EXPORTS, "__version__"])


def __getattr__(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
