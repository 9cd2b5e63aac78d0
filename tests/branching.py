"""Rollouts that copy the beginnings of others, as a generator that branches would write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apportion.rollouts import Trajectory


def rollout(
    name: str,
    ids: Sequence[int],
    reward: float | None,
    *,
    parent: str | None = None,
    copied: int = 0,
    group: str = "q",
    policy: Sequence[int] | None = None,
    **fields: Any,
) -> Trajectory:
    """A rollout whose first `copied` response tokens are those of `parent`."""
    written = np.ones(len(ids), bool) if policy is None else np.asarray(policy, bool)
    columns = {"reward": reward, "parent": parent, **({"branch_offset": copied} if parent is not None else {})}
    return Trajectory(
        id=name,
        group=group,
        response_ids=ids,
        policy=written,
        own=written & (np.arange(len(ids)) >= copied),
        columns=columns,
        **fields,
    )


def small_tree() -> list[Trajectory]:
    """Two prompts; ids from 90 on are observations. In "a" b leaves a, c and d leave a later, e leaves d.

    a   1 2 |90| 3 4 |91| 5        b   1 2 |90| 6
    c   1 2 |90| 3 4 |91| 7        d   1 2 |90| 3 4 |91| 8 9      e   1 2 |90| 3 4 |91| 8 10
    """

    def of(name: str, ids: Sequence[int], reward: float, parent: str | None = None, copied: int = 0) -> Trajectory:
        policy = [token < 90 for token in ids]
        return rollout(name, ids, reward, parent=parent, copied=copied, group=name[0], policy=policy, prompt_ids=[99])

    start = [1, 2, 90, 3, 4, 91]
    return [
        of("p-a", [*start, 5], 1.0),
        of("p-b", [1, 2, 90, 6], 0.0, "p-a", 3),
        of("p-c", [*start, 7], 0.0, "p-a", 6),
        of("p-d", [*start, 8, 9], 1.0, "p-a", 6),
        of("p-e", [*start, 8, 10], 1.0, "p-d", 7),
        of("q-a", [1, 2], 1.0),
        of("q-b", [1, 3], 0.0, "q-a", 1),
    ]
