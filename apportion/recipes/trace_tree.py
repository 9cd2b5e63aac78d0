"""TRACE's tree allocation: rollouts continued where outcomes are likely to mix, and GRPO over the prompt's group."""

from __future__ import annotations

from collections.abc import Mapping

from apportion.advantages.group_stat import group_stat
from apportion.batch import Batch
from apportion.recipe import Recipe, State
from apportion.recipes.suffix_only import suffix_only
from apportion.recipes.tree_inputs import branches_needed, tree_observers, tree_of
from apportion.rewards import Truncated, outcome
from apportion.signal import Signal

__all__ = ["trace_tree"]


def trace_tree(*, reward: str = "reward", truncated: Truncated = "keep") -> Recipe:
    """GRPO over all rollouts of a prompt; a continuation learns from its branch point on.

        A_i = (R_i - mean_group R) / std_group R        t >= branch point of i, else 0; population std

    The method is about where to continue: `apportion.advantages.branch_plan` with gain="mixed" for prompts and
    "disagree" for prefixes. What its predictor of success learns is `Tree.mean(..., over="leaves")` of 0/1 outcomes.

    Args:
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: a group with one known outcome, or with equal ones, gets exactly 0. Where nothing was branched
    this is GRPO.

    Raises:
        MissingInput: when observing, no rollout says what it was branched off.
        InvalidArgument: when observing, a branch that does not repeat its parent.

    Source: the allocation is arXiv 2606.11119. Its policy update on the tree is not known to us: this one, on suffixes
    alone, is a reconstruction.
    """

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        return suffix_only(group_stat(signals["outcome"], ddof=0), tree_of(signals, among=signals["outcome"]))

    return Recipe(
        name="trace_tree",
        observers=[outcome(reward, truncated=truncated), *tree_observers()],
        assign_signals=assign,
        aggregation="token-mean",
        paper="2606.11119",
        needs=(f"trajectory column {reward!r}", *branches_needed("recorded")),
        reconstruction="the policy update: the paper's own, on the tree, is not known to us",
        parameters={"reward": reward, "truncated": truncated},
    )
