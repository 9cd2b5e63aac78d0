"""What the continuations of a rollout are compared with: all attempts. Only what they wrote is trained."""

from __future__ import annotations

from apportion.advantages.trees import Tree
from apportion.signal import Signal

__all__ = ["suffix_only"]


def suffix_only(x: Signal, tree: Tree) -> Signal:
    """A rollout's credit on what it wrote itself; exactly 0, and outside the loss, on what it copied.

    Example:
        >>> from apportion.advantages.branches import branch_tree
        >>> from apportion.quick import rewards_signal
        >>> x = rewards_signal([1.0, -1.0], tokens=[2, 2], name="outcome")
        >>> numbers = [Signal.of(x.batch, x.level, v, name="n") for v in ([7.0, 8.0], [None, 7.0], [None, 1.0])]
        >>> suffix_only(x, branch_tree(*numbers)).values.tolist()
        [1.0, 1.0, 0.0, -1.0]
    """
    return x.spread(tree.level).masked(tree.fresh)
