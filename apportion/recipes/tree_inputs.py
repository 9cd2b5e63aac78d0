"""The observers that see trees, and the tree of their signals: recorded branches, or turns that are equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from apportion.advantages.branches import branch_tree, prefix_tree
from apportion.advantages.trees import Tree
from apportion.errors import InvalidArgument
from apportion.rewards.base import Reward
from apportion.rewards.branches import branch_rewards
from apportion.rewards.prefixes import prefixes
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["BRANCH_COLUMNS", "Branches", "branches_needed", "tree_observers", "tree_of"]

Branches: TypeAlias = Literal["recorded", "prefixes"]
BRANCH_COLUMNS = "trajectory columns 'parent' and 'branch_offset' or 'branch_turn', with own=False on what was copied"


def tree_observers(branches: Branches = "recorded") -> tuple[Reward, ...]:
    """What to observe.

    Args:
        branches: "recorded" reads the columns `parent` and `branch_offset` or `branch_turn` and holds them against the
            tokens; "prefixes" needs no column and finds the turns at whose end rollouts of a group are still equal.
    """
    if branches not in get_args(Branches):
        raise InvalidArgument("branches", branches, f"one of {', '.join(get_args(Branches))}")
    return branch_rewards() if branches == "recorded" else (prefixes(),)


def branches_needed(branches: Branches) -> tuple[str, ...]:
    """What rollouts must carry for it, in words."""
    return (BRANCH_COLUMNS,) if branches == "recorded" else ("rollouts of a group that share their first turns",)


def tree_of(signals: Mapping[str, Signal], *, among: Signal) -> Tree:
    """The tree that those observers saw, of the rollouts whose outcome is known.

    What is missing leaves before anything is compared: a rollout without an outcome, be it the branch or the one that
    it was branched off, makes no branching point.

    Args:
        signals: of `tree_observers`.
        among: the outcome, TRAJECTORY.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q", "q"], turns=[2, 1])
        >>> prefix = Signal.of(b, Level.TURN, [1.0, 2.0, 1.0], name="prefix")
        >>> for outcome in ([1.0, 0.0], [1.0, None]):
        ...     tree_of({"prefix": prefix}, among=Signal.of(b, Level.TRAJECTORY, outcome, name="outcome")).node.tolist()
        [3, 0, 3]
        [0, 0, 1]
    """
    if "prefix" in signals:
        return prefix_tree(signals["prefix"].masked(among.batch.spread(among.known, Level.TRAJECTORY, Level.TURN)))
    return branch_tree(signals["rollout"], signals["parent"], signals["copied"]).among(among.known)
