"""Recipes of the classical estimators: the outcome and nothing else.

Each function only names the estimator in `apportion.advantages`, its paper and the loss aggregation that belongs to it.
Common settings: `reward` is the trajectory column that holds the outcome; `truncated` says what a rollout cut by a
length or turn limit earns ("keep" its reward, "zero", or "exclude" it from its group).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from apportion import advantages as adv
from apportion.advantages.aggregation import Aggregation
from apportion.recipe import Recipe
from apportion.rewards import Truncated, outcome
from apportion.signal import Signal

__all__ = [
    "dr_grpo",
    "gpg",
    "grpo",
    "maxrl",
    "mc_grpo",
    "opo",
    "pass_at_k",
    "pass_at_k_top",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "rloo",
]


def grpo(*, reward: str = "reward", truncated: Truncated = "keep", dialect: str = "apportion") -> Recipe:
    """GRPO: group mean and standard deviation; `dialect` names whose numbers. arXiv 2402.03300."""
    chosen = adv.dialect(dialect)
    return _recipe(
        "grpo",
        lambda x: adv.grpo(x, dialect=chosen),
        reward,
        truncated,
        paper="2402.03300",
        aggregation=chosen.aggregation,
        scope="batch" if chosen.scale_key == "batch" else "group",
        dialect=dialect,
    )


def dr_grpo(*, reward: str = "reward", truncated: Truncated = "keep") -> Recipe:
    """Dr.GRPO: group mean, no division; token sums over a constant length. arXiv 2503.20783."""
    aggregation: Aggregation = "seq-mean-token-sum-norm"
    return _recipe("dr_grpo", adv.dr_grpo, reward, truncated, paper="2503.20783", aggregation=aggregation)


def rloo(*, reward: str = "reward", truncated: Truncated = "keep") -> Recipe:
    """RLOO: minus the mean of the other rollouts of the group. arXiv 2402.14740."""
    return _recipe("rloo", adv.rloo, reward, truncated, paper="2402.14740", aggregation="seq-mean-token-sum")


def opo(*, reward: str = "reward", truncated: Truncated = "keep") -> Recipe:
    """OPO: minus the length-weighted group mean; strictly on-policy. arXiv 2505.23585."""
    needs = ("token ids, or at least token counts",)
    return _recipe("opo", adv.opo, reward, truncated, paper="2505.23585", aggregation="token-mean", needs=needs)


def gpg(*, reward: str = "reward", truncated: Truncated = "keep") -> Recipe:
    """GPG: group-centred, scaled up by the share of groups that teach. arXiv 2504.02546."""
    return _recipe("gpg", adv.gpg, reward, truncated, paper="2504.02546", aggregation="token-mean", scope="batch")


def maxrl(*, reward: str = "reward", truncated: Truncated = "keep") -> Recipe:
    """MaxRL: group-centred and divided by the group mean; rewards must not be negative."""
    return _recipe("maxrl", adv.maxrl, reward, truncated, paper="MaxRL", aggregation="token-mean")


def pass_at_k(*, k: int = 4, reward: str = "reward", truncated: Truncated = "keep") -> Recipe:
    """Pass@k training, closed form for 0/1 rewards. arXiv 2508.10751."""
    return _recipe(
        "pass_at_k",
        lambda x: adv.pass_at_k(x, k=k),
        reward,
        truncated,
        paper="2508.10751",
        aggregation="token-mean",
        k=k,
    )


def pass_at_k_top(*, reward: str = "reward", truncated: Truncated = "keep") -> Recipe:
    """Only the best rollout of a group, by its lead over the second best. arXiv 2503.19595."""
    return _recipe("pass_at_k_top", adv.pass_at_k_top, reward, truncated, paper="2503.19595", aggregation="token-mean")


def mc_grpo(
    *, scale: Literal["mad", "std", "none"] = "mad", reward: str = "reward", truncated: Truncated = "keep"
) -> Recipe:
    """MC-GRPO: centred at the median rollout, which leaves the loss; sample one more. arXiv 2601.22582."""
    return _recipe(
        "mc_grpo",
        lambda x: adv.mc_grpo(x, scale=scale),
        reward,
        truncated,
        paper="2601.22582",
        aggregation="seq-mean-token-mean",
        scale=scale,
    )


def reinforce_pp(*, reward: str = "reward", truncated: Truncated = "keep") -> Recipe:
    """REINFORCE++: return to go, whitened over the policy tokens of the batch; needs no groups. arXiv 2501.03262."""
    return _recipe(
        "reinforce_pp",
        adv.reinforce_pp,
        reward,
        truncated,
        paper="2501.03262",
        aggregation="token-mean",
        scope="batch",
        needs=("token ids",),
    )


def reinforce_pp_baseline(*, reward: str = "reward", truncated: Truncated = "keep") -> Recipe:
    """REINFORCE++ with the group mean as baseline, whitened over the policy tokens. arXiv 2501.03262."""
    return _recipe(
        "reinforce_pp_baseline",
        adv.reinforce_pp_baseline,
        reward,
        truncated,
        paper="2501.03262",
        aggregation="token-mean",
        scope="batch",
        needs=("token ids",),
    )


def _recipe(
    name: str,
    estimator: Callable[[Signal], Signal],
    reward: str,
    truncated: Truncated,
    *,
    paper: str,
    aggregation: Aggregation,
    scope: Literal["group", "batch"] = "group",
    needs: tuple[str, ...] = (),
    **parameters: Any,
) -> Recipe:
    def assign(batch: Any, signals: Any, *, step: int | None, state: Any) -> Signal:
        return estimator(signals["outcome"])

    return Recipe(
        name=name,
        observers=[outcome(reward, truncated=truncated)],
        assign_signals=assign,
        aggregation=aggregation,
        scope=scope,
        paper=paper,
        needs=(f"trajectory column {reward!r}", *needs),
        parameters={"reward": reward, "truncated": truncated, **parameters},
    )
