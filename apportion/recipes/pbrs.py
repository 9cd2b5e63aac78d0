"""Potential-based shaping: the reward of a turn grows by what it did to a potential, and nothing else changes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from apportion import advantages as adv
from apportion.advantages.place import on_last_turn
from apportion.advantages.td import Terminal, td
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.state_inputs import Given, States
from apportion.rewards import Truncated, outcome
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["pbrs"]

Baseline: TypeAlias = Literal["turns", "none"]


def pbrs(
    *,
    weight: float = 1.0,
    discount: float = 1.0,
    terminal: Terminal = "zero",
    baseline: Baseline = "turns",
    potential: Given = None,
    column: str = "potential",
    start_value: float | None = None,
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """Returns of shaped rewards, compared with the mean over all turns of the group.

        r_k = [k = K] R_i + weight * (discount * Phi_k - Phi_{k-1})        G_k = sum_{j >= k} discount^(j-k) r_j
        A_k = G_k - mean of G over the turns of the group

    With the last state worth 0 the shaping terms of a return add up to -Phi_{k-1}: a baseline of the state, which
    changes no optimal policy and biases no gradient. With `terminal="keep"` the policy is paid for where it ends.

    Args:
        weight: of the potential, its units in units of the outcome.
        discount: gamma, per turn.
        terminal: "zero" counts the last state of a terminated rollout as worth 0; "keep" as what the potential says.
        baseline: "turns" subtracts the mean over the group's turns; "none" leaves the shaped returns as they are.
        potential: what values the states: an object, or a Python file that defines `potential`; default the columns.
        column: turn column of recorded values, the value after the turn; "<column>_start" of the prompt.
        start_value: the value of the prompt where that column is absent.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: a potential of 0, and one-turn rollouts, give group-centred returns (Dr.GRPO's numbers). A turn
    beside an unknown value is not shaped, but still returns what follows it. An unknown outcome leaves its group.

    Raises:
        InvalidArgument: a weight that is not finite, a discount outside [0, 1], or an unknown choice.
        MissingInput: neither a potential nor the columns.

    Source: Ng, Harada and Russell 1999 for the shaping; the mean over turns as baseline is the choice of this library.
    """
    if not math.isfinite(weight):
        raise InvalidArgument("weight", weight, "a finite number")
    if baseline not in get_args(Baseline):
        raise InvalidArgument("baseline", baseline, f"one of {', '.join(get_args(Baseline))}")
    if not 0 <= discount <= 1:
        raise InvalidArgument("discount", discount, "a number in [0, 1]")
    if terminal not in get_args(Terminal):
        raise InvalidArgument("terminal", terminal, f"one of {', '.join(get_args(Terminal))}")
    states = States(potential, column=column, start_value=start_value)

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        final = on_last_turn(signals["outcome"])
        values = states.of(signals, end="keep" if terminal == "keep" else "zero_if_terminated")
        shaping = td(values, discount=discount) * weight
        scored = batch.spread(signals["outcome"].known, Level.TRAJECTORY, Level.TURN)
        returns = adv.return_to_go(final + shaping.masked(scored), discount=discount).masked(scored)
        return adv.group_center(returns) if baseline == "turns" else returns

    return Recipe(
        name="pbrs",
        observers=[outcome(reward, truncated=truncated), *states.observers],
        assign_signals=assign,
        aggregation="token-mean",
        paper="Ng et al. 1999",
        needs=(f"trajectory column {reward!r}", *states.needs),
        reconstruction="the baseline: the paper shapes rewards and leaves the learner open",
        parameters={
            "weight": weight,
            "discount": discount,
            "terminal": terminal,
            "baseline": baseline,
            "potential": states.source.name,
            "column": column,
            "start_value": start_value,
            "reward": reward,
            "truncated": truncated,
        },
    )
