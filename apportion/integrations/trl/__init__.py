"""TRL: per-token credit in `GRPOTrainer`, and apportion's rewards as TRL reward functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.errors import MissingExtra

if TYPE_CHECKING:
    from apportion.integrations.trl.reward_func import as_reward_func as as_reward_func
    from apportion.integrations.trl.trainer import CreditGRPOTrainer as CreditGRPOTrainer
    from apportion.integrations.trl.trainer import CreditMixin as CreditMixin

__all__ = ["CreditGRPOTrainer", "CreditMixin", "as_reward_func"]

_HOMES = {"CreditGRPOTrainer": "trainer", "CreditMixin": "trainer", "as_reward_func": "reward_func"}


def __getattr__(name: str) -> object:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if error.name in ("trl", "accelerate", "transformers"):
            raise MissingExtra(error.name, "trl") from error
        raise
    return getattr(module, name)
