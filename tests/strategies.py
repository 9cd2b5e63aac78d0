"""Hypothesis strategies for the core. What breaks estimators comes first, so that shrinking ends there: one rollout,
no tokens, nothing known, everything equal; then uneven groups, missing values, ragged turns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from apportion.batch import Batch
from apportion.rollouts import Level, Trajectory
from apportion.signal import Signal
from apportion.verdicts import Presence

VALUES = st.sampled_from([0.0, 1.0, 0.5, -1.0, 0.1]) | st.floats(-100, 100, width=32)


@st.composite
def batches(draw: st.DrawFn, *, tokens: bool | None = True, max_size: int = 6) -> Batch:
    """A batch; `tokens=None` draws text-only ones too."""
    size = draw(st.integers(1, max_size))
    groups = draw(st.lists(st.sampled_from("abc"), min_size=size, max_size=size))
    turns = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    total = sum(turns)
    few = st.lists(st.integers(0, 3), min_size=total, max_size=total)
    if not (draw(st.booleans()) if tokens is None else tokens):
        return Batch.of(groups=groups, turns=turns)
    lead = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    return Batch.of(
        groups=groups, turns=turns, tokens=draw(few), gaps=torch.tensor(draw(few)).long(), lead=torch.tensor(lead)
    )


@st.composite
def signals(
    draw: st.DrawFn,
    batch: Batch,
    level: Level,
    name: str = "x",
    missing: bool = True,
    failed: bool = False,
    elements: Any = VALUES,
) -> Signal:
    """A signal at a level of the batch; constant and wholly missing ones are likely."""
    size = batch.size(level)
    shape = draw(st.sampled_from(["constant", "free", "free"]))
    numbers = [draw(elements)] * size if shape == "constant" else [draw(elements) for _ in range(size)]
    known = [True] * size
    if missing:
        known = draw(st.one_of(st.just([False] * size), st.lists(st.booleans(), min_size=size, max_size=size)))
    made = Signal.of(
        batch,
        level,
        torch.tensor(numbers, dtype=torch.float64),
        name=name,
        known=torch.tensor(known, dtype=torch.bool),
    )
    if failed:
        broken = draw(st.lists(st.booleans(), min_size=size, max_size=size))
        broken_too = torch.tensor(broken, dtype=torch.bool) & ~made.known
        made = replace(made, presence=made.presence.masked_fill(broken_too, int(Presence.FAILED)))
    return made


@st.composite
def masks(draw: st.DrawFn, *, max_rows: int = 5, max_width: int = 8) -> Tensor:
    """A padded response mask [B, T]; all-zero rows come first."""
    rows, width = draw(st.integers(1, max_rows)), draw(st.integers(1, max_width))
    cells = st.lists(st.sampled_from([0, 1]), min_size=width, max_size=width)
    return torch.tensor([draw(cells) for _ in range(rows)])


@st.composite
def trajectories(draw: st.DrawFn, max_size: int = 5) -> list[Trajectory]:
    """Token rollouts with observations before, between and inside turns."""
    made = []
    for i in range(draw(st.integers(1, max_size))):
        policy = np.array(draw(st.lists(st.booleans(), max_size=9)), dtype=bool)
        own = policy & np.array(draw(st.lists(st.booleans(), min_size=policy.size, max_size=policy.size)), dtype=bool)
        made.append(
            Trajectory(
                id=f"r{i}",
                group=draw(st.sampled_from("ab")),
                response_ids=np.arange(policy.size),
                policy=policy,
                own=own,
                behaviour_logps=-np.arange(policy.size, dtype=float),
                status=draw(st.sampled_from(["terminated", "truncated", "aborted"])),
            )
        )
    return made
