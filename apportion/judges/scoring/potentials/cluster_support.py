"""`cluster_support`: how far each state supports the rollout's own answer, as its group words it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from apportion.errors import InvalidArgument
from apportion.judges.scoring.encode import Target
from apportion.judges.scoring.potentials.clusters import Cluster, Entails, Sameness, clustered
from apportion.judges.scoring.potentials.states import Means, asked, mean_log_probs
from apportion.judges.scoring.request import Request
from apportion.judges.scoring.rescorer import Rescorer
from apportion.rewards import _arguments
from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["ClusterSupport", "cluster_support"]

# How far each cluster of a group can be trusted: one number per cluster.
Weigh: TypeAlias = Callable[[Sequence[Trajectory], Sequence[Cluster]], Sequence[float]]


def _by_mass(_: Sequence[Trajectory], clusters: Sequence[Cluster]) -> list[float]:
    return [cluster.mass for cluster in clusters]


@dataclass(frozen=True)
class ClusterSupport:
    """See `cluster_support`."""

    rescorer: Rescorer
    answer: Callable[[Trajectory], str | None]
    encode: Callable[[str], Target]
    entails: Entails
    sameness: Sameness
    weigh: Weigh
    members: int
    floor: float
    longest_target: int
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.rescorer, Rescorer):
            raise InvalidArgument("rescorer", self.rescorer, "a Rescorer: an object with name, vocabulary and score")
        if _arguments.number("floor", self.floor, at_least=0) == 0:
            raise InvalidArgument("floor", self.floor, "a number > 0: without it no support has no logarithm")
        _arguments.whole("members", self.members, at_least=1)
        _arguments.whole("longest_target", self.longest_target, at_least=1)
        _arguments.text("name", self.name)

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]]:
        """Phi_k = q ln(p_k + floor) for k = 0 .. K, per trajectory; one call of the re-scorer."""
        groups: dict[str, list[int]] = {}
        for index, trajectory in enumerate(trajectories):
            groups.setdefault(trajectory.group, []).append(index)
        trust = [0.0] * len(trajectories)
        owners: list[int] = []
        requests: list[Request | Abstained] = []
        for indices in groups.values():
            rollouts = [trajectories[index] for index in indices]
            answers = [self.answer(rollout) for rollout in rollouts]
            clusters = clustered(answers, entails=self.entails, sameness=self.sameness)
            weights = list(self.weigh(rollouts, clusters))
            if len(weights) != len(clusters):
                raise InvalidArgument("weigh", len(weights), f"one number per cluster ({len(clusters)} clusters)")
            for cluster, weight in zip(clusters, weights, strict=True):
                worded = list(dict.fromkeys(answers[one] or "" for one in cluster.members))[: self.members]
                targets = [self.encode(text) for text in worded]
                for one in cluster.members:
                    trust[indices[one]] = weight
                    owners += [indices[one]] * len(targets)
                    requests += [asked(rollouts[one], to, longest_target=self.longest_target) for to in targets]
        rows = mean_log_probs(self.rescorer, requests, [trajectories[owner].n_turns + 1 for owner in owners])
        scores: list[list[Means]] = [[] for _ in trajectories]
        for owner, row in zip(owners, rows, strict=True):
            scores[owner].append(row)
        return [
            [self._support([means[k] for means in scores[index]], trust[index]) for k in range(trajectory.n_turns + 1)]
            for index, trajectory in enumerate(trajectories)
        ]

    def _support(self, means: Sequence[float | Abstained | Failed], trust: float) -> Verdict:
        if not means:
            return Abstained("the rollout has no valid answer")
        missing = [one for one in means if not isinstance(one, float)]
        if missing:
            return next((one for one in missing if isinstance(one, Failed)), missing[0])
        support = math.fsum(math.exp(one) for one in means if isinstance(one, float)) / len(means)
        return Scored(trust * math.log(support + self.floor), f"support {support:.4f}, reliability {trust:.4f}")


def cluster_support(
    rescorer: Rescorer,
    *,
    answer: Callable[[Trajectory], str | None],
    encode: Callable[[str], Target],
    entails: Entails,
    sameness: Sameness = "strict",
    weigh: Weigh = _by_mass,
    members: int = 3,
    floor: float = 1e-8,
    longest_target: int = 256,
    name: str = "cluster_support",
) -> ClusterSupport:
    """A potential without a gold answer: how likely the rollout's own answer is in each state, as its group words it.

        p_k = mean_a exp(mean_j log p(a_j | s_k, lead, a_<j)) over up to `members` distinct wordings a of its cluster
        Phi_k = q ln(p_k + floor);   so Phi_k - Phi_{k-1} = q (ln(p_k + floor) - ln(p_{k-1} + floor))

    Args:
        rescorer: a frozen reference.
        answer: the final answer of a rollout as text; None when it has none.
        encode: from an answer to its tokens behind a fixed lead, e.g. `lambda text: encode_target(tokenizer, text,
            before="...")`. Answers are the policy's own text: `encode_target` never reads special tokens in them.
        entails: "entails", "neutral" or "contradicts" for (premise, hypothesis).
        sameness: of two answers, as in `clustered`.
        weigh: from the rollouts of a group and its clusters to one q per cluster, e.g. through `reliability`; default:
            the masses, which is eta = 0.
        members: how many distinct wordings of the cluster are averaged.
        floor: inside the logarithm, part of the definition.
        longest_target: tokens; a longer wording makes its cluster's rollouts abstain.
        name: of the values.

    Returns:
        A `Potential` with `n_turns` + 1 values per trajectory, the last turn included. A rollout without a valid answer
        abstains; `Failed` where any wording could not be scored.

    Raises:
        InvalidArgument: an argument that cannot be used, another number of weights than clusters.

    Example:
        >>> import numpy as np
        >>> from apportion.judges.scoring import LogProbs, Target, Vocabulary
        >>> class Told:
        ...     name, vocabulary = "told", Vocabulary("words", 9)
        ...     def score(self, requests, *, temperature=1.0):
        ...         return [[LogProbs(np.log([p])) for p in (0.1, 0.2, 0.4)] for _ in requests]
        >>> two = Trajectory(id="r", group="q", prompt_ids=[1], response_ids=[2, 3, 2], policy=[1, 0, 1])
        >>> potential = cluster_support(Told(), answer=lambda t: "Paris", entails=lambda a, b: "contradicts",
        ...     encode=lambda text: Target(np.array([5]), np.array([], int)), weigh=lambda group, clusters: [0.75])
        >>> phi = [v.value for v in potential.values([two])[0]]
        >>> round(phi[1] - phi[0], 4), round(phi[2] - phi[1], 4)
        (0.5199, 0.5199)

    Source: SIOP (arXiv 2605.04984), from the authors' code; wordings weigh the same. The (1 - lambda) q of the last
    turn is the recipe's, not the potential's.
    """
    return ClusterSupport(rescorer, answer, encode, entails, sameness, weigh, members, floor, longest_target, name)
