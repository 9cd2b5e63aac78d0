"""Bi-level GAE: credit between turns, then between the tokens of a turn."""

from __future__ import annotations

from collections.abc import Mapping

from apportion import advantages as adv
from apportion.advantages.gae import critic_targets
from apportion.advantages.states import OnTruncated
from apportion.batch import Batch
from apportion.recipe import Recipe, State, Streams
from apportion.recipes.critic_inputs import Critic, Whitening
from apportion.rewards import Truncated
from apportion.signal import Signal

__all__ = ["bilevel_gae"]


def bilevel_gae(
    *,
    turn_discount: float = 0.95,
    turn_lam: float = 1.0,
    discount: float = 1.0,
    lam: float = 1.0,
    whitening: Whitening = "batch",
    values: str = "values",
    bootstrap: str = "bootstrap_value",
    on_truncated: OnTruncated = "bootstrap",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """GAE over turns, whose returns are the rewards of a GAE over the tokens of each turn.

        A_t = whiten(bilevel_gae(r, V)_t),    G_t = bilevel_gae(r, V)_t + V_t

    Args:
        turn_discount: gamma from turn to turn.
        turn_lam: lambda from turn to turn.
        discount: gamma from token to token inside a turn.
        lam: lambda from token to token inside a turn.
        whitening: as in `ppo`.
        values: as in `ppo`.
        bootstrap: as in `ppo`.
        on_truncated: as in `ppo`.
        reward: as in `ppo`.
        truncated: as in `ppo`.

    Degenerate cases: as `ppo`. With one turn and every discount and lambda 1 it is `ppo` with lambda 1.

    Raises:
        InvalidArgument: as `ppo`.
        MissingInput: as `ppo`.

    Source: the public code of RAGEN and VAGEN (arXiv 2504.20073); for the turn-wise variant see `turn_gae`.
    """
    critic = Critic(
        "bilevel_gae",
        rates={"turn_discount": turn_discount, "turn_lam": turn_lam, "discount": discount, "lam": lam},
        whitening=whitening,
        reward=reward,
        truncated=truncated,
        values=values,
        bootstrap=bootstrap,
        on_truncated=on_truncated,
    )

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Streams:
        outcome, before, last = critic.of(batch, signals)
        advantage = adv.bilevel_gae(
            outcome, before, last, turn_discount=turn_discount, turn_lam=turn_lam, discount=discount, lam=lam
        )
        return critic.streams(advantage, critic_targets(advantage, before))

    return Recipe(
        name="bilevel_gae",
        observers=critic.observers,
        assign_signals=assign,
        aggregation="token-mean",
        scope=critic.scope,
        paper="2504.20073",
        needs=critic.needs,
        parameters=critic.parameters,
    )
