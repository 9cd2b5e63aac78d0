"""Hypothesis strategies for batches of rollouts and their signals. The degenerate cases come first.

case = batch + one signal per reward
degenerate(...)   the fixed cases that break estimators: singleton, constant, all missing, no token, no turn, ...
cases(...)        ragged, interleaved, gappy batches; now and then one of the above
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from hypothesis import strategies as st

from apportion.batch import Batch
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Presence

Domain: TypeAlias = Literal["real", "nonnegative", "binary"]
Values: TypeAlias = Literal["lattice", "wild"]
# Group, other tokens before the first turn, and for every turn its policy tokens and the other tokens after it.
Rollout: TypeAlias = tuple[str, int, Sequence[tuple[int, int]]]

KNOWN, ABSENT, FAILED = int(Presence.KNOWN), int(Presence.ABSENT), int(Presence.FAILED)
# Not exact in float32, so their mean over a group is not the value itself; and sizes that overflow careless squares.
AWKWARD = (0.1, 0.7, 0.9, 1000.1, 1e-8, 1e12, 1 / 3, 0.0, 1.0, -0.1, -1000.1)


@dataclass(frozen=True, eq=False)
class Case:
    """Rollouts and one signal per reward, all of the same batch."""

    batch: Batch
    signals: tuple[Signal, ...]

    def __repr__(self) -> str:
        b = self.batch
        parts = [
            f"groups={[b.group_ids[g] for g in b.group.tolist()]}",
            f"turns={b.turns.tolist()}",
            f"tokens={None if b.tokens is None else b.tokens.tolist()}",
            f"lead={b.lead.tolist()} gaps={b.gaps.tolist()}",
        ]
        names = {KNOWN: "", ABSENT: "absent", FAILED: "failed"}
        for x in self.signals:
            state = zip(x.values.tolist(), x.presence.tolist(), strict=True)
            parts.append(f"{x.level.name}={[names[p] or v for v, p in state]}")
        return f"Case({', '.join(parts)})"


def build(rollouts: Sequence[Rollout], *, tokens: bool = True) -> Batch:
    """A batch of the rollouts; ids count from 0. Without tokens it is text only."""
    turns = [turn for _, _, row in rollouts for turn in row]
    return Batch.of(
        groups=[group for group, _, _ in rollouts],
        turns=[len(row) for _, _, row in rollouts],
        tokens=[written for written, _ in turns] if tokens else None,
        lead=torch.tensor([lead for _, lead, _ in rollouts]),
        gaps=torch.tensor([gap for _, gap in turns], dtype=torch.int64),
    )


def signal(batch: Batch, level: Level, values: Sequence[float], states: Sequence[int], *, name: str) -> Signal:
    """A signal with every state of presence; values of what is not known do not matter."""
    state = torch.tensor(states, dtype=torch.uint8)
    made = Signal.of(batch, level, torch.tensor(values, dtype=torch.float64), name=name, known=state == KNOWN)
    return replace(made, presence=state)


# ------------------------------------------------------------------------------------------------ degenerate cases

_ONE: Rollout = ("a", 0, [(1, 0)])
_SHAPES: dict[str, Sequence[Rollout]] = {
    "one rollout with one token": [_ONE],
    "one rollout without a turn": [("a", 2, [])],
    "one group without a token": [("a", 1, [(0, 1)]), ("a", 0, []), ("a", 0, [(0, 0), (0, 2)])],
    "singletons only": [("a", 0, [(1, 1)]), ("b", 1, [(2, 0), (1, 0)]), ("c", 0, [(0, 1)])],
    "a pair": [_ONE, ("a", 0, [(2, 1), (1, 0)])],
    "a rollout without a token in its group": [("a", 0, [(3, 0)]), ("a", 2, []), ("a", 0, [(0, 1), (1, 1)])],
    "uneven, interleaved groups": [
        ("a", 0, [(1, 1), (2, 0)]),
        ("b", 1, [(3, 2)]),
        ("a", 0, [(2, 0)]),
        ("a", 2, [(0, 1), (4, 1), (1, 0)]),
        ("c", 0, [(1, 0)]),
        ("b", 0, [(1, 1), (1, 1)]),
        ("a", 0, [(1, 0)]),
    ],
    "one large group": [("a", 0, [(1 + i % 3, i % 2)]) for i in range(16)],
}


def _constant(value: float) -> Callable[[int], list[float]]:
    return lambda n: [value] * n


def _cycle(*values: float) -> Callable[[int], list[float]]:
    return lambda n: [values[i % len(values)] for i in range(n)]


_PATTERNS: dict[str, tuple[Callable[[int], list[float]], Callable[[int], list[int]]]] = {
    "all missing": (_constant(1.0), lambda n: [ABSENT] * n),
    "all failed": (_constant(1.0), lambda n: [FAILED] * n),
    "only the first known": (_constant(1.0), lambda n: [KNOWN] + [ABSENT, FAILED] * n),
    "constant": (_constant(1.0), lambda n: [KNOWN] * n),
    "constant with holes": (_constant(1.0), lambda n: [KNOWN, ABSENT, KNOWN, KNOWN, FAILED] * n),
    "one success": (lambda n: [1.0] + [0.0] * n, lambda n: [KNOWN] * n),
    "ties": (_cycle(0.0, 1.0, 1.0), lambda n: [KNOWN] * n),
    "all different, with holes": (_cycle(0.0, 1.0, 3.0, 0.5, 2.0), lambda n: [KNOWN, KNOWN, KNOWN, FAILED] * n),
}


def degenerate(levels: Sequence[Level], *, domain: Domain = "real") -> dict[str, Case]:
    """Every degenerate shape with every degenerate pattern of values, by name; a first pass over all of both, then all.

    The first 16 hold every shape and every pattern twice.
    """
    patterns = [name for name in _PATTERNS if domain != "binary" or not name.startswith("all different")]
    pairs = [(shape, patterns[(i + turn) % len(patterns)]) for turn in (0, 3) for i, shape in enumerate(_SHAPES)]
    pairs += [(shape, pattern) for shape in _SHAPES for pattern in patterns]
    found = {}
    for shape, pattern in pairs:
        values, states = _PATTERNS[pattern]
        found.setdefault(f"{shape}: {pattern}", filled(build(_SHAPES[shape]), levels, values, states))
    return found


def filled(
    batch: Batch, levels: Sequence[Level], values: Callable[[int], list[float]], states: Callable[[int], list[int]]
) -> Case:
    """A case whose signals follow a pattern; the pattern is rotated by one element from signal to signal."""
    made = []
    for k, level in enumerate(levels):
        size = batch.size(level)
        made.append(
            signal(batch, level, values(size + k)[k : size + k], states(size + k)[k : size + k], name=f"reward {k}")
        )
    return Case(batch, tuple(made))


def plain(levels: Sequence[Level], *, domain: Domain = "real") -> Case:
    """Two interleaved groups of four without ties, holes or zeros: where a law that does not hold shows itself."""
    rollouts: list[Rollout] = [
        ("ab"[i % 2], i % 2, [(1 + (i * j) % 3, (i + j) % 2) for j in range(1 + i // 4)]) for i in range(8)
    ]

    def values(size: int) -> list[float]:
        return [float(i % 8 == 0) if domain == "binary" else (1 + i * 13 % 64) / 8 for i in range(size)]

    return filled(build(rollouts), levels, values, lambda n: [KNOWN] * n)


# -------------------------------------------------------------------------------------------------- random batches

# One draw per rollout and one per element keeps a random batch cheap.
_TURNS: Sequence[Sequence[tuple[int, int]]] = [
    [],
    [(0, 0)],
    [(1, 0)],
    [(1, 1)],
    [(2, 0)],
    [(3, 2)],
    [(1, 1), (2, 0)],
    [(0, 1), (1, 0)],
    [(2, 2), (0, 0)],
    [(1, 0), (1, 0)],
    [(3, 1), (1, 0), (2, 1)],
    [(1, 1), (0, 2), (1, 1)],
]


def rollouts(*, groups: str = "abc", max_size: int = 8) -> st.SearchStrategy[list[Rollout]]:
    """Ragged rollouts: groups interleave and are uneven, a rollout may have no turn and a turn no token."""
    kinds: list[Rollout] = [(group, lead, row) for row in _TURNS for lead in (0, 2) for group in groups]
    return st.lists(st.sampled_from(kinds), min_size=1, max_size=max_size)


def numbers(domain: Domain = "real", values: Values = "lattice") -> list[float]:
    """Rewards of the domain, simple ones first.

    "lattice" is exact in every float type and far from every tolerance: laws of arithmetic then hold to the last
    digits. "wild" mixes magnitudes from 1e-12 to 1e12 in one group.
    """
    if domain == "binary":
        return [0.0, 1.0]
    found = [k / 4 for k in range(17)]
    if values == "wild":
        found = sorted({*(abs(v) for v in AWKWARD), 1e-12, 0.1 + 0.2, 0.3})
    return found if domain == "nonnegative" else [*found, *(-v for v in found if v)]


def elements(domain: Domain = "real", values: Values = "lattice") -> st.SearchStrategy[tuple[float, int]]:
    """A reward and its presence: mostly known, sometimes absent or failed."""
    known = [(value, KNOWN) for value in numbers(domain, values)]
    gaps = max(1, len(known) // 8)
    return st.sampled_from([*known, *[(0.0, ABSENT)] * gaps, *[(0.0, FAILED)] * gaps])


@st.composite
def cases(draw: st.DrawFn, levels: Sequence[Level], *, domain: Domain = "real", values: Values = "lattice") -> Case:
    """A random batch with one random signal per level."""
    batch = build(draw(rollouts()))
    made = []
    for k, level in enumerate(levels):
        size = batch.size(level)
        drawn = draw(st.lists(elements(domain, values), min_size=size, max_size=size))
        made.append(signal(batch, level, [v for v, _ in drawn], [s for _, s in drawn], name=f"reward {k}"))
    return Case(batch, tuple(made))
