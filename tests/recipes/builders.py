"""Rollouts from rows of numbers, for the recipes that read turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apportion.recipe import Recipe
from apportion.rollouts import Trajectory, Turn


def rollout(
    name: str,
    turns: Sequence[Mapping[str, Any]],
    *,
    group: str = "q",
    tokens: Sequence[int] | None = None,
    **columns: Any,
) -> Trajectory:
    """One rollout; "paid" of a turn is `Turn.reward`, the rest its columns; `tokens` = policy tokens of each turn."""
    ends = [sum(tokens[: k + 1]) for k in range(len(tokens))] if tokens is not None else []
    made = [
        Turn(
            reward=row.get("paid"),
            columns={key: value for key, value in row.items() if key != "paid"},
            span=None if tokens is None else (ends[k] - tokens[k], ends[k]),
        )
        for k, row in enumerate(turns)
    ]
    ids = None if tokens is None else list(range(sum(tokens)))
    return Trajectory(id=name, group=group, turns=made, columns=columns, response_ids=ids)  # type: ignore[arg-type]


def by(name: str, values: Sequence[Any]) -> list[dict[str, Any]]:
    """Turns with one column; None = the turn does not have it."""
    return [{} if value is None else {name: value} for value in values]


def advantages(recipe: Recipe, rollouts: Sequence[Trajectory]) -> list[float]:
    """The credit of every turn (token)."""
    credit, _ = recipe.score(rollouts)
    found: list[float] = credit.advantages.values.tolist()
    return found
