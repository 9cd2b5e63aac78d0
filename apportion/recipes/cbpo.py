"""CBPO: branches at uncertain places, stronger credit where outcomes behind one place differ more than elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from apportion.advantages.branches import branch_tree
from apportion.advantages.group_stat import group_stat
from apportion.advantages.modulate import modulate
from apportion.advantages.modulate_weights import bounded_signed
from apportion.advantages.trees import Tree
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.suffix_only import suffix_only
from apportion.recipes.tree_inputs import branches_needed, tree_observers
from apportion.rewards import Truncated, outcome
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["cbpo"]


def cbpo(
    *,
    strength: float = 0.2,
    bound: float = 2.0,
    flat: float = 1e-6,
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """Group advantage, strengthened or weakened by how much the outcomes that share a prefix differ.

        A_i = (R_i - mean) / std over the prompt, population std
        node: a rollout and the branches off it at one place;  CBV = population std of R over the node
        Z = (CBV - mean) / std over the nodes of the batch;    F_i = A_i (1 + strength * clip(Z / |A_i|, +-1/bound))

        branch                                F of its node
        parent, before its first node         S_1 = mean of A over node 1
        parent, between nodes j and j + 1     (F_j + S_{j+1}) / 2
        parent, after its last node           F of that node
        rollout without branches              A

    Args:
        strength: eta, 0 <= eta < bound.
        bound: phi > 0: the factor stays in [1 - eta/phi, 1 + eta/phi], so no sign changes.
        flat: where the std of CBV over the batch is below this, all Z are 0; units of the reward.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: a node with fewer than two known outcomes has Z = 0 and takes no part in its statistics. Where
    nothing was branched this is GRPO with the population std.

    Raises:
        InvalidArgument: a strength outside [0, bound), a negative `flat`; a branch off a branch.
        MissingInput: when observing, no rollout says what it was branched off.

    Source: arXiv 2608.24300. The paper does not say what becomes of a branch that is branched again: refused here. Its
    eps beside the std of CBV has no stated size; `flat` alone guards the division.
    """
    if not (bound > 0 and 0 <= strength < bound):
        raise InvalidArgument("strength", strength, f"a number >= 0 and below bound={bound:g}, which is positive")
    if not flat >= 0:
        raise InvalidArgument("flat", flat, "a number >= 0")

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        solved, branched = signals["outcome"], _branched(batch, signals)
        # A node keeps its place where its parent's outcome is unknown: its members are those branched off there.
        tree = branch_tree(signals["rollout"], signals["parent"].masked(solved.known), signals["copied"])
        base = group_stat(solved, ddof=0)
        nodes = _Members(tree, branched)
        leaf = torch.arange(len(tree), device=branched.device) < len(batch)
        # What a stretch owes to its own rollout's credit; the rest is that of the node ahead.
        own_share = torch.where(leaf, 1.0, torch.where(nodes.inner[tree.parent], 0.5, 0.0))
        contrast = _contrast(solved, nodes, flat)
        score = Signal.of(batch, tree.level, contrast[tree.siblings], name="contrast")
        mine = suffix_only(modulate(base, bounded_signed(score, base, strength=strength, bound=bound)), tree)
        ahead = tree.spread(base, lambda values: nodes.mean(values, base.known), nodes.count(base.known) > 0)
        return mine.scaled(own_share[tree.node], tree.level) + ahead.scaled(1.0 - own_share[tree.node], tree.level)

    return Recipe(
        name="cbpo",
        observers=[outcome(reward, truncated=truncated), *tree_observers()],
        assign_signals=assign,
        aggregation="token-mean",
        scope="batch",
        paper="2608.24300",
        needs=(f"trajectory column {reward!r}", *branches_needed("recorded")),
        reconstruction="that a branch may not be branched again: the paper does not say",
        parameters={"strength": strength, "bound": bound, "flat": flat, "reward": reward, "truncated": truncated},
    )


def _branched(batch: Batch, signals: Mapping[str, Signal]) -> Tensor:
    """bool[B]: what copied a beginning; all parents must be rollouts that did not."""
    parent, copied = signals["parent"], signals["copied"]
    branched = signals["outcome"].known & parent.known & copied.known & (copied.values > 0)
    nested = branched & torch.isin(parent.values, signals["rollout"].values[branched])
    if bool(nested.any()):
        named = [batch.ids[i] for i in torch.nonzero(nested).flatten().tolist()[:10]]
        raise InvalidArgument("parent", named, "branches off rollouts that copied nothing; cbpo has no second floor")
    return branched


class _Members:
    """The rollouts of every node: those branched off at it, and the one that they were branched off."""

    def __init__(self, tree: Tree, branched: Tensor) -> None:
        self.size = len(tree)
        size = branched.numel()
        first = size + tree.batch.size(Level.GROUP)
        self.inner = torch.arange(self.size, device=branched.device) >= first
        at, of = tree.parent[:size], torch.arange(size, device=branched.device)
        found = []
        while at.numel():
            at, of = at[self.inner[at]], of[self.inner[at]]
            found.append((at, of))
            walks = ~branched[of]
            at, of = tree.parent[at[walks]], of[walks]
        self.node = torch.cat([node for node, _ in found]) if found else at
        self.rollout = torch.cat([rollout for _, rollout in found]) if found else of

    def _total(self, values: Tensor) -> Tensor:
        return values.new_zeros(self.size).index_add(0, self.node, values[self.rollout])

    def count(self, known: Tensor) -> Tensor:
        """float64[n]: known members of every inner node, 1 elsewhere, where there is nothing to share."""
        return torch.where(self.inner, self._total(known.to(torch.float64)), 1.0)

    def mean(self, values: Tensor, known: Tensor) -> Tensor:
        """[n]: over the known members."""
        return self._total(torch.where(known, values, 0.0)) / self.count(known).clamp_min(1.0)

    def std(self, values: Tensor, known: Tensor) -> Tensor:
        """[n]: population std over the known members."""
        centred = (values[self.rollout] - self.mean(values, known)[self.node]) * known[self.rollout]
        squares = values.new_zeros(self.size).index_add(0, self.node, centred**2)
        return torch.sqrt(squares / self.count(known).clamp_min(1.0))


def _contrast(solved: Signal, nodes: _Members, flat: float) -> Tensor:
    """float64[n]: Z of the inner nodes with two known outcomes, 0 elsewhere."""
    spread = nodes.std(solved.values, solved.known)
    valid = nodes.inner & (nodes.count(solved.known) >= 2)
    if not bool(valid.any()):
        return torch.zeros_like(spread)
    std = spread[valid].std(correction=0)
    if not bool(std > flat):
        return torch.zeros_like(spread)
    return torch.where(valid, (spread - spread[valid].mean()) / std, 0.0)
