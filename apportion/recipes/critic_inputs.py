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

__all__ = ["Critic", "Whitening"]

Whitening: TypeAlias = Literal["batch", "none"]


class Critic:
    """A critic whose values were recorded with the rollouts.

    Args:
        recipe: who asks, for messages.
        rates: its discounts and lambdas by name, all in [0, 1].
        whitening: over the elements of the "batch", or "none".
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".
        values: token column, the critic's value of the state before each response token.
        bootstrap: trajectory column, its value of the state in which a trajectory was cut.
        on_truncated: "bootstrap", or "zero" to count a cut as an end.

    Raises:
        InvalidArgument: a rate outside [0, 1], or an unknown choice.
    """

    def __init__(
        self,
        recipe: str,
        *,
        rates: Mapping[str, float],
        whitening: Whitening,
        reward: str,
        truncated: Truncated,
        values: str,
        bootstrap: str,
        on_truncated: OnTruncated,
    ) -> None:
        for name, rate in rates.items():
            if not 0 <= rate <= 1:
                raise InvalidArgument(name, rate, "a number in [0, 1]")
        if whitening not in get_args(Whitening):
            raise InvalidArgument("whitening", whitening, f"one of {', '.join(get_args(Whitening))}")
        if on_truncated not in get_args(OnTruncated):
            raise InvalidArgument("on_truncated", on_truncated, f"one of {', '.join(get_args(OnTruncated))}")
        self.recipe, self.whitening, self.values = recipe, whitening, values
        # A cut rollout that takes no part needs no value after it.
        self.on_truncated: OnTruncated = "zero" if truncated == "exclude" else on_truncated
        self.outcome = outcome(reward, truncated=truncated)
        self.end: TrajectoryColumn = trajectory_column(bootstrap)
        self.parameters = {
            **rates,
            "whitening": whitening,
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

    @property
    def scope(self) -> Literal["group", "batch"]:
        """A whitening looks at the whole batch."""
        return "group" if self.whitening == "none" else "batch"

    def of(self, batch: Batch, signals: Mapping[str, Signal]) -> tuple[Signal, Signal, Signal]:
        """The outcome, the value of the state before each policy token, and that of each last state.

        Raises:
            MissingInput: the token column, or the bootstrap of truncated trajectories.
        """
        how = "record the critic's value of the state before each token"
        values = token_signal(batch, self.values, needed_by=f"recipe {self.recipe!r}", how=how)
        last = last_values(batch, signals[self.end.name], on_truncated=self.on_truncated)
        return signals[self.outcome.name], values, last

    def streams(self, advantage: Signal, targets: Signal) -> Streams:
        """Advantages, whitened over what the current policy wrote, and the critic's targets as they are."""
        if self.whitening == "none":
            return Streams(advantages=advantage, returns=targets)
        counts = tokens_that_count(advantage.batch, advantage.level) > 0
        return Streams(advantages=adv.whiten(advantage.masked(counts)), returns=targets)
