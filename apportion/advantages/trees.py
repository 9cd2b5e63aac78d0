"""`Tree`: rollouts that share beginnings, as packed tensors: the parent of every node, the node of every element.

    a  ###########|########|#####      ab  = what all three share        node    ab  abc  a  b  c  root
    b             :        |####       abc = what a and c share after    parent  root ab  abc abc ab
    c             |###########             (b branches off a, c earlier; a, b, c are leaves)

A node stands for the stretch of tokens (turns) that leads to it, from one branching point to the next; stretches in
which nothing branches are one node. Every rollout is a leaf and every group has a root, the prompt:

    node i < B        leaf of trajectory i
    node B + g        root of group g, its own parent
    the others        inner nodes

Values go up by one pass per depth: no loop over nodes, rollouts or tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal, Term
from apportion.verdicts import Presence

__all__ = ["NodeMean", "Tree"]

NodeMean: TypeAlias = Literal["leaves", "children"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tree:
    """Made by `branch_tree` or `prefix_tree`.

    Attributes:
        batch: the structure that it belongs to.
        level: of the elements: TOKEN, TURN, or TRAJECTORY where no turn was recorded.
        parent: int64[n] the parent of every node; a root is its own.
        node: int64[size(level)] the node whose stretch an element lies on, copied elements included.
        fresh: bool[size(level)] False on what was copied from another rollout, where that was recorded.

    Example:
        >>> from apportion.advantages.branches import prefix_tree
        >>> b = Batch.of(groups=["q"] * 3, turns=[3, 3, 2])
        >>> codes = Signal.of(b, Level.TURN, [1.0, 2.0, 3.0, 1.0, 2.0, 4.0, 1.0, 5.0], name="prefix")
        >>> tree = prefix_tree(codes)
        >>> tree.node.tolist(), tree.parent.tolist()
        ([4, 5, 0, 4, 5, 1, 4, 2], [5, 5, 4, 3, 3, 4])
        >>> outcome = Signal.of(b, Level.TRAJECTORY, [1.0, 0.0, 1.0], name="outcome")
        >>> tree.mean(outcome.values, outcome.known, over="leaves").tolist()[3:]
        [0.6666666666666666, 0.6666666666666666, 0.5]
    """

    batch: Batch
    level: Level
    parent: Tensor
    node: Tensor
    fresh: Tensor

    def __len__(self) -> int:
        """Number of nodes."""
        return self.parent.numel()

    @property
    def siblings(self) -> Tensor:
        """int64[size(level)]: the parent of every element's node.

        As `key` of `group_stat`, with `unit=tree.node`, it compares a node with its siblings, each counted once.
        """
        return self.parent[self.node]

    @cached_property
    def root(self) -> Tensor:
        """int64[n]: the root above every node."""
        found, above = self.parent, self.parent[self.parent]
        while not torch.equal(found, above):
            found, above = above, above[above]
        return found

    @cached_property
    def _layers(self) -> list[Tensor]:
        """The nodes of every depth, the deepest first; roots are left out."""
        depth, at = torch.zeros_like(self.parent), self.parent
        here = torch.arange(len(self), device=self.parent.device)
        while bool((moved := here != at).any()):
            depth = depth + moved
            here, at = at, self.parent[at]
        order = torch.argsort(depth, descending=True, stable=True)
        counts = torch.bincount(depth).flip(0).tolist()
        return list(torch.split(order, counts))[:-1]

    def total(self, values: Tensor) -> Tensor:
        """[n]: the sum of the leaves under every node (a leaf is under itself) of values [B], one per trajectory."""
        found = torch.cat((values, values.new_zeros(len(self) - values.numel())))
        for layer in self._layers:
            found = found.index_add(0, self.parent[layer], found[layer])
        return found

    def among(self, known: Tensor) -> Tree:
        """The tree of some of its rollouts: where these do not part is no branching point.

        The stretch before such a point belongs to the one child that is left; a node without any stays, unread.

        Args:
            known: bool[B], the rollouts that are left.

        Example:
            >>> from apportion.advantages.branches import prefix_tree
            >>> b = Batch.of(groups=["q"] * 3, turns=[2, 2, 1])
            >>> tree = prefix_tree(Signal.of(b, Level.TURN, [1.0, 2.0, 1.0, 3.0, 4.0], name="prefix"))
            >>> tree.node.tolist(), tree.among(torch.tensor([True, False, True])).node.tolist()
            ([4, 0, 4, 1, 2], [0, 0, 0, 1, 2])
        """
        here, live = torch.arange(len(self), device=self.parent.device), self.count(known) > 0
        child = live & (self.parent != here)
        idle = torch.bincount(self.parent[child], minlength=len(self)) == 1
        idle = idle & (self.parent != here)
        only = child & idle[self.parent]
        down, up = here.clone(), torch.where(idle, self.parent, here)
        down[self.parent[only]] = here[only]
        while not torch.equal(down, down[down]) or not torch.equal(up, up[up]):
            down, up = down[down], up[up]
        return replace(self, parent=up[self.parent], node=down[self.node])

    def count(self, known: Tensor) -> Tensor:
        """float64[n]: how many known leaves lie under every node; `known` is bool[B]."""
        return self.total(known.to(torch.float64))

    def mean(self, values: Tensor, known: Tensor, *, over: NodeMean) -> Tensor:
        """[n]: what every node is worth, from what its leaves are; 0 where nothing under it is known.

            leaves    V(n) = mean of the known leaves under n
            children  V(n) = mean of V over the children of n under which something is known

        Args:
            values: [B], one per trajectory.
            known: bool[B].
            over: what counts once. The two differ where branches hold different numbers of leaves.
        """
        if over not in get_args(NodeMean):
            raise InvalidArgument("over", over, f"one of {', '.join(get_args(NodeMean))}")
        if over == "leaves":
            return self.total(torch.where(known, values, 0.0)) / self.count(known).clamp_min(1.0)
        nothing = values.new_zeros(len(self) - values.numel())
        total = torch.cat((torch.where(known, values, 0.0), nothing))
        counted = torch.cat((known.to(values.dtype), nothing))
        for layer in self._layers:
            above = self.parent[layer]
            total = total.index_add(0, above, total[layer] / counted[layer].clamp_min(1.0))
            counted = counted.index_add(0, above, (counted[layer] > 0).to(values.dtype))
        return total / counted.clamp_min(1.0)

    def spread(self, x: Signal, move: Callable[[Tensor], Tensor], known: Tensor) -> Signal:
        """A linear map from trajectories to nodes, read by every element; the terms go along.

        Args:
            x: values per trajectory.
            move: [B] -> [n], linear.
            known: bool[n].

        Returns:
            A signal at the tree's level, ABSENT where x or the node is not known and on what was copied.
        """
        if x.level != Level.TRAJECTORY or x.batch is not self.batch:
            raise InvalidArgument("x", x.level.name, "a signal per TRAJECTORY of the tree's batch")
        use = known[self.node] & self.fresh & self.batch.spread(x.known, Level.TRAJECTORY, self.level)

        def down(values: Tensor) -> Tensor:
            return torch.where(use, move(values)[self.node], 0.0)

        state = torch.where(use, int(Presence.KNOWN), int(Presence.ABSENT)).to(torch.uint8)
        return Signal(
            batch=self.batch,
            level=self.level,
            values=down(x.values),
            presence=state,
            terms={name: Term(self.level, down(values)) for name, values in x.ledger().items()},
            resolution=x.resolution,
        )
