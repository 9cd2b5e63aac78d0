"""SIOP: without a gold answer, turns are paid for the support that they give to the answer most rollouts agree on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from apportion.advantages.group_stat import group_stat
from apportion.advantages.place import on_last_turn
from apportion.advantages.return_to_go import return_to_go
from apportion.advantages.states import StateValues
from apportion.advantages.td import td
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.state_inputs import Given, States
from apportion.rewards import outcome
from apportion.rollouts import Level
from apportion.signal import Signal, Term

__all__ = ["cluster_reliability", "siop"]


def siop(
    *,
    outcome_share: float = 0.5,
    discount: float = 1.0,
    floor: float = 1e-8,
    potential: Given = None,
    column: str = "support",
    start_value: float | None = None,
    reliability: str = "reliability",
) -> Recipe:
    """How much each turn raised the support of the rollout's own answer, weighted by how reliable that answer is.

        r_k = q (ln(p_k + floor) - ln(p_{k-1} + floor)),   the last turn also gets outcome_share * q
        A_k = z_g(r)_k + discount * A_{k+1}                z over all turns of the group, std by n - 1

    Args:
        outcome_share: 1 - lambda.
        discount: gamma, per turn.
        floor: keeps the logarithm finite.
        potential: p, the support of the rollout's own cluster of answers: a potential, or a Python file that defines
            `potential`; default the recorded columns.
        column: turn column with recorded p_k; "<column>_start" of the trajectory has p_0.
        start_value: p_0 where that column is absent.
        reliability: trajectory column with q in [0, 1], see `cluster_reliability`; 0 = no valid answer.

    Degenerate cases: a rollout of one turn has outcome_share * q alone. Without a valid answer a rollout leaves the
    pool and gets 0, which is the paper's and makes giving no answer as good as the average one. An unknown support adds
    nothing and leaves the pool, but for the last turn's share of q. Equal rewards give exact zeros.

    Raises:
        InvalidArgument: a share that is not finite, a discount outside [0, 1], or support below 0.
        MissingInput: neither a potential nor the columns.

    Source: arXiv 2605.04984 and its code. With the gold answer as reference and q = 1 it is IGPO with logarithms.
    """
    if not math.isfinite(outcome_share):
        raise InvalidArgument("outcome_share", outcome_share, "a finite number")
    if not 0 <= discount <= 1:
        raise InvalidArgument("discount", discount, "a number in [0, 1]")
    if not floor > 0:
        raise InvalidArgument("floor", floor, "a number > 0")
    states = States(potential, column=column, start_value=start_value)

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        q = signals["reliability"]
        values = states.of(signals)
        logs = StateValues(before=_log(values.before, floor), after=_log(values.after, floor))
        answered, several = q.known & (q.values > 0), batch.turns > 1
        gain = td(logs).neutral().scaled(q.values, Level.TRAJECTORY)
        gain = gain.masked(batch.spread(answered & several, Level.TRAJECTORY, Level.TURN))
        final = on_last_turn(Signal.of(batch, Level.TRAJECTORY, [1.0] * len(batch), name="last")).values > 0
        share = on_last_turn(q.masked(answered) * outcome_share).masked(final)
        credit = return_to_go(group_stat(gain + share, ddof=1), discount=discount)
        # A rollout without a valid answer stays in the loss's denominators.
        return credit + q.linear(torch.zeros_like).neutral().spread(Level.TURN)

    return Recipe(
        name="siop",
        observers=[outcome(reliability, name="reliability"), *states.observers],
        assign_signals=assign,
        aggregation="token-mean",
        paper="2605.04984",
        needs=(f"trajectory column {reliability!r}", *states.needs),
        parameters={
            "outcome_share": outcome_share,
            "discount": discount,
            "floor": floor,
            "potential": states.source.name,
            "column": column,
            "start_value": start_value,
            "reliability": reliability,
        },
    )


def _log(x: Signal, floor: float) -> Signal:
    below = x.known & (x.values < 0)
    if bool(below.any()):
        raise InvalidArgument("support", x.values[below][:10].tolist(), "probabilities, not below 0")
    values = torch.where(x.known, torch.log(x.values.clamp_min(0.0) + floor), 0.0)
    return replace(x, values=values, terms={"support": Term(x.level, values)})


def cluster_reliability(sizes: Sequence[int], evidence: Sequence[float], *, eta: float = 1.0) -> list[float]:
    """How reliable each cluster of a prompt's answers is.

        q(c) = m(c) exp(eta * e_c) / sum_c' m(c') exp(eta * e_c')        m(c) = size / all valid answers

    Args:
        sizes: how many rollouts gave an answer of each cluster.
        evidence: e_c, mean probability that a tool's observation entails the answer.
        eta: 0 in the code's defaults, 1 in its launcher.

    Returns:
        q of every cluster, summing to 1; a single cluster has 1.

    Raises:
        InvalidArgument: no cluster, a size below 1, or another number of evidences.

    Example:
        >>> [round(q, 4) for q in cluster_reliability([3, 1], [0.8, 0.2])]
        [0.8454, 0.1546]
    """
    if not sizes or len(sizes) != len(evidence) or min(sizes) < 1 or not all(map(math.isfinite, evidence)):
        raise InvalidArgument("sizes", list(sizes), f"a size >= 1 for each of {len(evidence)} evidences")
    logits = [math.log(size) + eta * e for size, e in zip(sizes, evidence, strict=True)]
    shares = [math.exp(logit - max(logits)) for logit in logits]
    return [share / sum(shares) for share in shares]
