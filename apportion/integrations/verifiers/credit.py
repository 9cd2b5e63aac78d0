"""Credit of a recipe in the traces that prime-rl trains on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apportion.errors import InvalidArgument
from apportion.integrations.verifiers.traces import branch_of, rollout_of
from apportion.recipe import Credit, Recipe, State

__all__ = ["assign"]


def assign(
    traces: Sequence[Any],
    recipe: Recipe,
    *,
    step: int | None = None,
    state: State | None = None,
    failure_limit: float = 0.5,
) -> tuple[Credit, State]:
    """Observe the traces and write each sampled token's advantage into `MessageNode.advantages`.

    Args:
        traces: whole groups; traces of one task key are a group. Each has one branch that trains.
        recipe: the recipe.
        step: of the training, for schedules.
        state: of the step before.
        failure_limit: share of one observer's failed verdicts above which it raises.

    Returns:
        The credit and the state after it. The loss aggregation that the recipe assumes is `credit.aggregation`: the
        trainer decides what it computes.

    Degenerate cases: a trace whose verdict is missing gets exact zeros.

    Raises:
        InvalidArgument: no tokens, or not one branch that trains.
        ObserverFailing: more verdicts failed than the limit allows.
        MissingInput: the recipe needs more than the traces carry.
    """
    rollouts = [rollout_of(trace) for trace in traces]
    texts = [t.id for t in rollouts if not t.has_tokens]
    if texts:
        raise InvalidArgument("traces", texts[:10], "traces with tokens, from a client that trains")
    credit, after = recipe.score(rollouts, step=step, state=state, failure_limit=failure_limit)
    values = iter(credit.advantages.neutral().values.tolist())
    for trace in traces:
        for node in branch_of(trace).nodes:
            if any(node.mask):
                node.advantages = [next(values) for _ in range(sum(node.mask))]
    return credit, after
