"""Our metrics and table columns, in place of TRL's, which describe advantages that are not trained on."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from apportion.recipe import Credit
from apportion.rollouts import Level

__all__ = ["log_credit", "log_table"]

_COLUMN = "credit/"


def log_credit(metrics: MutableMapping[str, list[float]], credit: Credit, *, unjoined: float) -> None:
    """Metrics of one generation batch: `apportion/...`, and TRL's share of groups without variance goes."""
    metrics.pop("frac_reward_zero_std", None)
    for name, value in {**credit.diagnostics(), "environment/unjoined_share": unjoined}.items():
        metrics[f"apportion/{name}"].append(value)


def log_table(logs: MutableMapping[str, Any], credit: Credit) -> None:
    """The completions table: the mean credit of each rollout's tokens, and one column for each of its terms.

    TRL keeps the last generation batch in queues of one length; a term that is absent this time counts 0, one that is
    new has no earlier entries.
    """
    per_rollout = credit.advantages.pool(Level.TRAJECTORY, "mean")
    values, kept = per_rollout.values.tolist(), logs["advantages"]
    for _ in range(min(len(values), len(kept))):
        kept.pop()
    kept.extend(values)
    terms = {f"{_COLUMN}{name}": term.tolist() for name, term in per_rollout.ledger().items()}
    for gone in [name for name in logs["extra"] if name.startswith(_COLUMN) and name not in terms]:
        terms[gone] = [0.0] * len(values)
    for name, column in terms.items():
        queue = logs["extra"][name]
        queue.extend([None] * max(0, len(kept) - len(values) - len(queue)))
        queue.extend(column)
