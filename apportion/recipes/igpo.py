"""IGPO: a turn is paid for how much likelier it made the gold answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from apportion.advantages.group_stat import group_stat
from apportion.advantages.place import on_last_turn
from apportion.advantages.return_to_go import return_to_go
from apportion.advantages.td import td
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.state_inputs import Given, States
from apportion.rewards import Truncated, outcome
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["igpo"]

Normalise: TypeAlias = Literal["separate", "joint"]


def igpo(
    *,
    normalise: Normalise = "separate",
    discount: float = 1.0,
    eps: float = 1e-6,
    potential: Given = None,
    column: str = "answer_probability",
    start_value: float | None = None,
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """Information gain of every turn but the last, the outcome on the last, normalised and summed to the end.

        r_k = p_k - p_{k-1} for k < K,   r_K = R        p_k = probability of the gold answer after turn k
        A_k = z(r)_k + discount * A_{k+1}               z over all turns of the group

    Args:
        normalise: "separate": gains among gains and outcomes among outcomes; "joint": all in one pool.
        discount: gamma, per turn.
        eps: added to the standard deviation (n - 1).
        potential: p under the current policy: a potential, or a Python file that defines `potential`, the exponential
            of the answer's mean log-probability; default the recorded columns.
        column: turn column with recorded p_k; "<column>_start" of the trajectory has p_0.
        start_value: p_0 where that column is absent.
        reward: trajectory column with the outcome R, in the paper F1, and -2 for a broken format.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: equal gains add nothing, which leaves GRPO ("separate"); a gain of which one side is not known
    adds nothing and leaves the pool; a rollout of one turn has its outcome alone; an unknown outcome leaves its pool.

    Raises:
        InvalidArgument: an unknown choice, or a discount outside [0, 1].
        MissingInput: neither a potential nor the columns.

    Source: arXiv 2510.14967 and its code, whose first version accumulates inside runs of the mask only; here turns come
    from the turn table.
    """
    if normalise not in get_args(Normalise):
        raise InvalidArgument("normalise", normalise, f"one of {', '.join(get_args(Normalise))}")
    if not 0 <= discount <= 1:
        raise InvalidArgument("discount", discount, "a number in [0, 1]")
    states = States(potential, column=column, start_value=start_value)

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        final = on_last_turn(Signal.of(batch, Level.TRAJECTORY, [1.0] * len(batch), name="last")).values > 0
        gain = td(states.of(signals)).neutral().masked(~final)
        solved = signals["outcome"]
        if normalise == "joint":
            pool = gain + on_last_turn(solved).masked(final).neutral()
            parts = group_stat(pool, ddof=1, eps=eps)
        else:
            earned = on_last_turn(group_stat(solved, ddof=1, eps=eps))
            parts = earned + group_stat(gain, ddof=1, eps=eps)
        return return_to_go(parts, discount=discount)

    return Recipe(
        name="igpo",
        observers=[outcome(reward, truncated=truncated), *states.observers],
        assign_signals=assign,
        aggregation="token-mean",
        paper="2510.14967",
        needs=(f"trajectory column {reward!r}", *states.needs),
        parameters={
            "normalise": normalise,
            "discount": discount,
            "eps": eps,
            "potential": states.source.name,
            "column": column,
            "start_value": start_value,
            "reward": reward,
            "truncated": truncated,
        },
    )
