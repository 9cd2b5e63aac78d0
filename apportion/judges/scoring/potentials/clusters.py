"""Answers of one group that say the same thing, and how far a cluster of them can be trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument

__all__ = ["Cluster", "Entails", "clustered", "reliability"]

# (premise, hypothesis) -> does the first imply the second?
Entails: TypeAlias = Callable[[str, str], Literal["entails", "neutral", "contradicts"]]
Sameness: TypeAlias = Literal["strict", "loose"]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Answers that mean the same.

    Attributes:
        members: indices into the answers, in order; the first one seeded the cluster.
        mass: the share of the valid answers that are members.
    """

    members: tuple[int, ...]
    mass: float


def clustered(answers: Sequence[str | None], *, entails: Entails, sameness: Sameness = "strict") -> list[Cluster]:
    """Greedy clusters by entailment in both directions.

        the first unassigned answer seeds a cluster and takes every later unassigned one that means the same

    Args:
        answers: one per rollout; None has no answer and is in no cluster.
        entails: what the first text says of the second; equal texts are never asked.
        sameness: "strict": each entails the other; "loose": neither contradicts and not both are neutral.

    Returns:
        Clusters in order of their seeds; masses sum to 1 over the valid answers.

    Raises:
        InvalidArgument: an unknown `sameness`, or an `entails` that says something else.

    Example:
        >>> same = lambda a, b: "entails" if a.lower() == b.lower() else "contradicts"
        >>> [(c.members, c.mass) for c in clustered(["Paris", None, "paris", "Rome", "PARIS"], entails=same)]
        [((0, 2, 4), 0.75), ((3,), 0.25)]

    Source: SIOP (arXiv 2605.04984), from the authors' code.
    """
    if sameness not in get_args(Sameness):
        raise InvalidArgument("sameness", sameness, f"one of {', '.join(map(repr, get_args(Sameness)))}")
    left = [index for index, answer in enumerate(answers) if answer is not None]
    valid = len(left)
    result: list[Cluster] = []
    while left:
        seed, *others = left
        members = [seed]
        members += [one for one in others if _same(answers[seed] or "", answers[one] or "", entails, sameness)]
        result.append(Cluster(tuple(members), len(members) / valid))
        left = [one for one in others if one not in set(members)]
    return result


def _same(one: str, other: str, entails: Entails, sameness: Sameness) -> bool:
    if one == other:
        return True
    said = [entails(one, other), entails(other, one)]
    strange = set(said) - {"entails", "neutral", "contradicts"}
    if strange:
        raise InvalidArgument("entails", said, "'entails', 'neutral' or 'contradicts'")
    if sameness == "strict":
        return said == ["entails", "entails"]
    return "contradicts" not in said and said != ["neutral", "neutral"]


def reliability(clusters: Sequence[Cluster], support: Sequence[float], *, eta: float = 1.0) -> list[float]:
    """How far each cluster can be trusted.

        q(c) = m(c) exp(eta e_c) / Σ_c' m(c') exp(eta e_c')

    Args:
        clusters: of one group, with masses m.
        support: e_c in [0, 1] per cluster: how far its rollouts' observations entail its answer, on average.
        eta: weight of the support; 0 leaves the masses.

    Returns:
        One q per cluster; they sum to 1. [1.0] for a single cluster, whatever its support; [] without clusters.

    Raises:
        InvalidArgument: another number of supports than clusters, or one outside [0, 1].

    Example:
        >>> [round(q, 4) for q in reliability([Cluster((0, 1, 2), 0.75), Cluster((3,), 0.25)], [0.8, 0.2])]
        [0.8454, 0.1546]

    Source: SIOP (arXiv 2605.04984), from the authors' code, where eta is 0 by default and 1 in its launcher.
    """
    if len(support) != len(clusters) or not all(0 <= one <= 1 for one in support):
        raise InvalidArgument("support", list(support), f"one number in [0, 1] per cluster ({len(clusters)} clusters)")
    weights = [cluster.mass * math.exp(eta * one) for cluster, one in zip(clusters, support, strict=True)]
    return [weight / math.fsum(weights) for weight in weights]
