"""Sums over everything that was scored, kept while it streams by: what the summary of `apportion score` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from apportion.advantages.group_stat import group_statistics
from apportion.recipe import Credit
from apportion.rollouts import Level
from apportion.verdicts import Presence

__all__ = ["RewardTotals", "TermTotals", "Totals"]

_COUNTS = ("trajectories", "groups", "turns", "tokens", "without_credit", "elements")


@dataclass(frozen=True, slots=True, kw_only=True)
class TermTotals:
    """One term of the ledger over the elements in the loss.

    Attributes:
        mean, std: population statistics.
        variance_share: cov(term, advantage) / var(advantage); the shares of all terms sum to 1. None when the
            advantages are constant.
    """

    mean: float
    std: float
    variance_share: float | None


@dataclass(slots=True, kw_only=True)
class RewardTotals:
    """One observer's verdicts.

    Attributes:
        scored, abstained, failed: number of verdicts.
        averaged: scores that a mean makes sense of; none of a label's, which are codes.
        total: sum of those.
        groups: groups in which it scored at all; none of a label.
        dead: of these, the ones where its scores are constant.
    """

    scored: int = 0
    abstained: int = 0
    failed: int = 0
    averaged: int = 0
    total: float = 0.0
    groups: int = 0
    dead: int = 0

    @property
    def mean(self) -> float | None:
        """Of the scores; None without any, and of a label."""
        return self.total / self.averaged if self.averaged else None

    @property
    def is_label(self) -> bool:
        """Its scores are codes."""
        return self.scored > self.averaged

    @property
    def missing_share(self) -> float:
        """Verdicts without a score."""
        return (self.abstained + self.failed) / max(self.scored + self.abstained + self.failed, 1)


@dataclass(slots=True, kw_only=True)
class Totals:
    """What was scored so far; `add` takes one credit after another.

    Means and covariances of different credits are merged by Chan's formula, which keeps its digits however many there
    are:  M = M_a + M_b + n_a n_b / (n_a + n_b) d d^T  with d the difference of the means.
    """

    trajectories: int = 0
    groups: int = 0
    turns: int = 0
    tokens: int = 0
    without_credit: int = 0
    in_loss: int = 0
    elements: int = 0
    residual: float = 0.0
    rewards: dict[str, RewardTotals] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)
    _mean: torch.Tensor = field(default_factory=lambda: torch.zeros(1, dtype=torch.float64))
    _moments: torch.Tensor = field(default_factory=lambda: torch.zeros(1, 1, dtype=torch.float64))

    def add(self, credit: Credit) -> None:
        """Count one credit."""
        a, batch = credit.advantages, credit.batch
        self.trajectories += len(batch)
        self.groups += batch.size(Level.GROUP)
        self.turns += batch.size(Level.TURN)
        self.tokens += batch.n_tokens
        moved = torch.zeros(batch.size(Level.GROUP), dtype=torch.float64)
        moved = moved.index_add(0, batch.owner(a.level, Level.GROUP), (a.values != 0).double())
        self.without_credit += int((moved == 0).sum())
        self.residual = max(self.residual, a.residual())
        for name, reward in credit.rewards.items():
            seen = self.rewards.setdefault(name, RewardTotals())
            seen.scored += int(reward.known.sum())
            seen.abstained += int((reward.presence == int(Presence.ABSENT)).sum())
            seen.failed += int((reward.presence == int(Presence.FAILED)).sum())
            if name in credit.labels:
                continue
            stats = group_statistics(reward)
            seen.averaged += int(reward.known.sum())
            seen.total += float(reward.values[reward.known].sum())
            seen.groups += int((stats.count > 0).sum())
            seen.dead += int((stats.constant & (stats.count > 0)).sum())
        known, ledger = credit.in_loss, credit.ledger()
        values = torch.stack([column[known].detach() for column in (a.values, *ledger.values())])
        self.elements += known.numel()
        n = values.shape[1]
        mean = values.mean(1) if n else torch.zeros(len(values), dtype=torch.float64)
        centred = values - mean[:, None]
        self._merge(list(ledger), n, mean, centred @ centred.T)

    def summary(self) -> dict[str, Any]:
        """Everything, as JSON has it; `include` takes it back to the last bit."""
        return {
            **{name: getattr(self, name) for name in (*_COUNTS, "in_loss", "residual")},
            "rewards": {name: asdict(seen) for name, seen in self.rewards.items()},
            "terms": list(self._names),
            "mean": self._mean.tolist(),
            "moments": self._moments.tolist(),
        }

    def include(self, summary: Mapping[str, Any]) -> None:
        """Count what other totals, of other trajectories, summed up."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + summary[name])
        self.residual = max(self.residual, summary["residual"])
        for name, counted in summary["rewards"].items():
            seen = self.rewards.setdefault(name, RewardTotals())
            for part, value in counted.items():
                setattr(seen, part, getattr(seen, part) + value)
        mean, moments = (torch.tensor(summary[name], dtype=torch.float64) for name in ("mean", "moments"))
        self._merge(summary["terms"], summary["in_loss"], mean, moments)

    def advantage(self) -> TermTotals:
        """The advantages themselves."""
        return self._statistics(0)

    def terms(self) -> dict[str, TermTotals]:
        """Every term met so far; they sum to the advantage."""
        return {name: self._statistics(i) for i, name in enumerate(self._names, 1)}

    def _statistics(self, i: int) -> TermTotals:
        spread = self._moments / max(self.in_loss, 1)
        whole = float(spread[0, 0])
        return TermTotals(
            mean=float(self._mean[i]),
            std=float(spread[i, i].clamp_min(0.0).sqrt()),
            variance_share=float(spread[i, 0]) / whole if whole > 0 else None,
        )

    def _merge(self, names: Sequence[str], n: int, mean: torch.Tensor, moments: torch.Tensor) -> None:
        """Take in n elements: means and sums of centred products, of the advantage and then of the named terms."""
        for name in names:
            if name not in self._names:
                self._names.append(name)
                self._mean = torch.nn.functional.pad(self._mean, (0, 1))
                self._moments = torch.nn.functional.pad(self._moments, (0, 1, 0, 1))
        if not n:
            return
        at = torch.tensor([0, *(self._names.index(name) + 1 for name in names)])
        apart = torch.zeros_like(self._mean).index_copy(0, at, mean) - self._mean
        products = torch.zeros_like(self._moments)
        products[at[:, None], at] = moments
        total = self.in_loss + n
        self._moments = self._moments + products + torch.outer(apart, apart) * (self.in_loss * n / total)
        self._mean = self._mean + apart * (n / total)
        self.in_loss = total
