"""SPO: segments between cut points, valued by continuations; a chain of them, or a tree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from apportion.advantages.branches import branch_values
from apportion.advantages.cuts import cut_values
from apportion.advantages.group_stat import group_stat, group_statistics
from apportion.advantages.modulate import modulate
from apportion.advantages.modulate_weights import where_true
from apportion.advantages.trees import Tree
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.columns import token_signal
from apportion.recipes.tree_inputs import Branches, branches_needed, tree_observers, tree_of
from apportion.rewards import Truncated, outcome
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["spo"]

Form: TypeAlias = Literal["chain", "continuations", "tree"]
EdgeScale: TypeAlias = Literal["none", "parent_std"]

_VALUES = "record what the continuations sampled from before a token earned on average (null on tokens that are no cut)"
_LOGPS = "say mask_above=1 to credit every token, or record them when sampling"


def spo(
    *,
    form: Form = "chain",
    values: str = "segment_values",
    branches: Branches = "recorded",
    scale: EdgeScale = "none",
    mask_above: float = 0.9,
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """What a segment changes in the value of the state, on those of its tokens that were not sure anyway.

        chain          A = V(next cut) - V(cut); the last segment: R - V(cut); before the first cut: nothing
        continuations  the same; V(cut) = mean outcome of the rollouts branched off at it, which are not trained
        tree           V(n) = mean of V over the children of n, of a leaf R;  A = V(n) - V(parent) [/ std of siblings]

    Args:
        form: what values are made of: recorded numbers ("chain"), recorded branches that only measure
            ("continuations"), or rollouts that branch and are all trained ("tree"). Where to cut:
            `apportion.advantages.cuts.cut_points`.
        values: token column of the chain, V of the state before a token, known at the cuts alone.
        branches: of the tree: "recorded" (columns) or "prefixes" (turns that are equal).
        scale: of the tree: "parent_std" divides by the population std of the parent's children.
        mask_above: tokens of a larger probability get 0; 1 masks nothing, and then log-probabilities are not needed.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: an unknown value makes no cut, an unknown outcome leaves the last segment (the leaf) without
    credit. In the tree an edge that changes nothing leaves the loss and its denominators. A tree in which nothing
    branches gives Dr.GRPO's advantage, with "parent_std" GRPO's.

    Raises:
        InvalidArgument: an unknown form or scale, a probability outside (0, 1].
        MissingInput: the chain's values, the tree's branches, or the log-probabilities of the mask are absent.

    Source: arXiv 2505.23564 and its code. That "parent_std" is the population std of the children's values is our
    reading.
    """
    for name, value, choices in (("form", form, get_args(Form)), ("scale", scale, get_args(EdgeScale))):
        if value not in choices:
            raise InvalidArgument(name, value, f"one of {', '.join(choices)}")
    if not 0 < mask_above <= 1:
        raise InvalidArgument("mask_above", mask_above, "a probability in (0, 1]")
    recipe = f"recipe spo ({form})"

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        solved = signals["outcome"]
        if form == "chain":
            at_cuts = token_signal(batch, values, needed_by=recipe, how=_VALUES)
            credit = cut_values(at_cuts, solved).difference
        elif form == "continuations":
            credit = _measured(solved, signals)
        else:
            credit = _edges(solved, tree_of(signals, among=solved), scale)
        if mask_above == 1:
            return credit
        logps = token_signal(batch, "behaviour_logps", needed_by=recipe, how=_LOGPS)
        unsure = Signal.of(
            batch, Level.TOKEN, (logps.values <= math.log(mask_above)).double(), name="unsure", known=logps.known
        )
        return modulate(credit, where_true(unsure))

    seen_as: Branches = branches if form == "tree" else "recorded"
    needed = (f"token column {values!r}",) if form == "chain" else branches_needed(seen_as)
    return Recipe(
        name="spo",
        observers=[outcome(reward, truncated=truncated), *(() if form == "chain" else tree_observers(seen_as))],
        assign_signals=assign,
        aggregation="token-mean",
        paper="2505.23564",
        needs=(f"trajectory column {reward!r}", *needed, *(("behaviour_logps",) if mask_above < 1 else ())),
        parameters={
            "form": form,
            "values": values,
            "branches": branches,
            "scale": scale,
            "mask_above": mask_above,
            "reward": reward,
            "truncated": truncated,
        },
    )


def _measured(solved: Signal, signals: Mapping[str, Signal]) -> Signal:
    """The chain of cuts at which others were branched off; a rollout off which nobody was branched gets nothing."""
    # A shift of all outcomes changes no difference, and the mean of centred equal ones is exactly 0.
    centred = group_stat(solved, scale="none")
    at_cuts = branch_values(signals["rollout"], signals["parent"], signals["copied"], centred)
    credit = cut_values(at_cuts, centred).difference
    return credit.masked(solved.batch.spread(solved.known, Level.TRAJECTORY, credit.level))


def _edges(solved: Signal, tree: Tree, scale: EdgeScale) -> Signal:
    """Child minus parent on every node's stretch; edges that change nothing leave."""
    # A shift of all leaves changes no edge, and centred leaves of an all-equal group are exactly 0.
    leaves = group_stat(solved, scale="none")
    worth = tree.mean(leaves.values, leaves.known, over="children")
    seen = tree.count(leaves.known) > 0
    moves = worth - worth[tree.parent]
    equal = group_statistics(solved).tolerance[tree.root - len(tree.batch)]
    moved = seen & (moves.abs() > equal)
    factor = _per_std(moves, seen, tree) if scale == "parent_std" else torch.ones_like(moves)

    def edge(values: Tensor) -> Tensor:
        found = tree.mean(values, leaves.known, over="children")
        return (found - found[tree.parent]) * factor

    return tree.spread(leaves, edge, moved)


def _per_std(moves: Tensor, seen: Tensor, tree: Tree) -> Tensor:
    """float64[n]: one over the std of each node's siblings, itself among them; 0 where they are all equal."""
    child = (seen & (tree.parent != torch.arange(len(tree), device=moves.device))).to(moves.dtype)
    squares = torch.zeros_like(moves).index_add(0, tree.parent, child * moves**2)
    count = torch.zeros_like(moves).index_add(0, tree.parent, child).clamp_min(1.0)
    std = torch.sqrt(squares / count)[tree.parent]
    return torch.where(std > 0, 1.0 / torch.where(std > 0, std, 1.0), 0.0)
