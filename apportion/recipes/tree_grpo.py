"""Tree-GRPO: every rollout against its prompt's group, and against the rollouts of its own tree."""

from __future__ import annotations

from collections.abc import Mapping

from apportion.advantages.branches import inside_groups
from apportion.advantages.group_stat import group_stat
from apportion.batch import Batch
from apportion.recipe import Recipe, State
from apportion.rewards import Truncated, outcome
from apportion.rewards.branches import tree_key
from apportion.signal import Signal

__all__ = ["tree_grpo"]


def tree_grpo(*, tree: str = "tree", reward: str = "reward", truncated: Truncated = "keep") -> Recipe:
    """GRPO over the prompt plus GRPO over the tree.

        A_i = (R_i - mean_prompt) / std_prompt + (R_i - mean_tree) / std_tree        sample std

    Args:
        tree: trajectory column with the name of a rollout's tree; where it is absent, the rollout that its `parent`
            columns lead back to.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: a tree with one known outcome, or with equal ones, adds exactly 0 (the reference code lets the raw
    reward of a lone rollout through). Where every rollout is a tree of its own this is GRPO. Tokens marked own=False
    get 0.

    Raises:
        MissingInput: when observing, no rollout has the column `tree` or `parent`.

    Example:
        >>> from apportion.rollouts import Trajectory
        >>> rows = [
        ...     Trajectory(id=str(i), group="q", columns={"reward": r, "tree": t})
        ...     for i, (r, t) in enumerate([(1, "a"), (0, "a"), (1, "b"), (1, "b")])
        ... ]
        >>> credit, _ = tree_grpo().score(rows)
        >>> [round(a, 4) for a in credit.advantages.values.tolist()]
        [1.2071, -2.2071, 0.5, 0.5]

    Source: arXiv 2509.21240 and its code (two trees, two expansions, three leaves kept per tree).
    """

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        solved, key = signals["outcome"], signals["tree"]
        trees = inside_groups(batch.group, key.values.long())[1]
        return group_stat(solved) + group_stat(solved.masked(key.known).named("outcome in tree"), key=trees)

    return Recipe(
        name="tree_grpo",
        observers=[outcome(reward, truncated=truncated), tree_key(tree=tree)],
        assign_signals=assign,
        aggregation="token-mean",
        paper="2509.21240",
        needs=(f"trajectory column {reward!r}", f"trajectory column {tree!r} or 'parent'"),
        parameters={"tree": tree, "reward": reward, "truncated": truncated},
    )
