"""Where to resume rollouts, and how often: a planner. It samples nothing and knows no generator."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument

__all__ = ["Branch", "BranchGain", "BranchPlan", "Candidate", "agreement", "branch_plan"]

BranchGain: TypeAlias = Literal["balanced", "even", "disagree", "mixed"]
_PROBABILITY: tuple[BranchGain, ...] = ("disagree", "mixed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A place at which a rollout could be resumed.

    Attributes:
        parent: id of the rollout (or of the prompt, to sample it anew).
        offset: response tokens (turns of a text-only rollout) that a branch would copy.
        priority: what the place is worth, finite; a probability for the gains "disagree" and "mixed".
    """

    parent: str
    offset: int
    priority: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Copy `offset` response tokens of `parent` and sample `count` continuations.

    Attributes:
        parent: id of the rollout; record it as the column `parent` of every continuation.
        offset: record it as `branch_offset`, and mark so many tokens own=False.
        count: continuations, at least 1.
        prefix: the exact-prefix id of what is copied, see `apportion.rewards.prefixes.identified`; None = not asked.
    """

    parent: str
    offset: int
    count: int
    prefix: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchPlan:
    """What to sample.

    Attributes:
        branches: in the order of the candidates.
        fresh: what of the budget found no place: sample the prompt anew.
        gain: the sum of the gains taken.
    """

    branches: tuple[Branch, ...]
    fresh: int
    gain: float


def agreement(value: float, outcome: float) -> float:
    """How likely one continuation ends as the rollout did: q = r v + (1 - r) (1 - v).

    Args:
        value: v, the probability of success from the prefix.
        outcome: r of the rollout, 0 or 1.

    Example:
        >>> agreement(0.6, 1), agreement(0.6, 0)
        (0.6, 0.4)
    """
    if not 0 <= value <= 1 or outcome not in (0, 1):
        raise InvalidArgument("value, outcome", (value, outcome), "a probability, and 0 or 1")
    return value if outcome else 1.0 - value


def branch_plan(
    candidates: Sequence[Candidate],
    *,
    budget: int,
    gain: BranchGain = "balanced",
    above: float = 0.0,
    points: int | None = None,
    spacing: int = 0,
    per_node: int | None = None,
    per_path: int | None = None,
    node_decay: float = 0.0,
    path_decay: float = 0.0,
) -> BranchPlan:
    """Give the budget away one continuation at a time, always to the place that gains most.

        balanced  P / ((1 + L)^path_decay (1 + l)^node_decay)      CBPO, TreeRL
        even      the place with the smallest l, then the largest P   HDL, SPO
        disagree  P^l (1 - P): P = chance that a continuation ends as the rollout did, see `agreement`;
                  sums to 1 - P^k, the chance that one of k ends otherwise                      TRACE's prefixes
        mixed     P^l (1 - P) + (1 - P)^l P: P = chance of success of a prompt;
                  sums to 1 - P^m - (1 - P)^m, the chance that m rollouts differ (-1 for none)   TRACE's prompts

    l continuations were given to the place so far, L to all places of its rollout. No gain grows with l or L, and caps
    of places lie inside those of rollouts: one at a time reaches the largest sum of "disagree" and of "mixed".

    Args:
        candidates: each place once.
        budget: continuations, >= 0.
        gain: above.
        above: a place must gain more than this ("even": have a larger priority); kappa.
        points: keep so many places of a rollout, those of the largest priority.
        spacing: and only such as lie at least this far (tokens) from a better one of the same rollout.
        per_node: continuations of one place.
        per_path: continuations of all places of one rollout.
        node_decay: rho of the place, for "balanced".
        path_decay: rho of the rollout, for "balanced".

    Returns:
        The plan; what is left of the budget is `fresh`. The same input gives the same plan: ties go to the candidate
        that comes first.

    Raises:
        InvalidArgument: an unknown gain, a place given twice, a priority that is not finite (or no probability), a
            negative number, or a decay for another gain than "balanced".

    Example:
        >>> seen = [(0, 0.0), (1, 1.5), (2, 0.1)]
        >>> places = [Candidate(parent="a", offset=o, priority=p) for o, p in seen]
        >>> [(b.offset, b.count) for b in branch_plan(places, budget=7, gain="even", points=2).branches]
        [(1, 4), (2, 3)]
        >>> [(b.offset, b.count) for b in branch_plan(places, budget=3, per_node=2).branches]
        [(1, 2), (2, 1)]

    Source: balanced arXiv 2608.24300 (CBPO), points by |change of log p| arXiv 2609.36864 (HDL; the spacing is not
    given there), by -log p arXiv 2506.11902 (TreeRL), disagree and mixed arXiv 2606.11119 (TRACE; the solver is ours).
    """
    _check(candidates, gain, above, node_decay, path_decay)
    for name, value in (("budget", budget), ("points", points), ("spacing", spacing)):
        if value is not None and (not isinstance(value, int) or value < 0):
            raise InvalidArgument(name, value, "a whole number >= 0")
    for name, value in (("per_node", per_node), ("per_path", per_path)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise InvalidArgument(name, value, "a whole number >= 1, or None")
    at_node, on_path = [0] * len(candidates), Counter[str]()

    def worth(i: int) -> tuple[float, float]:
        """What one more continuation at this place gains, and what decides before that."""
        p, used = candidates[i].priority, at_node[i]
        if gain == "even":
            return -float(used), p
        if gain == "balanced":
            return 0.0, p / ((1 + on_path[candidates[i].parent]) ** path_decay * (1 + used) ** node_decay)
        other = 0.0 if gain == "disagree" else (1.0 - p) ** used * p
        return 0.0, p**used * (1.0 - p) + other

    def entry(i: int) -> tuple[float, float, int]:
        first, second = worth(i)
        return -first, -second, i

    # Gains only fall, so an entry that is out of date is too good: it is looked at again before it wins.
    queue = [entry(i) for i in _spaced(candidates, points, spacing)]
    heapq.heapify(queue)
    left, total = budget, 0.0
    while queue and left:
        seen = heapq.heappop(queue)
        i = seen[2]
        parent = candidates[i].parent
        if at_node[i] == per_node or on_path[parent] == per_path:
            continue
        now = entry(i)
        if now != seen:
            heapq.heappush(queue, now)
        elif -now[1] > above:
            at_node[i], on_path[parent] = at_node[i] + 1, on_path[parent] + 1
            left, total = left - 1, total - now[1]
            heapq.heappush(queue, entry(i))
    pairs = zip(candidates, at_node, strict=True)
    chosen = tuple(Branch(parent=c.parent, offset=c.offset, count=n) for c, n in pairs if n)
    return BranchPlan(branches=chosen, fresh=left, gain=total)


def _spaced(candidates: Sequence[Candidate], points: int | None, spacing: int) -> list[int]:
    """The places that stay, the best of each rollout first to choose."""
    kept: defaultdict[str, list[int]] = defaultdict(list)
    for i in sorted(range(len(candidates)), key=lambda i: -candidates[i].priority):
        mine = kept[candidates[i].parent]
        near = any(abs(candidates[i].offset - candidates[j].offset) < spacing for j in mine)
        if not near and (points is None or len(mine) < points):
            mine.append(i)
    return [i for mine in kept.values() for i in mine]


def _check(
    candidates: Sequence[Candidate], gain: BranchGain, above: float, node_decay: float, path_decay: float
) -> None:
    if gain not in get_args(BranchGain):
        raise InvalidArgument("gain", gain, f"one of {', '.join(get_args(BranchGain))}")
    places = Counter((c.parent, c.offset) for c in candidates)
    twice = [place for place, count in places.items() if count > 1]
    if twice:
        raise InvalidArgument("candidates", twice[:10], "each place once")
    low, high = (0.0, 1.0) if gain in _PROBABILITY else (-math.inf, math.inf)
    bad = [c for c in candidates if not (math.isfinite(c.priority) and low <= c.priority <= high and c.offset >= 0)]
    if bad:
        kind = "probabilities" if gain in _PROBABILITY else "finite numbers"
        raise InvalidArgument("candidates", bad[:5], f"priorities that are {kind}, and offsets >= 0")
    if math.isnan(above):
        raise InvalidArgument("above", above, "a number")
    if min(node_decay, path_decay) < 0 or (gain != "balanced" and max(node_decay, path_decay) > 0):
        raise InvalidArgument("decay", (node_decay, path_decay), "numbers >= 0, and 0 unless gain='balanced'")
