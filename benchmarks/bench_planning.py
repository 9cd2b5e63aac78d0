"""How many groups the planners of `apportion.planning` leave silent, on simulated prompts.

A pool of prompts whose pass rates spread from never to always and rise while training goes on; groups of 8 rollouts
with rewards of 0 or 1. Nothing is learnt: the rates rise by the same amount whatever is sampled, so this measures how
well a planner finds mixed groups, not what that is worth. Fails when a planner is no better than choosing uniformly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from apportion.planning import DPS, SPO, InSight, MoPPS, Planner, Sampler, ThinkPrior

POOL, CHOSEN, CANDIDATES, GROUP, STEPS, SEEDS = 2000, 64, 512, 8, 200, 3
SPREAD, RISE = 4.0, 0.02

Rates = dict[str, float]
PLANNERS: dict[str, Callable[[int, Rates], Planner]] = {
    "MoPPS": lambda seed, _: MoPPS(seed=seed),
    "MoPPS(discount=0.5)": lambda seed, _: MoPPS(seed=seed, discount=0.5),
    "SPO": lambda seed, _: SPO(),
    "InSight": lambda seed, _: InSight(),
    "InSight(discount=0.5)": lambda seed, _: InSight(discount=0.5),
    "ThinkPrior": lambda seed, rates: ThinkPrior(anchors=rates),
    "DPS": lambda seed, _: DPS(),
}


def silent_shares(make: Callable[[int, Rates], Planner], seed: int) -> tuple[float, float]:
    """Mean share of silent groups over the second half of the steps: of all groups, and of the uniform share."""
    rng = np.random.default_rng(seed)
    names = [f"q{i}" for i in range(POOL)]
    difficulty = rng.normal(-1.0, SPREAD, POOL)

    def rates(step: int) -> Rates:
        return dict(zip(names, (1 / (1 + np.exp(-difficulty - RISE * step))).tolist(), strict=True))

    sampler = Sampler(make(seed, rates(0)), uniform_share=0.25, seed=seed)
    shares = []
    for step in range(STEPS):
        now = rates(step)
        chosen = sampler.select(CHOSEN, rng.permutation(names)[:CANDIDATES].tolist())
        sampler.update({name: rng.binomial(1, now[name], GROUP).astype(float).tolist() for name in chosen})
        metrics = sampler.metrics()
        shares.append((metrics["planning/silent_share_planned"], metrics["planning/silent_share_uniform"]))
    planned, uniform = np.mean(shares[STEPS // 2 :], axis=0).tolist()
    return planned, uniform


def main() -> int:
    print(
        f"{POOL} prompts, {CHOSEN} of {CANDIDATES} candidates per step, groups of {GROUP}, steps {STEPS // 2}-{STEPS}"
    )
    print("share of silent groups, mean of seeds (lowest-highest)")
    missed = []
    for name, make in PLANNERS.items():
        rows = np.array([silent_shares(make, seed) for seed in range(SEEDS)])
        planned, uniform = (f"{c.mean():.2f} ({c.min():.2f}-{c.max():.2f})" for c in rows.T)
        print(f"  {name:24} chosen by it {planned}   uniformly {uniform}")
        if not (rows[:, 0] < rows[:, 1]).all():
            missed.append(name)
    if missed:
        print(f"no better than uniform: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
