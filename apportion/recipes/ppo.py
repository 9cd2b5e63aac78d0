"""PPO's side of the reward: GAE over the policy's tokens, and what the critic should have said."""

from __future__ import annotations

from collections.abc import Mapping

from apportion.advantages.gae import critic_targets, gae
from apportion.advantages.states import OnTruncated, critic_values
from apportion.batch import Batch
from apportion.recipe import Recipe, State, Streams
from apportion.recipes.critic_inputs import Critic, Whitening
from apportion.rewards import Truncated
from apportion.signal import Signal

__all__ = ["ppo"]


def ppo(
    *,
    discount: float = 1.0,
    lam: float = 0.95,
    whitening: Whitening = "batch",
    values: str = "values",
    bootstrap: str = "bootstrap_value",
    on_truncated: OnTruncated = "bootstrap",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """GAE from a critic's values, one step per policy token; needs no groups.

        A_t = whiten(GAE(r, V))     the outcome on the last policy token
        G_t = GAE(r, V) + V_t       the critic's target

    Args:
        discount: gamma; 1 is the habit for language models, the paper has 0.99.
        lam: lambda.
        whitening: over the policy tokens of the "batch", or "none".
        values: token column, the critic's value of the state before each response token.
        bootstrap: trajectory column, its value of the state in which a trajectory was cut.
        on_truncated: "bootstrap", or "zero" to count a cut as an end.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: an unknown outcome leaves the rollout out of advantages and targets. A perfect critic leaves
    exact zeros. A token without a value takes no part.

    Raises:
        InvalidArgument: a discount or lambda outside [0, 1], an unknown choice.
        MissingInput: no values, or a truncated trajectory without a bootstrap.

    Source: arXiv 1707.06347, GAE arXiv 1506.02438.
    """
    critic = Critic(
        "ppo",
        rates={"discount": discount, "lam": lam},
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
        advantage = gae(outcome, states, discount=discount, lam=lam)
        return critic.streams(advantage, critic_targets(advantage, states.before))

    return Recipe(
        name="ppo",
        observers=critic.observers,
        assign_signals=assign,
        aggregation="token-mean",
        scope=critic.scope,
        paper="1707.06347",
        needs=critic.needs,
        parameters=critic.parameters,
    )
