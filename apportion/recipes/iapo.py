"""IAPO: the outcome's advantage moves to the turns that others used, or that others suffered from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from apportion import advantages as adv
from apportion.advantages.modulate_weights import LARGEST_EXPONENT, centred_in_rollout, exp_clip, within_rollout
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.note_inputs import Noted, annotator_of, notes_needed, shown
from apportion.rewards import Truncated, outcome
from apportion.rewards.annotators import link_features
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["iapo", "link_weights"]


def iapo(
    *,
    limit: float = 0.25,
    restraint: float = 0.05,
    annotator: Noted = None,
    column: str = "links",
    dialect: str = "apportion",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """Weights from a graph over the turns: who used what whom brought, and who suffered from whose error.

        z = (phi - mean) / (std + 1e-6) over the tokens of the rollout        w = e^{clip(z, -limit, limit)}
        A_i > 0   w of support * e^{-restraint * (failure - mean)}            A_i < 0   w of failure
        A_k = A_i w_k * L / sum_j L_j w_j                                     so that sum_t A_t = L A_i

    Args:
        limit: c; before `restraint` no weight leaves [e^(-2 limit), e^(2 limit)].
        restraint: beta, how much an error takes from a turn of a success.
        annotator: gives `apportion.rewards.annotators.Links` per trajectory: a function, plain or async, or a Python
            file that defines `annotator`; default the column.
        column: trajectory column of recorded links: {"supports": [[0, 2]], "failed_uses": [], "errors": [],
            "from_user": []}, turns numbered from 0.
        dialect: whose GRPO.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: without links, with equal features and with one turn it is GRPO; a failure without an observable
    error is blamed evenly. A turn whose features are unknown weighs 1. An advantage of 0 stays 0.

    Raises:
        InvalidArgument: a negative limit or restraint.
        MissingInput: neither an annotator nor the column.

    Source: arXiv 2608.24588.
    """
    if not 0 <= restraint < float("inf"):
        raise InvalidArgument("restraint", restraint, "a finite number >= 0")
    if not 0 <= limit <= LARGEST_EXPONENT:
        raise InvalidArgument("limit", limit, f"a number in [0, {LARGEST_EXPONENT:.0f}]")
    support, failure = link_features(
        annotator_of(annotator, needed_by="recipe iapo", column=column, per=Level.TRAJECTORY)
    )

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        base = adv.grpo(signals["outcome"], dialect=dialect)
        weights = link_weights(
            base, support=signals[support.name], failure=signals[failure.name], limit=limit, restraint=restraint
        )
        return adv.modulate(base, weights, conserve="mass")

    return Recipe(
        name="iapo",
        observers=[outcome(reward, truncated=truncated), support, failure],
        assign_signals=assign,
        aggregation=adv.dialect(dialect).aggregation,
        paper="2608.24588",
        needs=(f"trajectory column {reward!r}", *notes_needed(annotator, column=column, per=Level.TRAJECTORY)),
        parameters={
            "limit": limit,
            "restraint": restraint,
            "annotator": shown(annotator),
            "column": column,
            "dialect": dialect,
            "reward": reward,
            "truncated": truncated,
        },
    )


def link_weights(
    advantage: Signal, *, support: Signal, failure: Signal, limit: float = 0.25, restraint: float = 0.05
) -> Signal:
    """The weights of `iapo`, before the mass is conserved.

    Args:
        advantage: A_i, per trajectory; its sign chooses the side.
        support: phi+ per turn.
        failure: phi- per turn.
        limit: as in `iapo`.
        restraint: as in `iapo`.

    Example:
        >>> b = Batch.of(groups=["q"], turns=[2])
        >>> won = Signal.of(b, Level.TRAJECTORY, [1.0], name="outcome")
        >>> used = Signal.of(b, Level.TURN, [1.0, 0.0], name="support")
        >>> w = link_weights(won, support=used, failure=Signal.zeros(b, Level.TURN, name="failure"))
        >>> [round(x, 4) for x in w.values.tolist()]
        [1.284, 0.7788]
    """
    gains = exp_clip(within_rollout(support), limit=limit)
    blames = exp_clip(within_rollout(failure), limit=limit)
    share = exp_clip(centred_in_rollout(failure) * -restraint, limit=LARGEST_EXPONENT)
    restrained = gains.values * torch.where(share.known, share.values, 1.0)
    won = advantage.spread(gains.level).values > 0
    return replace(
        gains,
        values=torch.where(won, restrained, blames.values),
        presence=torch.where(won, gains.presence, blames.presence),
    ).named("weight")
