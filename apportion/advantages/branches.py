"""From what observers say about branches to a `Tree`: recorded parents and offsets, or exact-prefix ids."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from apportion import segments
from apportion.advantages.trees import Tree
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["branch_tree", "branch_values", "inside_groups", "prefix_tree"]


def branch_tree(rollout: Signal, parent: Signal, copied: Signal) -> Tree:
    """The tree of rollouts whose producer recorded what each one was branched off, and where.

    A branch that was recorded as copying less of its parent than the parent itself had copied hangs where it belongs:
    at the rollout that wrote the token before it. A parent that is not in the batch still joins its branches.

    Args:
        rollout: a whole number that names each rollout, TRAJECTORY.
        parent: the number of the rollout that it copied its beginning from; ABSENT for one that copied nothing.
        copied: how much it copied: policy tokens, or turns of text-only rollouts.

    Returns:
        A tree over the batch's finest level, policy tokens or turns; no node across two groups.

    Raises:
        InvalidArgument: signals at another level, numbers that are not whole, or parents in a circle (all are listed).

    Example:
        >>> b = Batch.of(groups=["q"] * 3, tokens=[4, 3, 4])
        >>> rollout = Signal.of(b, Level.TRAJECTORY, [7.0, 8.0, 9.0], name="rollout")
        >>> parent = Signal.of(b, Level.TRAJECTORY, [None, 7.0, 8.0], name="parent")
        >>> tree = branch_tree(rollout, parent, Signal.of(b, Level.TRAJECTORY, [None, 2.0, 1.0], name="copied"))
        >>> tree.node.tolist()
        [4, 5, 0, 0, 4, 5, 1, 4, 2, 2, 2]
        >>> tree.parent.tolist(), tree.fresh.tolist()[-4:]
        ([5, 5, 4, 3, 3, 4], [False, True, True, True])
    """
    batch, size, level = rollout.batch, len(rollout.batch), rollout.batch.finest
    lines = _lines(rollout, parent, copied)
    line, group, above, start = lines.of, lines.group, lines.above, lines.start
    branches = line[lines.branched]
    # Points on lines in order: inner nodes, numbered by rank.
    width = int(start.max()) + 1
    points = torch.unique(above[branches] * width + start[branches])
    on = points // width
    first = size + batch.size(Level.GROUP)
    hangs = first + torch.searchsorted(points, above * width + start)
    hangs = torch.where(above >= 0, hangs, size + group)
    before = torch.searchsorted(points, (line + 1) * width) - 1
    leaf_parent = torch.where(_same(on, before, line), first + before, hangs[line])
    rank = torch.arange(points.numel(), device=points.device)
    inner_parent = torch.where(_same(on, rank - 1, on), first + rank - 1, hangs[on])
    roots = torch.arange(size, first, device=points.device)
    node, fresh = _reached(batch, level, line, above, start, points, width)
    return Tree(batch=batch, level=level, parent=torch.cat((leaf_parent, roots, inner_parent)), node=node, fresh=fresh)


def branch_values(rollout: Signal, parent: Signal, copied: Signal, outcome: Signal) -> Signal:
    """What rollouts branched off before an element earned on average: the value of the state there, by sampling.

        V_t = mean of R over the branches that copied everything before t, and nothing else

    Args:
        rollout: as in `branch_tree`.
        parent: as in `branch_tree`.
        copied: as in `branch_tree`.
        outcome: R, TRAJECTORY; a branch without one is not counted.

    Returns:
        A signal at the batch's finest level, ABSENT wherever nobody branched off; `cut_values` reads it. It lies on the
        rollout that wrote the element; branches behind its last element are not counted.

    Raises:
        InvalidArgument: as `branch_tree`.

    Example:
        >>> b = Batch.of(groups=["q"] * 3, tokens=[3, 2, 2])
        >>> rollout = Signal.of(b, Level.TRAJECTORY, [7.0, 8.0, 9.0], name="rollout")
        >>> parent = Signal.of(b, Level.TRAJECTORY, [None, 7.0, 7.0], name="parent")
        >>> copied = Signal.of(b, Level.TRAJECTORY, [None, 1.0, 1.0], name="copied")
        >>> outcome = Signal.of(b, Level.TRAJECTORY, [1.0, 1.0, 0.0], name="outcome")
        >>> found = branch_values(rollout, parent, copied, outcome)
        >>> found.values.tolist(), found.known.tolist()[:3]
        ([0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0], [False, True, False])
    """
    batch, level = rollout.batch, rollout.batch.finest
    lines = _lines(rollout, parent, copied)
    trajectory = torch.full_like(lines.group, -1)
    trajectory[lines.of] = torch.arange(len(batch), device=lines.of.device)
    branches = lines.of[lines.branched & outcome.known]
    source, offset = trajectory[lines.above[branches]], lines.start[branches]
    lengths = batch.lengths(level, Level.TRAJECTORY)
    inside = (source >= 0) & (offset < lengths[source])
    at = (segments.starts(lengths)[source] + offset)[inside]
    earned = outcome.values[lines.branched & outcome.known][inside]
    total = outcome.values.new_zeros(batch.size(level)).index_add(0, at, earned)
    count = torch.bincount(at, minlength=total.numel())
    return Signal.of(batch, level, total / count.clamp_min(1), name="continuations", known=count > 0)


@dataclass(frozen=True, eq=False)
class _Lines:
    """A line is one rollout, present or only named as a parent, in one group.

    Attributes:
        of: int64[B] the line of every rollout.
        branched: bool[B] whether it copied anything.
        group: int64[m] of every line.
        above: int64[m] the line that it was branched off, that of whoever wrote the element before it; -1 = none.
        start: int64[m] how much it copied.
    """

    of: Tensor
    branched: Tensor
    group: Tensor
    above: Tensor
    start: Tensor


def _lines(rollout: Signal, parent: Signal, copied: Signal) -> _Lines:
    batch = rollout.batch
    for name, x in (("rollout", rollout), ("parent", parent), ("copied", copied)):
        _check(name, x, batch, Level.TRAJECTORY)
    branched = parent.known & copied.known & (copied.values > 0)
    # Nothing is said about a rollout in which the policy wrote nothing; it needs a name of its own all the same.
    nameless = -1 - torch.arange(len(batch), device=batch.device)
    mine = torch.where(rollout.known, rollout.values.long(), nameless)
    names = torch.cat((mine, parent.values[branched].long()))
    group, number = inside_groups(torch.cat((batch.group, batch.group[branched])), names)
    line = number[: len(batch)]
    above = torch.full_like(group, -1)
    above[line[branched]] = number[len(batch) :]
    start = torch.zeros_like(group)
    start[line] = torch.where(branched, copied.values, 0.0).long()
    return _Lines(line, branched, group, _lifted(above, start, batch, line), start)


def _check(name: str, x: Signal, batch: Batch, level: Level) -> None:
    if x.level != level or x.batch is not batch:
        raise InvalidArgument(name, x.level.name, f"one number per {level.name}, all signals of one batch")
    strange = torch.nonzero((x.values != x.values.round()) | (x.values < 0)).flatten()[:10]
    if strange.numel():
        raise InvalidArgument(
            name, x.values[strange].tolist(), f"whole numbers >= 0; elements {strange.tolist()} are not"
        )


def inside_groups(group: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """Labels that hold inside their group alone, so that two prompts never mix.

    Args:
        group: int64[n] of every element.
        label: int64[n].

    Returns:
        int64[m] the group of every distinct pair, and int64[n] the number of the pair of every element.

    Example:
        >>> [x.tolist() for x in inside_groups(torch.tensor([0, 0, 1]), torch.tensor([7, 7, 7]))]
        [[0, 1], [0, 0, 1]]
    """
    rank = torch.unique(label, return_inverse=True)[1]
    pairs, number = torch.unique(group * (label.numel() + 1) + rank, return_inverse=True)
    return pairs // (label.numel() + 1), number


def _lifted(above: Tensor, start: Tensor, batch: Batch, line: Tensor) -> Tensor:
    """Parents, each replaced by its own while a line starts inside what its parent had copied too."""
    for _ in range(above.numel() + 1):
        grand = torch.where(above >= 0, above[above], -1)
        inside = (grand >= 0) & (start <= start[above])
        if not bool(inside.any()):
            return above
        above = torch.where(inside, grand, above)
    named = [batch.ids[i] for i in torch.nonzero(inside[line]).flatten().tolist()[:10]]
    raise InvalidArgument(
        "parent", named, "parents that lead back to a rollout that copied nothing; these go in a circle"
    )


def _same(on: Tensor, rank: Tensor, line: Tensor) -> Tensor:
    """bool: the point of this rank exists and lies on this line."""
    inside = (rank >= 0) & (rank < on.numel())
    return inside & (on[rank.clamp(0, max(on.numel() - 1, 0))] == line) if on.numel() else inside


def _reached(
    batch: Batch, level: Level, line: Tensor, above: Tensor, start: Tensor, points: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """The node of every element, and whether its own rollout wrote it."""
    lengths = batch.lengths(level, Level.TRAJECTORY)
    owner = segments.owners(lengths)
    index = torch.arange(owner.numel(), device=owner.device) - segments.starts(lengths)[owner]
    at = line[owner]
    fresh = index >= start[at]
    while bool((copied := (index < start[at]) & (above[at] >= 0)).any()):
        at = torch.where(copied, above[at], at)
    rank = torch.searchsorted(points, at * width + index.clamp_max(width - 1), right=True)
    inner = _same(points // width, rank, at)
    first = len(batch) + batch.size(Level.GROUP)
    return torch.where(inner, first + rank, owner), fresh


def prefix_tree(prefix: Signal) -> Tree:
    """The tree of rollouts that agree turn by turn, from exact-prefix ids.

    Args:
        prefix: a whole number per TURN, equal for two turns of a group exactly when everything up to and including
            them (and their observations) is equal. After an unknown one nothing of that rollout is shared.

    Returns:
        A tree over turns (over rollouts, where not a single turn was recorded). All of it counts as fresh: who copied
        from whom cannot be seen in what is equal.

    Raises:
        InvalidArgument: another level, or equal ids after different ones (they are no exact prefixes).

    Example: see `Tree`.
    """
    batch = prefix.batch
    _check("prefix", prefix, batch, Level.TURN)
    size, first = len(batch), len(batch) + batch.size(Level.GROUP)
    owner, group = batch.owner(Level.TURN, Level.TRAJECTORY), batch.owner(Level.TURN, Level.GROUP)
    unknown = (~prefix.known).to(torch.float64)
    lost = segments.reverse_scan(unknown.flip(0), batch.turns.flip(0)).flip(0) > 0
    here = torch.arange(owner.numel(), device=owner.device)
    distinct, number = inside_groups(group, torch.where(lost, -1 - here, prefix.values.long()))
    node, roots = first + number, torch.arange(size, first, device=owner.device)
    before = segments.shifted(node, batch.turns, roots[batch.group], take="previous")
    inner = torch.empty_like(distinct).scatter(0, number, before)
    if bool((wrong := inner[number] != before).any()):
        named = sorted({batch.ids[i] for i in owner[wrong].tolist()})[:10]
        raise InvalidArgument("prefix", named, "ids of exact prefixes: equal ones here follow different ones")
    last = (torch.cumsum(batch.turns, 0) - 1).clamp_min(0)
    ends = torch.where(batch.turns > 0, node[last] if node.numel() else roots[batch.group], roots[batch.group])
    if batch.finest == Level.TRAJECTORY:
        return _contracted(batch, batch.finest, torch.cat((ends, roots)), torch.arange(size, device=ends.device))
    return _contracted(batch, Level.TURN, torch.cat((ends, roots, inner)), node)


def _contracted(batch: Batch, level: Level, parent: Tensor, node: Tensor) -> Tree:
    """Without the inner nodes that have a single child: their stretch belongs to that of the child."""
    itself = torch.arange(parent.numel(), device=parent.device)
    # A leaf has no child, and a root has itself and at least one more.
    single = torch.bincount(parent, minlength=parent.numel()) == 1
    down = itself.clone()
    down[parent[single[parent]]] = itself[single[parent]]
    up = torch.where(single, parent, itself)
    while not torch.equal(down, down[down]) or not torch.equal(up, up[up]):
        down, up = down[down], up[up]
    keep = torch.nonzero(~single).flatten()
    place = torch.empty_like(parent).index_copy(0, keep, torch.arange(keep.numel(), device=parent.device))
    fresh = torch.ones_like(node, dtype=torch.bool)
    above = place[up[parent[keep]]]
    return Tree(batch=batch, level=level, parent=above, node=place[down[node]], fresh=fresh)
