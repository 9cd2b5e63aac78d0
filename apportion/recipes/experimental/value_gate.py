"""Success is credited where the odds rose, failure blamed where they fell. Inspired by HABC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from apportion import advantages as adv
from apportion.advantages.modulate_weights import tanh_gate
from apportion.advantages.states import StateValues
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.state_inputs import Given, States
from apportion.rewards import Truncated, outcome
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["gate_score", "value_gate"]


def value_gate(
    *,
    floor: float = 1e-3,
    potential: Given = None,
    column: str = "success_probability",
    start_value: float | None = None,
    steps_left: Given = None,
    dialect: str = "apportion",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """The outcome's advantage, weighted by how much better or worse a turn made things.

        rise_k = logit p_k - logit p_{k-1}             pace_k = -1 - (n_k - n_{k-1}), 0 without `steps_left`
        g_k = 1 + tanh((1 - p_{k-1}) rise_k + p_{k-1} pace_k)
        A_k = A_i w_k * L / sum_j L_j w_j              w = g where A_i > 0, 2 - g where A_i < 0

    Args:
        floor: probabilities are kept inside [floor, 1 - floor].
        potential: the probability of success: an object, or a Python file that defines `potential`; default the
            columns.
        column: turn column of recorded probabilities, after the turn; "<column>_start" of the prompt.
        start_value: the probability for the prompt where that column is absent.
        steps_left: predicts n, the turns that are left, from a state.
        dialect: whose GRPO.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: a constant probability is GRPO; a turn beside an unknown value weighs 1.

    Raises:
        InvalidArgument: a floor outside (0, 0.5), or, when assigning, a probability outside [0, 1].
        MissingInput: neither a potential nor the columns.

    Source: inspired by arXiv 2606.17043, which weighs behaviour cloning of robots; failures weigh 0 there.
    """
    if not 0 < floor < 0.5:
        raise InvalidArgument("floor", floor, "a number between 0 and 0.5")
    chances = States(potential, column=column, start_value=start_value)
    left = None if steps_left is None else States(steps_left, column="steps_left", start_value=None)

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        base = adv.grpo(signals["outcome"], dialect=dialect)
        score = gate_score(chances.of(signals), None if left is None else left.of(signals), floor=floor)
        gate = tanh_gate(score)
        won = batch.spread(base.values >= 0, Level.TRAJECTORY, Level.TURN)
        either = torch.where(won, gate.values, torch.where(gate.known, 2.0 - gate.values, 0.0))
        return adv.modulate(base, replace(gate, values=either).named("weight"), conserve="mass")

    return Recipe(
        name="experimental/value_gate",
        observers=[outcome(reward, truncated=truncated), *chances.observers, *(left.observers if left else ())],
        assign_signals=assign,
        aggregation=adv.dialect(dialect).aggregation,
        paper="2606.17043",
        needs=(f"trajectory column {reward!r}", *chances.needs),
        reconstruction="inspired by the paper, which weighs behaviour cloning of robots; the transfer is all ours",
        parameters={
            "floor": floor,
            "potential": chances.source.name,
            "column": column,
            "start_value": start_value,
            "steps_left": None if left is None else left.source.name,
            "dialect": dialect,
            "reward": reward,
            "truncated": truncated,
        },
    )


def gate_score(chances: StateValues, left: StateValues | None = None, *, floor: float = 1e-3) -> Signal:
    """What the gate of `value_gate` is closed or opened by, per turn.

    Args:
        chances: the probability of success, before and after every turn.
        left: the turns that are left, likewise.
        floor: as in `value_gate`.

    Raises:
        InvalidArgument: a probability outside [0, 1].

    Example:
        >>> from apportion.advantages.states import state_values
        >>> b = Batch.of(groups=["q"], turns=[1])
        >>> start = Signal.of(b, Level.TRAJECTORY, [0.5], name="p")
        >>> v = state_values(start, Signal.of(b, Level.TURN, [0.75], name="p"))
        >>> round(float(gate_score(v).values[0]), 4)
        0.5493
    """
    known = chances.before.known & chances.after.known
    for x in (chances.before, chances.after):
        bad = torch.nonzero(x.known & ((x.values < 0) | (x.values > 1))).flatten()[:10]
        if bad.numel():
            raise InvalidArgument("potential", x.values[bad].tolist(), "probabilities of success, in [0, 1]")
    p = chances.before.values
    rise = torch.logit(chances.after.values, eps=floor) - torch.logit(p, eps=floor)
    pace = torch.zeros_like(rise)
    if left is not None:
        known = known & left.before.known & left.after.known
        pace = left.before.values - left.after.values - 1.0
    score = replace(chances.after, values=(1.0 - p) * rise + p * pace)
    return score.masked(known).neutral().named("gate")
