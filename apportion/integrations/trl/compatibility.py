"""What works with which trainer, said before the first step instead of after the last."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Literal, TypeAlias, get_args

import torch
from packaging.version import Version

from apportion.advantages.aggregation import Aggregation, token_weights
from apportion.errors import InvalidArgument
from apportion.recipe import Credit, Recipe
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["OnAggregation", "check_class", "check_settings", "check_version", "for_trainer", "trainer_aggregation"]

LOG = logging.getLogger(__name__)

OnAggregation: TypeAlias = Literal["rescale", "trainer", "refuse"]

# The adapter's own tests passed on these. Older ones divide some losses by other numbers (luspo, as late as 1.9.2).
TESTED = tuple(map(Version, ("1.10.0", "1.11.0", "1.12.0", "1.13.0", "1.14.2", "1.16.0")))
BROKEN = {Version("1.15.0"): "its fused head needs Triton and fails on a CPU; use 1.14.2 or 1.16.0 there"}

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

# Trainers that cannot take per-token advantages, and what to do.
_INSTEAD = {
    "RLOOTrainer": "GRPOTrainer with recipe='rloo'; this one has one advantage per completion",
    "GMPOTrainer": "GRPOTrainer with importance_sampling_level='sequence'; this one has one advantage per completion",
    "AsyncGRPOTrainer": "GRPOTrainer; this one stamps one float on every row, in a process of its own",
    "SDPOTrainer": "GRPOTrainer; this one mixes losses, not advantages, and was not tested",
}

# Settings of TRL that say what the recipe says here: default, and where to say it instead.
_RECIPES_OWN = {
    "scale_rewards": ("group", "recipe='dr_grpo' or 'grpo', or a dialect"),
    "multi_objective_aggregation": ("sum_then_normalize", "recipe='gdpo'"),
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
    """Refuse trainers that cannot take per-token advantages, before anything is loaded.

    Raises:
        InvalidArgument: a trainer with one advantage per completion (RLOO, GMPO), the async one, SDPO, or one that is
            no GRPOTrainer.
    """
    kinds = {base.__name__ for base in kind.__mro__}
    for name, instead in _INSTEAD.items():
        if name in kinds:
            raise InvalidArgument("trainer", name, instead)
    if "GRPOTrainer" not in kinds:
        raise InvalidArgument("trainer", kind.__name__, "a subclass of trl.GRPOTrainer: class Mine(CreditMixin, Yours)")


def check_version() -> None:
    """Refuse a TRL that is too old, and warn about one that was not tested.

    Raises:
        InvalidArgument: a TRL older than what was tested.
    """
    installed, tested = Version(version("trl")), ", ".join(map(str, TESTED))
    if installed < TESTED[0]:
        raise InvalidArgument("trl", str(installed), f"{TESTED[0]} or newer (tested: {tested}): pip install -U trl")
    if installed in BROKEN:
        LOG.warning("trl %s: %s", installed, BROKEN[installed])
    elif installed not in TESTED:
        LOG.warning("trl %s was not tested with apportion; tested: %s", installed, tested)


def check_settings(recipe: Recipe, args: Any, on_aggregation: OnAggregation, *, micro_batches: int) -> None:
    """Compare what the recipe assumes with what the trainer computes; say what follows.

    Args:
        recipe: the recipe.
        args: the `GRPOConfig`.
        on_aggregation: see `CreditMixin`.
        micro_batches: pieces that a generation batch is split into, over all ranks.

    Raises:
        InvalidArgument: an unknown loss_type, a difference under "refuse", or one that no factor can make up for.
    """
    for name, (default, instead) in _RECIPES_OWN.items():
        if getattr(args, name, default) != default:
            LOG.warning("%s=%r has no effect: the recipe decides; see %s", name, getattr(args, name), instead)
    by_sign = [name for name in ("vespo", "sapo") if args.loss_type == name]
    by_sign += ["off_policy_mask_threshold"] if getattr(args, "off_policy_mask_threshold", None) is not None else []
    for name in by_sign:
        LOG.warning("%s looks at the sign of the advantage: with per-token credit it decides per token", name)
    computed, _ = trainer_aggregation(args.loss_type, args.max_completion_length)
    if computed == recipe.aggregation or on_aggregation == "trainer":
        return
    said = f"recipe {recipe.name!r} assumes {recipe.aggregation}, loss_type={args.loss_type!r} computes {computed}"
    if on_aggregation == "refuse":
        fitting = [name for name, how in _LOSSES.items() if how == recipe.aggregation]
        remedy = f"one of {', '.join(fitting)}" if fitting else "on_aggregation='rescale', since no loss_type does"
        raise InvalidArgument("loss_type", args.loss_type, f"{remedy}; {said}")
    if args.loss_type == "bnpo" and micro_batches > 1:
        raise InvalidArgument(
            "loss_type",
            "bnpo",
            f"'dapo', which divides by the tokens of the whole batch; {said}, in each of {micro_batches} micro-batches "
            "by itself, which no factor per token makes up for (on_aggregation='trainer' leaves it so)",
        )
    LOG.warning("%s: advantages are rescaled per token so that the gradient is the recipe's", said)


def check_on_aggregation(value: str) -> None:
    """Refuse an unknown choice.

    Raises:
        InvalidArgument: it is none of the three.
    """
    if value not in get_args(OnAggregation):
        raise InvalidArgument("on_aggregation", value, f"one of {', '.join(get_args(OnAggregation))}")


def for_trainer(credit: Credit, loss_type: str, max_completion_length: int) -> Signal:
    """The advantages that give, under the trainer's aggregation, the gradient of the recipe's own.

        A'_t = A_t * w_recipe(t) / w_trainer(t)

    The recipe's denominators count the tokens with known credit. TRL's count those in its loss (the batch's `own`), and
    its means over sequences count every row, also one that has none.
    """
    trainer, constant = trainer_aggregation(loss_type, max_completion_length)
    batch = credit.batch
    norm = credit.aggregation == "seq-mean-token-sum-norm"
    have = credit.loss_weights(constant=float(max_completion_length) if norm else None)
    want = token_weights(batch, trainer, in_loss=batch.own, constant=constant)
    if trainer != "token-mean":
        in_loss = torch.ones_like(want) if batch.own is None else batch.own.to(want.dtype)
        rows = int((batch.pool(in_loss, Level.TOKEN, Level.TRAJECTORY, "sum") > 0).sum())
        want = want * rows / len(batch)
    return credit.advantages.scaled(torch.where(want > 0, have / torch.where(want > 0, want, 1.0), 0.0), Level.TOKEN)
