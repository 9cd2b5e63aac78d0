"""SIOP: without a gold answer, turns are paid for the support that they give to the answer most rollouts agree on."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from apportion.advantages.group_stat import group_stat
from apportion.advantages.place import on_last_turn, wrote
from apportion.advantages.return_to_go import return_to_go
from apportion.advantages.td import td
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.state_inputs import Given, States
from apportion.rewards import Reward, outcome
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["siop"]


def siop(
    *,
    outcome_share: float = 0.5,
    discount: float = 1.0,
    potential: Given = None,
    column: str = "cluster_support",
    start_value: float | None = None,
    reliability: str | Reward = "reliability",
) -> Recipe:
    """How much each turn raised the support of the rollout's own answer, weighted by how reliable that answer is.

        r_k = Phi_k - Phi_{k-1},   Phi_k = q ln(p_k + floor);   the last turn also gets outcome_share * q
        A_k = z_g(r)_k + discount * A_{k+1}                     z over all turns of the group, std by n - 1

    Args:
        outcome_share: 1 - lambda.
        discount: gamma, per turn.
        potential: Phi: `apportion.judges.scoring.cluster_support`, any other potential, or a Python file that defines
            `potential`; default the recorded columns.
        column: turn column with recorded Phi_k; "<column>_start" of the trajectory has Phi_0.
        start_value: Phi_0 where that column is absent.
        reliability: q in [0, 1]: a trajectory column, or a reward per trajectory; 0 = no valid answer.

    Degenerate cases: a rollout of one turn has outcome_share * q alone. Without a valid answer a rollout leaves the
    pool and gets 0, which is the paper's and makes giving no answer as good as the average one. An unknown support adds
    nothing and leaves the pool, but for the last turn's share of q. Equal rewards give exact zeros.

    Raises:
        InvalidArgument: a share that is not finite, or a discount outside [0, 1].
        MissingInput: neither a potential nor the columns.

    Source: arXiv 2605.04984 and its code. With the gold answer as reference and q = 1 it is IGPO with logarithms.
    """
    if not math.isfinite(outcome_share):
        raise InvalidArgument("outcome_share", outcome_share, "a finite number")
    if not 0 <= discount <= 1:
        raise InvalidArgument("discount", discount, "a number in [0, 1]")
    states = States(potential, column=column, start_value=start_value)
    trust = reliability
    if isinstance(trust, str):
        trust = outcome(trust, name="reliability", remedy="record how far the rollout's own answer can be trusted, q")

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        q = signals[trust.name].named("reliability")
        answered = q.known & (q.values > 0)
        several = batch.pool(wrote(batch).to(torch.int64), Level.TURN, Level.TRAJECTORY, "sum") > 1
        gain = td(states.of(signals)).neutral()
        gain = gain.masked(batch.spread(answered & several, Level.TRAJECTORY, Level.TURN))
        final = on_last_turn(Signal.of(batch, Level.TRAJECTORY, [1.0] * len(batch), name="last")).values > 0
        share = on_last_turn(q.masked(answered) * outcome_share).masked(final)
        credit = return_to_go(group_stat(gain + share, ddof=1), discount=discount)
        # A rollout without a valid answer stays in the loss's denominators.
        return credit + q.linear(torch.zeros_like).neutral().spread(Level.TURN)

    return Recipe(
        name="siop",
        observers=[trust, *states.observers],
        assign_signals=assign,
        aggregation="token-mean",
        paper="2605.04984",
        needs=(*((f"trajectory column {reliability!r}",) if isinstance(reliability, str) else ()), *states.needs),
        parameters={
            "outcome_share": outcome_share,
            "discount": discount,
            "potential": states.source.name,
            "column": column,
            "start_value": start_value,
            "reliability": trust.name,
        },
    )
