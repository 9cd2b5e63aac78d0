"""What recipes with a critic share: its values from a token column, how a trajectory ended, and the whitening."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from apportion import advantages as adv
from apportion.advantages.modulate_weights import tokens_that_count
from apportion.advantages.states import OnTruncated, last_values
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Streams
from apportion.recipes.columns import TrajectoryColumn, token_signal, trajectory_column
from apportion.rewards import Truncated, outcome
from apportion.rewards.base import Reward
from apportion.signal import Signal

__all__ = ["Critic", "Whitening", "streams"]

Whitening: TypeAlias = Literal["batch", "none"]


class Critic:
    """A critic whose values were recorded with the rollouts.

    Args:
        recipe: who asks, for messages.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".
        values: token column, the critic's value of the state before each response token.
        bootstrap: trajectory column, its value of the state in which a trajectory was cut.
        on_truncated: "bootstrap", or "zero" to count a cut as an end.
    """

    def __init__(
        self,
        recipe: str,
        *,
        reward: str,
        truncated: Truncated,
        values: str,
        bootstrap: str,
        on_truncated: OnTruncated,
    ) -> None:
        self.recipe, self.values, self.truncated, self.on_truncated = recipe, values, truncated, on_truncated
        self.outcome = outcome(reward, truncated=truncated)
        self.end: TrajectoryColumn = trajectory_column(bootstrap)
        self.parameters = {
            "values": values,
            "bootstrap": bootstrap,
            "on_truncated": on_truncated,
            "reward": reward,
            "truncated": truncated,
        }
        self.needs = (
            f"trajectory column {reward!r}",
            f"token column {values!r}",
            f"trajectory column {bootstrap!r} where a trajectory was truncated",
        )

    @property
    def observers(self) -> tuple[Reward, Reward]:
        """The outcome, and what the last state is worth."""
        return self.outcome, self.end

    def of(self, batch: Batch, signals: Mapping[str, Signal]) -> tuple[Signal, Signal, Signal]:
        """The outcome, the value of the state before each policy token, and that of each last state.

        Raises:
            MissingInput: the token column, or the bootstrap of truncated trajectories.
        """
        how = "record the critic's value of the state before each token"
        values = token_signal(batch, self.values, needed_by=f"recipe {self.recipe!r}", how=how)
        # A cut rollout that takes no part needs no value after it.
        on_truncated = "zero" if self.truncated == "exclude" else self.on_truncated
        return signals[self.outcome.name], values, last_values(batch, signals[self.end.name], on_truncated=on_truncated)


def streams(advantage: Signal, targets: Signal, whitening: Whitening) -> Streams:
    """Advantages, whitened over what the current policy wrote, and the critic's targets as they are."""
    if whitening not in get_args(Whitening):
        raise InvalidArgument("whitening", whitening, f"one of {', '.join(get_args(Whitening))}")
    if whitening == "none":
        return Streams(advantages=advantage, returns=targets)
    counts = tokens_that_count(advantage.batch, advantage.level) > 0
    return Streams(advantages=adv.whiten(advantage.masked(counts)), returns=targets)
