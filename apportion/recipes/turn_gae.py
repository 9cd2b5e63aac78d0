"""Turn-level GAE: a turn is one step, and all its tokens share the turn's advantage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from apportion.advantages.gae import critic_targets, gae
from apportion.advantages.states import OnTruncated, turn_values
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State, Streams
from apportion.recipes.critic_inputs import Critic, Whitening
from apportion.rewards import Truncated
from apportion.signal import Signal

__all__ = ["turn_gae"]


def turn_gae(
    *,
    discount: float = 0.95,
    lam: float = 1.0,
    read: Literal["first", "last"] = "last",
    whitening: Whitening = "batch",
    values: str = "values",
    bootstrap: str = "bootstrap_value",
    on_truncated: OnTruncated = "bootstrap",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """GAE from turn to turn, so that a discount counts turns; the turn-wise variant of bi-level GAE.

        A_k = whiten(GAE(r, V)_k) for every token of turn k;    V_k = V of its last (first) policy token

    Args:
        discount: gamma from turn to turn.
        lam: lambda from turn to turn.
        read: which token's value is the turn's: the "last" one, as the public code reads it, or the "first" one, the
            state in which the turn is chosen.
        whitening: over the turns of the "batch", each counted once, or "none".
        values: as in `ppo`.
        bootstrap: as in `ppo`.
        on_truncated: as in `ppo`.
        reward: as in `ppo`; it sits on the last turn.
        truncated: as in `ppo`.

    Critic targets are per turn: they belong to the token whose value was read.

    Degenerate cases: as `ppo`; turns without policy tokens are no steps.

    Raises:
        InvalidArgument: as `ppo`.
        MissingInput: as `ppo`.

    Source: the public code of RAGEN and VAGEN (arXiv 2504.20073).
    """
    if read not in ("first", "last"):
        raise InvalidArgument("read", read, "first or last")
    critic = Critic(
        "turn_gae",
        rates={"discount": discount, "lam": lam},
        whitening=whitening,
        reward=reward,
        truncated=truncated,
        values=values,
        bootstrap=bootstrap,
        on_truncated=on_truncated,
    )

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Streams:
        outcome, tokens, last = critic.of(batch, signals)
        states = turn_values(tokens, last, read=read)
        advantage = gae(outcome, states, discount=discount, lam=lam)
        return critic.streams(advantage, critic_targets(advantage, states.before))

    return Recipe(
        name="turn_gae",
        observers=critic.observers,
        assign_signals=assign,
        aggregation="token-mean",
        scope=critic.scope,
        paper="2504.20073",
        needs=critic.needs,
        parameters={"read": read, **critic.parameters},
    )
