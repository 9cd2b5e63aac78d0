"""GDPO: several rewards, each normalised on its own before they are added."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from apportion import advantages as adv
from apportion.advantages.gdpo import FinalStep
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.rewards import Truncated, metric, outcome
from apportion.signal import Signal

__all__ = ["gdpo"]


def gdpo(
    *,
    rewards: str | Sequence[str] = "reward",
    weights: str | Sequence[float] = "",
    final: FinalStep = "sample",
    dialect: str = "apportion",
    truncated: Truncated = "keep",
) -> Recipe:
    """GDPO: group-normalise every reward, add with weights, normalise over the batch. arXiv 2601.05242.

    Args:
        rewards: trajectory columns, as a list or separated by commas.
        weights: as many numbers, likewise; default 1 each. A reward of weight 0 is only recorded.
        final: the last step over "sample", "token", or "none".
        dialect: whose numbers.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Raises:
        InvalidArgument: no column, a column twice, weights that are not as many finite numbers, or only weights of 0.
    """
    columns = [name.strip() for name in (rewards.split(",") if isinstance(rewards, str) else rewards) if name.strip()]
    if not columns or len(set(columns)) < len(columns):
        raise InvalidArgument("rewards", rewards, "different trajectory columns, as a list or separated by commas")
    numbers = _numbers(weights, len(columns))
    observed = [outcome(name, name=name, truncated=truncated) for name in columns]

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        return adv.gdpo([signals[name] for name in columns], weights=numbers, final=final, dialect=dialect)

    return Recipe(
        name="gdpo",
        observers=[made if weight else metric(made) for made, weight in zip(observed, numbers, strict=True)],
        assign_signals=assign,
        aggregation=adv.dialect(dialect).aggregation,
        scope="group" if final == "none" else "batch",
        paper="2601.05242",
        needs=tuple(f"trajectory column {name!r}" for name in columns),
        parameters={
            "rewards": ",".join(columns),
            "weights": ",".join(f"{number:g}" for number in numbers),
            "final": final,
            "dialect": dialect,
            "truncated": truncated,
        },
    )


def _numbers(given: str | Sequence[float], count: int) -> list[float]:
    parts = [part for part in given.split(",") if given.strip()] if isinstance(given, str) else list(given)
    if not parts:
        return [1.0] * count
    try:
        numbers = [float(part) for part in parts]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)) or not any(numbers):
        expected = f"{count} finite numbers, as a list or separated by commas, not all 0"
        raise InvalidArgument("weights", given, expected)
    return numbers
