"""What works with which trainer, said before the first step instead of after the last."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.metadata import version

from packaging.version import Version

from apportion.advantages.aggregation import Aggregation
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe

__all__ = ["check_aggregation", "check_class", "trainer_aggregation"]

LOG = logging.getLogger(__name__)

TESTED = Version("1.16.0")
# The override route was run on these by hand; below 0.29.1 the loss multiplies a (B, 1) advantage.
OLDEST, BROKEN = Version("0.29.1"), {Version("1.15.0"): "its fused head needs Triton and fails on a CPU"}

# How each loss_type turns per-token losses into one number. `bnpo` divides by the tokens of a micro-batch.
_LOSSES: Mapping[str, Aggregation] = {
    "grpo": "seq-mean-token-mean",
    "sapo": "seq-mean-token-mean",
    "bnpo": "token-mean",
    "dapo": "token-mean",
    "cispo": "token-mean",
    "vespo": "token-mean",
    "luspo": "seq-mean-token-sum",
    "dr_grpo": "seq-mean-token-sum-norm",
}


def trainer_aggregation(loss_type: str, max_completion_length: int) -> tuple[Aggregation, float | None]:
    """The aggregation that a `loss_type` computes, and its constant where it has one.

    Raises:
        InvalidArgument: a loss_type that is not known here.

    Example:
        >>> trainer_aggregation("dr_grpo", 256)
        ('seq-mean-token-sum-norm', 256.0)
    """
    if loss_type not in _LOSSES:
        raise InvalidArgument("loss_type", loss_type, f"one of {', '.join(_LOSSES)}")
    name = _LOSSES[loss_type]
    return name, float(max_completion_length) if name == "seq-mean-token-sum-norm" else None


def check_class(kind: type) -> None:
    """Refuse trainers and TRL versions that cannot take per-token advantages, before anything is loaded.

    Raises:
        InvalidArgument: a trainer with one advantage per completion (RLOO, GMPO), one that is no GRPOTrainer,
            or a TRL older than what was run.
    """
    kinds = {base.__name__ for base in kind.__mro__}
    for scalar in ("RLOOTrainer", "GMPOTrainer"):
        if scalar in kinds:
            raise InvalidArgument("trainer", scalar, "a GRPOTrainer; this one needs one advantage per completion")
    if "GRPOTrainer" not in kinds:
        raise InvalidArgument("trainer", kind.__name__, "a subclass of trl.GRPOTrainer")
    installed = Version(version("trl"))
    if installed < OLDEST:
        raise InvalidArgument("trl", str(installed), f"{OLDEST} or newer (tested: {TESTED})")
    if installed in BROKEN:
        LOG.warning("trl %s: %s", installed, BROKEN[installed])
    elif installed != TESTED:
        LOG.warning("trl %s was not tested with apportion; tested: %s", installed, TESTED)


def check_aggregation(recipe: Recipe, loss_type: str, max_completion_length: int, on_aggregation: str) -> None:
    """Compare what the recipe assumes with what the trainer computes; say what follows.

    Raises:
        InvalidArgument: an unknown loss_type, or a difference under "refuse".
    """
    computed, _ = trainer_aggregation(loss_type, max_completion_length)
    if computed == recipe.aggregation or on_aggregation == "trainer":
        return
    said = f"recipe {recipe.name!r} assumes {recipe.aggregation}, loss_type={loss_type!r} computes {computed}"
    if on_aggregation == "refuse":
        raise InvalidArgument("loss_type", loss_type, f"one that computes {recipe.aggregation}; {said}")
    LOG.warning("%s: advantages are rescaled per token so that the gradient is the recipe's", said)
