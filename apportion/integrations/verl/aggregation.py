"""The recipe's loss aggregation against `actor.loss_agg_mode`, of which an estimator knows only what it is told."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache

from apportion.advantages.aggregation import Aggregation, reweight
from apportion.errors import InvalidArgument
from apportion.integrations.verl.settings import KEY, Settings
from apportion.recipe import Credit

__all__ = ["for_trainer"]

LOG = logging.getLogger(__name__)

_TELL = f"+{KEY}.loss_agg_mode='${{actor_rollout_ref.actor.loss_agg_mode}}'"


def for_trainer(credit: Credit, settings: Settings, rows: int) -> Credit:
    """The credit as it is, or rescaled so that veRL's aggregation gives the gradient of the recipe's own.

        A'_t = A_t * w_recipe(t) / w_trainer(t)

    Exact where the whole batch is one mini-batch (`ppo_mini_batch_size` = `train_batch_size`), since the recipe's
    denominators belong to the batch: hence only when asked for.

    Args:
        credit: of the rows in which the policy wrote something.
        settings: what the configuration says about aggregation.
        rows: of the whole batch, padding included: veRL's means over sequences count them all.

    Raises:
        InvalidArgument: a difference under "refuse", or a setting that is needed and not there.
    """
    assumed, told = credit.aggregation, settings.loss_agg_mode
    if told == assumed:
        return credit
    difference = f"recipe {credit.recipe!r} assumes loss_agg_mode={assumed}"
    if told is None and settings.on_aggregation != "warn":
        raise InvalidArgument(f"{KEY}.loss_agg_mode", None, f"veRL's own, since an estimator cannot see it: {_TELL}")
    if settings.on_aggregation == "refuse":
        raise InvalidArgument("actor_rollout_ref.actor.loss_agg_mode", told, f"{assumed}; {difference}")
    if settings.on_aggregation == "warn" or told is None:
        _warn(f"{difference}; " + (f"the trainer computes {told}" if told else f"check the actor's, or say {_TELL}"))
        return credit
    made = reweight(
        credit.advantages,
        assumed=assumed,
        trainer=told,
        assumed_constant=_constant(assumed, settings),
        trainer_constant=_constant(told, settings),
    )
    share = rows / len(credit.batch) if told.startswith("seq-mean") else 1.0
    return replace(credit, advantages=made * share, aggregation=told)


def _constant(aggregation: Aggregation, settings: Settings) -> float | None:
    if aggregation != "seq-mean-token-sum-norm":
        return None
    if settings.loss_scale_factor is None:
        how = f"the actor's, which must be set as well: +{KEY}.loss_scale_factor=1024"
        raise InvalidArgument(f"{KEY}.loss_scale_factor", None, how)
    return settings.loss_scale_factor


@cache
def _warn(text: str) -> None:
    """Once per process: the estimator is called every step."""
    LOG.warning("%s", text)
