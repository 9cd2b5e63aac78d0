"""What `CreditTrainer` takes for granted in veRL, checked before anything is started."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from apportion.errors import ApportionError

__all__ = ["ChangedTrainer", "check_contract"]

# Methods that are overridden or called, with the arguments that they have.
_METHODS = {
    "_compute_advantage": ("batch", "metrics"),
    "_save_checkpoint": (),
    "_load_checkpoint": (),
    "_build_replay_buffer": (),
}
# What the advantage step of veRL's trainer reads or calls.
_SETTINGS = (
    "algorithm.adv_estimator",
    "trainer.v1.trainer_mode",
    "trainer.default_local_dir",
    "trainer.resume_mode",
    "actor_rollout_ref.actor.loss_agg_mode",
)


class ChangedTrainer(ApportionError, RuntimeError):
    """A veRL whose trainer is not the one that apportion knows; lists everything that is missing."""

    def __init__(self, missing: Sequence[str]) -> None:
        self.missing = list(missing)
        listed = "; ".join(self.missing)
        super().__init__(
            f"this veRL differs from 0.9.1 where apportion's trainer builds on it: {listed}. Install veRL 0.9.1, or "
            "use the recipe by trainer.v1.trainer_mode=sync where it needs no more than that"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.missing,)


def check_contract(trainer: type, config: Any, queue: Any, core: Any) -> None:
    """Compare veRL with what the trainer builds on.

    Args:
        trainer: veRL's synchronous trainer.
        config: the configuration of the run.
        queue: the module `transfer_queue`.
        core: the module `verl.trainer.ppo.core_algos`.

    Raises:
        ChangedTrainer: listing every method, setting and function that is not there or takes other arguments.
    """
    missing = []
    for name, wanted in _METHODS.items():
        method = getattr(trainer, name, None)
        missing += [f"no {trainer.__name__}.{name}"] if method is None else _lacking(method, wanted, skip=1)
    found = getattr(queue, "kv_batch_get", None)
    wanted = ("keys", "partition_id", "select_fields")
    missing += ["no transfer_queue.kv_batch_get"] if found is None else _lacking(found, wanted, skip=0)
    if not isinstance(getattr(core, "ADV_ESTIMATOR_REGISTRY", None), dict):
        missing.append("no registry core_algos.ADV_ESTIMATOR_REGISTRY")
    missing += [f"no setting {key}" for key in _SETTINGS if not _there(config, key)]
    if missing:
        raise ChangedTrainer(missing)


def _lacking(function: Callable[..., Any], wanted: Sequence[str], *, skip: int) -> list[str]:
    given = list(inspect.signature(function).parameters.values())[skip:]
    names = {p.name for p in given}
    lacking = [f"{function.__qualname__} takes no {name!r}" for name in wanted if name not in names]
    needed = [p.name for p in given if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return lacking + [f"{function.__qualname__} wants {name!r}" for name in needed if name not in wanted]


def _there(config: Any, key: str) -> bool:
    for name in key.split("."):
        if name not in config:
            return False
        config = config[name]
    return True
