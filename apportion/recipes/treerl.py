"""TreeRL: what a step adds to the success below it, against the whole prompt and against the step before."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from apportion.advantages.group_stat import group_stat
from apportion.advantages.modulate import modulate
from apportion.advantages.modulate_weights import inverse_root
from apportion.batch import Batch
from apportion.recipe import Recipe, State
from apportion.recipes.tree_inputs import Branches, branches_needed, tree_observers, tree_of
from apportion.rewards import Truncated, outcome
from apportion.signal import Signal

__all__ = ["treerl"]


def treerl(*, branches: Branches = "recorded", reward: str = "reward", truncated: Truncated = "keep") -> Recipe:
    """The value of a node against the root's and its parent's, divided by the root of the leaves that share it.

        leaf score  s_i = R_i - mean of the other leaves of the prompt
        V(n) = mean of s over the leaves under n
        A(n) = ((V(n) - V(root)) + (V(n) - V(parent))) / sqrt(leaves under n)

    A node is the stretch from one branch point to the next; its tokens, in the rollout that wrote them, get its credit.

    Args:
        branches: "recorded" (columns) or "prefixes" (turns that are equal), see `apportion.recipes.tree_inputs`.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: an unknown outcome is no leaf; a node without a known leaf gets nothing. Equal outcomes give
    exactly 0. Where nothing branches this is twice RLOO, since the root is the parent.

    Raises:
        MissingInput: when observing with "recorded", no rollout says what it was branched off.
        InvalidArgument: when observing, a branch that does not repeat its parent.

    Source: arXiv 2506.11902 and its code. The code may first subtract a token-weighted mean from all values; in these
    differences it cancels.
    """

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        tree, leaves = (
            tree_of(signals, among=signals["outcome"]),
            group_stat(signals["outcome"], center="loo", scale="none"),
        )
        count = tree.count(leaves.known)

        def gain(values: Tensor) -> Tensor:
            worth = tree.mean(values, leaves.known, over="leaves")
            return 2.0 * worth - worth[tree.root] - worth[tree.parent]

        shared = Signal.of(batch, tree.level, count[tree.node], name="leaves", known=count[tree.node] > 0)
        return modulate(tree.spread(leaves, gain, count > 0), inverse_root(shared))

    return Recipe(
        name="treerl",
        observers=[outcome(reward, truncated=truncated), *tree_observers(branches)],
        assign_signals=assign,
        aggregation="token-mean",
        paper="2506.11902",
        needs=(f"trajectory column {reward!r}", *branches_needed(branches)),
        parameters={"branches": branches, "reward": reward, "truncated": truncated},
    )
