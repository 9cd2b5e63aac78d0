"""Credit of rows that a trainer fetched: verdicts that the scores carried, or those of observers asked here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.integrations.verl.aggregation import for_trainer
from apportion.integrations.verl.encoding import Carried, Layout, decode
from apportion.integrations.verl.estimator import _refuse_failing, _refuse_unrecorded
from apportion.integrations.verl.settings import Settings
from apportion.integrations.verl.trainer_rows import Row, rollout_of
from apportion.recipe import Credit, State
from apportion.rewards import observe
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Scored, Verdict

__all__ = ["Given", "Made", "credit_rows"]


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the advantage step has.

    Attributes:
        rows: B rows as stored, in the order of the tensors.
        rewards: [B, T] the scores after KL.
        mask: bool[B, T] what rejection has left of the policy's tokens.
    """

    rows: Sequence[Row]
    rewards: Tensor
    mask: Tensor


@dataclass(frozen=True, kw_only=True)
class Made:
    """Both [B, T] and of the rewards' dtype; the credit is None where no row was left."""

    advantages: Tensor
    returns: Tensor
    credit: Credit | None
    state: State


def credit_rows(given: Given, settings: Settings, *, step: int, state: State, tokenizer: Any) -> Made:
    """Advantages, and targets of the critic, of the rows.

    A token for which the recipe has no target keeps the critic's own value as its target, which pulls at nothing.

    Args:
        given: of one training step.
        settings: with the actor's aggregation.
        step: of the training.
        state: of the step before.
        tokenizer: for the text of turns.

    Degenerate cases: padding rows and rows that were rejected are in no group, and get zeros.

    Raises:
        InvalidArgument: as `encoding.decode`, or KL in the reward of a recipe with several outcomes.
        MissingInput: the recipe needs more than was recorded; says what and how to bring it.
        ObserverFailing: more verdicts failed than `algorithm.apportion.failure_limit` allows.
    """
    shape, dtype = given.rewards.shape, given.rewards.dtype
    advantages, returns = torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)
    wrote = torch.nonzero(given.mask.any(1)).flatten().tolist()
    if not wrote:
        return Made(advantages=advantages, returns=returns, credit=None, state=state)
    rows = [given.rows[i] for i in wrote]
    own = [given.mask[i, : row.mask.size].numpy() & row.mask for i, row in zip(wrote, rows, strict=True)]
    scores = pad_sequence([row.scores for row in rows], batch_first=True)
    before = Batch.from_mask(
        pad_sequence([torch.from_numpy(r.mask) for r in rows], batch_first=True), [r.uid for r in rows]
    )
    layout = Layout.of(settings.recipe.observers)
    found, carried = decode(layout, scores, before)
    kl = (given.rewards[wrote].to(torch.float64).sum(1) - scores.to(torch.float64).sum(1)).tolist()
    shown = [score + moved if settings.kl_in_reward else score for score, moved in zip(found, kl, strict=True)]
    rollouts = [
        rollout_of(row, kept, one, score, tokenizer)
        for row, kept, one, score in zip(rows, own, carried, shown, strict=True)
    ]
    verdicts = _verdicts(settings, layout, rollouts, carried, shown)
    _refuse_unrecorded(settings, verdicts)
    _refuse_failing(settings, verdicts)
    batch = Batch.pack(rollouts)
    credit, after = settings.recipe.assign(batch, verdicts, step=step, state=state)
    credit = for_trainer(credit, settings, rows=shape[0])
    advantages[wrote] = credit.padded(width=shape[1], dtype=dtype)
    returns[wrote] = advantages[wrote] if credit.returns is None else _targets(credit, shape[1]).to(dtype)
    return Made(advantages=advantages, returns=returns, credit=credit, state=after)


def _verdicts(
    settings: Settings,
    layout: Layout,
    rollouts: Sequence[Trajectory],
    carried: Sequence[Carried],
    shown: Sequence[float],
) -> Mapping[str, Sequence[Any]]:
    observers = settings.recipe.observers
    asked = [i for i, one in enumerate(carried) if not isinstance(one, list)]
    fresh = observe(observers, [rollouts[i] for i in asked], failure_limit=1.0) if asked else {}
    if settings.kl_in_reward and len(asked) < len(rollouts) and layout.score is None:
        expected = f"actor.use_kl_loss: recipe {settings.recipe.name!r} has several outcomes"
        raise InvalidArgument("algorithm.use_kl_in_reward", True, expected)
    place = {i: k for k, i in enumerate(asked)}
    made: dict[str, list[Any]] = {}
    for o, observer in enumerate(observers):
        rows: list[Any] = []
        for i, one in enumerate(carried):
            if not isinstance(one, list):
                rows.append(fresh[observer.name][place[i]])
                continue
            cells: list[Verdict] = one[o]
            if o == layout.score and isinstance(cells[0], Scored):
                cells = [Scored(shown[i])]
            rows.append(cells if observer.level is Level.TURN else cells[0])
        made[observer.name] = rows
    return made


def _targets(credit: Credit, width: int) -> Tensor:
    if credit.returns is None:
        raise InvalidArgument("returns", None, "a recipe with a critic")
    batch, targets = credit.batch, credit.returns.spread(Level.TOKEN)
    kept = batch.token_columns.get("values", torch.zeros(batch.n_tokens, dtype=torch.float64))
    return batch.pad(torch.where(targets.known, targets.values, torch.nan_to_num(kept)), width=width)
