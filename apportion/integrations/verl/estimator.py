"""Advantages of a recipe from the four things that veRL hands to an estimator: scores, mask, configuration, uids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apportion.advantages.masked_rewards import packed_rewards
from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput, ObserverFailing
from apportion.integrations.verl.aggregation import for_trainer
from apportion.integrations.verl.encoding import UNRECORDED, Carried, Layout, decode
from apportion.integrations.verl.settings import Settings, read
from apportion.recipe import Credit
from apportion.rewards import Reward
from apportion.rewards.steps import StepReward
from apportion.rollouts import Level
from apportion.verdicts import Failed, Scored, Verdict

__all__ = ["credit_of", "estimate"]

_LOOP = "apportion.integrations.verl.agent_loop.CreditLoop"


def estimate(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    config: Any = None,
    index: Any = None,
    *,
    recipe: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns for veRL.

    Args:
        token_level_rewards: [B, T] scores, minus KL where `algorithm.use_kl_in_reward` is set; see
            `apportion.integrations.verl.encoding`.
        response_mask: [B, T] any dtype, non-zero where the policy wrote the token and it takes part in the loss.
        config: the `algorithm` section.
        index: B uids of the prompts, in any order; rows of one uid are a group, however many there are.
        recipe: its name; default by `algorithm.adv_estimator`.

    Returns:
        Both [B, T] and of the rewards' dtype, exactly 0 where the mask is 0 and on rows whose verdict is missing. Where
        a recipe has no critic the returns are the advantages.

    Degenerate cases: a row in which the policy wrote nothing (padding, a rejected sequence) is in no group.

    Raises:
        InvalidArgument: shapes that do not fit, no uids, a bad setting, a reward that is not finite.
        MissingInput: the recipe needs more than the rows carry; says how to bring it.
        ObserverFailing: more verdicts failed than `algorithm.apportion.failure_limit` allows.
    """
    settings = read(config, recipe=recipe)
    if settings is None:
        raise InvalidArgument("algorithm.adv_estimator", getattr(config, "adv_estimator", None), "one of apportion's")
    mask = torch.as_tensor(response_mask) != 0
    if token_level_rewards.shape != mask.shape or mask.ndim != 2:
        raise InvalidArgument("token_level_rewards", tuple(token_level_rewards.shape), f"shape {tuple(mask.shape)}")
    if index is None or len(index) != mask.shape[0]:
        raise InvalidArgument("index", None if index is None else len(index), f"{mask.shape[0]} uids, one per row")
    advantages = torch.zeros(mask.shape, dtype=token_level_rewards.dtype, device=token_level_rewards.device)
    returns = advantages.clone()
    wrote = mask.any(1)
    if not bool(wrote.any()):
        return advantages, returns
    uids = np.asarray(index, dtype=object)[wrote.cpu().numpy()]
    credit = credit_of(settings, token_level_rewards[wrote].cpu(), mask[wrote].cpu(), uids.tolist())
    credit = for_trainer(credit, settings, rows=len(mask))
    narrow = credit.padded(width=mask.shape[1], dtype=token_level_rewards.dtype)
    advantages[wrote] = narrow.to(advantages.device)
    targets = narrow if credit.returns is None else _padded(credit, mask.shape[1], token_level_rewards.dtype)
    returns[wrote] = targets.to(returns.device)
    return advantages, returns


def credit_of(settings: Settings, rewards: Tensor, mask: Tensor, uids: Sequence[object]) -> Credit:
    """The credit of rows in which the policy wrote something; see `estimate`."""
    batch = Batch.from_mask(mask, uids)
    layout = Layout.of(settings.recipe.observers)
    scores, carried = decode(layout, rewards, batch)
    verdicts = _verdicts(settings, layout, batch, scores, carried, rewards)
    _refuse_unrecorded(settings, verdicts)
    _refuse_failing(settings, verdicts)
    credit, state = settings.recipe.assign(batch, verdicts)
    if dict(state) != dict(settings.recipe.initial_state):
        raise MissingInput(
            f"recipe {settings.recipe.name!r}",
            f"its state of the step before ({', '.join(state)})",
            "an estimator of veRL has nowhere to keep it: set it up without, or use a trainer that keeps it",
        )
    return credit


def _verdicts(
    settings: Settings,
    layout: Layout,
    batch: Batch,
    scores: Sequence[float],
    carried: Sequence[Carried],
    rewards: Tensor,
) -> dict[str, list[Any]]:
    rows = [_scored(layout, score, one) for score, one in zip(scores, carried, strict=True)]
    plain = [i for i, one in enumerate(carried) if not isinstance(one, list)]
    if plain:
        _refuse_plain(settings, layout, plain)
        paid = _turn_rewards(batch, rewards) if layout.levels.count(Level.TURN) else []
        for i in plain:
            rows[i] = [rows[i][0] if o == layout.score else paid[i] for o in range(len(layout.names))]
    return {
        name: [row[o] if level is Level.TURN else row[o][0] for row in rows]
        for o, (name, level) in enumerate(zip(layout.names, layout.levels, strict=True))
    }


def _scored(layout: Layout, score: float, carried: Carried) -> list[list[Verdict]]:
    if isinstance(carried, list):
        return carried
    return [[Scored(score) if carried is None else carried]]


def _refuse_plain(settings: Settings, layout: Layout, plain: Sequence[int]) -> None:
    """Rows from an ordinary agent loop carry a score and nothing else."""
    recipe = settings.recipe
    others = [o for i, o in enumerate(recipe.observers) if i != layout.score]
    unfed = [o.name for o in others if settings.dense == "outcome" or not _pays(o)]
    if layout.score is None or unfed:
        raise MissingInput(
            f"recipe {recipe.name!r}",
            f"verdicts of {', '.join(unfed) or 'its outcomes'}",
            f"the rows carry a score alone: put {_LOOP} before your agent loop's class, and give the turns' facts in "
            "extra_fields['turn_columns'] or ['turn_rewards']",
            [f"row {i}" for i in plain],
        )
    truncated = recipe.parameters.get("truncated", "keep")
    if truncated != "keep":
        raise MissingInput(
            f"recipe {recipe.name!r} with truncated={truncated!r}",
            "how the rollouts ended",
            f"put {_LOOP} before your agent loop's class, and set extra_fields['rollout_status']",
        )
    if settings.kl_in_reward and settings.unmarked == "refuse":
        raise MissingInput(
            f"recipe {recipe.name!r}",
            "scores that KL did not change",
            "with algorithm.use_kl_in_reward a missing verdict cannot be told from a number: use "
            f"actor_rollout_ref.actor.use_kl_loss instead, put {_LOOP} before your agent loop's class, or say "
            "+algorithm.apportion.unmarked=scored where no verdict is ever missing",
        )


def _pays(observer: Reward) -> bool:
    return isinstance(observer, StepReward) and observer.column is None


def _turn_rewards(batch: Batch, rewards: Tensor) -> list[list[Verdict]]:
    """Rewards on single tokens, summed over each turn and what answered it."""
    small = rewards.abs() < 2.0**-79
    tokens = packed_rewards(torch.where(small, 0.0, rewards).to(torch.float64), batch, masked_rewards="fold")
    sums = iter(batch.pool(tokens, Level.TOKEN, Level.TURN, "sum").tolist())
    return [[Scored(next(sums)) for _ in range(n)] for n in batch.turns.tolist()]


def _refuse_unrecorded(settings: Settings, verdicts: Mapping[str, Sequence[Any]]) -> None:
    """What not one rollout of the batch records is a wrong name, or a loop that records nothing."""
    for observer in settings.recipe.observers:
        cells = _cells(verdicts[observer.name])
        if cells and all(cell == UNRECORDED for cell in cells):
            column = getattr(observer, "column", None)
            raise MissingInput(
                f"observer {observer.name!r}",
                f"a column {column!r}" if column else "what it reads",
                "the agent loop returns it in extra_fields: 'turn_columns' or 'turn_rewards', one entry per run of "
                "ones in its mask, or 'rollout_columns'; the log of its worker says more",
            )


def _refuse_failing(settings: Settings, verdicts: Mapping[str, Sequence[Any]]) -> None:
    for observer in settings.recipe.observers:
        cells = _cells(verdicts[observer.name])
        failures = [cell.error for cell in cells if isinstance(cell, Failed)]
        metric = getattr(observer, "role", "outcome") == "metric"
        if not metric and len(failures) > settings.failure_limit * len(cells):
            raise ObserverFailing(observer.name, len(failures), len(cells), settings.failure_limit, failures[0])


def _cells(rows: Sequence[Any]) -> list[Verdict]:
    return [cell for row in rows for cell in (row if isinstance(row, list) else [row])]


def _padded(credit: Credit, width: int, dtype: torch.dtype) -> Tensor:
    returns = credit.returns
    if returns is None:
        raise InvalidArgument("returns", None, "a recipe with a critic")
    return credit.batch.pad(returns.spread(Level.TOKEN).values.to(dtype), width=width)
