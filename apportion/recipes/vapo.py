"""VAPO: a lambda that grows with the length of the rollout, and Monte-Carlo targets for the critic."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from apportion.advantages.gae import gae, lambda_returns
from apportion.advantages.states import OnTruncated, critic_values
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State, Streams
from apportion.recipes.critic_inputs import Critic, Whitening
from apportion.rewards import Truncated
from apportion.signal import Signal

__all__ = ["vapo"]


def vapo(
    *,
    alpha: float = 0.05,
    critic_lam: float = 1.0,
    discount: float = 1.0,
    whitening: Whitening = "batch",
    values: str = "values",
    bootstrap: str = "bootstrap_value",
    on_truncated: OnTruncated = "bootstrap",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """Two passes of GAE: short rollouts trust the critic, long ones their outcome; the critic learns what was seen.

        lambda_i = max(0, 1 - 1 / (alpha * l_i))        l_i = policy tokens of the rollout
        A_t = whiten(GAE(r, V, lambda_i)),    G_t = GAE(r, V, critic_lam) + V_t

    Args:
        alpha: how fast lambda approaches 1; up to 1 / alpha tokens it is 0.
        critic_lam: lambda of the critic's targets; 1 = the return that was seen.
        discount: gamma.
        whitening: as in `ppo`.
        values: as in `ppo`.
        bootstrap: as in `ppo`.
        on_truncated: as in `ppo`.
        reward: as in `ppo`.
        truncated: as in `ppo`.

    The method's other parts are the trainer's: warming the critic up on such targets, clipping higher than lower, and a
    likelihood loss on right rollouts.

    Degenerate cases: as `ppo`.

    Raises:
        InvalidArgument: an alpha that is not positive, otherwise as `ppo`.
        MissingInput: as `ppo`.

    Source: arXiv 2504.05118, known to us through reports of it; critic targets from VC-PPO.
    """
    if not (alpha > 0 and math.isfinite(alpha)):
        raise InvalidArgument("alpha", alpha, "a positive number")
    critic = Critic(
        "vapo",
        rates={"discount": discount, "critic_lam": critic_lam},
        whitening=whitening,
        reward=reward,
        truncated=truncated,
        values=values,
        bootstrap=bootstrap,
        on_truncated=on_truncated,
    )

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Streams:
        outcome, before, last = critic.of(batch, signals)
        states = critic_values(before, last)
        length = batch.tokens_per_trajectory.to(torch.float64).clamp_min(1)
        lam = (1 - 1 / (alpha * length)).clamp_min(0)
        targets = lambda_returns(outcome, states, discount=discount, lam=critic_lam)
        return critic.streams(gae(outcome, states, discount=discount, lam=lam), targets)

    return Recipe(
        name="vapo",
        observers=critic.observers,
        assign_signals=assign,
        aggregation="token-mean",
        scope=critic.scope,
        paper="2504.05118",
        needs=critic.needs,
        reconstruction="from reports of the paper: whether advantages are whitened is unknown",
        parameters={"alpha": alpha, **critic.parameters},
    )
