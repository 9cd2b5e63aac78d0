"""VinePPO: values from fresh continuations in place of a critic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import torch

from apportion import advantages as adv
from apportion import segments
from apportion.advantages.modulate_weights import in_loss
from apportion.advantages.place import on_last_turn
from apportion.advantages.states import StateValues
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.state_inputs import Given, States
from apportion.rewards import Truncated, outcome
from apportion.signal import Signal

__all__ = ["backfilled", "vineppo"]

Whitening: TypeAlias = Literal["tokens", "none"]


def vineppo(
    *,
    whitening: Whitening = "tokens",
    potential: Given = None,
    column: str = "value",
    start_value: float | None = None,
    reward: str = "reward",
    truncated: Truncated = "zero",
) -> Recipe:
    """What a turn changed in the value of the state, where values are means over fresh continuations.

        A_k = r_k + V(s_k) - V(s_{k-1}),   r_K = R_i,   V(s_K) = 0        sum_k A_k = R_i - V(s_0)

    A state that was not sampled is filled backwards, V(s_{k-1}) = r_k + V(s_k): the turn that starts from it gets 0,
    and the turn before gets what really followed in this rollout.

    Args:
        whitening: over the policy "tokens" of the batch, as the PPO trainer does before its loss, or "none".
        potential: the values, see `apportion.rewards.potentials.monte_carlo_potential`: an object, or a Python file
            that defines `potential`; default the columns.
        column: turn column of recorded values, after the turn; "<column>_start" of the prompt.
        start_value: the value of the prompt where that column is absent.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns; "zero" is the paper's: it counts as a failure.

    Degenerate cases: where no state of a rollout has a value, all its turns get 0. An unknown outcome leaves the
    rollout out. The last state is worth 0 whatever was recorded of it. When all values of the batch are equal and
    rewards too, whitening gives exact zeros.

    Raises:
        InvalidArgument: an unknown whitening.
        MissingInput: neither a potential nor the columns.

    Source: arXiv 2410.01679 and its code.
    """
    if whitening not in get_args(Whitening):
        raise InvalidArgument("whitening", whitening, f"one of {', '.join(get_args(Whitening))}")
    states = States(potential, column=column, start_value=start_value)

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        credit = backfilled(states.of(signals, end="zero"), on_last_turn(signals["outcome"].neutral()))
        return adv.whiten(in_loss(credit)) if whitening == "tokens" else credit

    return Recipe(
        name="vineppo",
        observers=[outcome(reward, truncated=truncated), *states.observers],
        assign_signals=assign,
        aggregation="token-mean",
        scope="batch" if whitening == "tokens" else "group",
        paper="2410.01679",
        needs=(f"trajectory column {reward!r}", *states.needs),
        parameters={
            "whitening": whitening,
            "potential": states.source.name,
            "column": column,
            "start_value": start_value,
            "reward": reward,
            "truncated": truncated,
        },
    )


def backfilled(values: StateValues, reward: Signal) -> Signal:
    """One-step credit over the states that have a value; the others are worth what really followed.

        A_k = r_k + V(s_k) - V(s_{k-1}),   V(s_{k-1}) = r_k + V(s_k) where it is unknown

    Args:
        values: before and after every turn. After the last turn of a trajectory nothing follows.
        reward: r, per turn; turns without one are left out.

    Returns:
        A TURN signal; a turn that starts from a state without a value gets a known 0.

    Example:
        >>> from apportion.advantages.states import state_values
        >>> from apportion.rollouts import Level
        >>> b = Batch.of(groups=["q"], turns=[3])
        >>> start = Signal.of(b, Level.TRAJECTORY, [0.5], name="value")
        >>> v = state_values(start, Signal.of(b, Level.TURN, [0.75, None, 0.0], name="value"))
        >>> backfilled(v, Signal.of(b, Level.TURN, [0.0, 0.0, 1.0], name="outcome")).values.tolist()
        [0.25, 0.25, 0.0]
    """
    turns, measured = values.after.batch.turns, values.before.known
    final = (torch.cumsum(turns, 0) - 1)[turns > 0]
    cut = torch.nonzero(values.after.known.index_fill(0, final, True)).flatten()
    pieces = torch.diff(cut, prepend=cut.new_tensor([-1]))
    # A value that is not known adds nothing to what the piece gained.
    bootstrap = replace(values.after.named("value"), presence=reward.presence)
    gained = (reward + bootstrap).linear(lambda x: segments.reverse_scan(x, pieces))
    credit = gained - values.before.masked(measured & reward.known).named("value")
    return credit.linear(lambda x: torch.where(measured, x, 0.0))
