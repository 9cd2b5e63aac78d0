"""Saved states: plain data that survives JSON, and a generator that goes on where it stopped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from apportion.errors import InvalidArgument


def at_least(share: float, n: int) -> int:
    """The smallest whole number that is at least this share of n; 0.1 of 30 is 3, whatever floats say."""
    return math.ceil(share * n - 1e-9)


def generator(seed: int) -> np.random.Generator:
    """A generator whose state `dumped` and `restored` can carry."""
    return np.random.Generator(np.random.PCG64(seed))


def dumped(rng: np.random.Generator) -> dict[str, Any]:
    """The state of a generator; its 128-bit numbers as text, which not every JSON reader would keep exact."""
    state = rng.bit_generator.state
    return {**state, "state": {name: str(number) for name, number in state["state"].items()}}


def restored(state: Mapping[str, Any]) -> np.random.Generator:
    """The generator of a state."""
    rng = generator(0)
    try:
        rng.bit_generator.state = {**state, "state": {name: int(text) for name, text in state["state"].items()}}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidArgument("state", state, "the state of a PCG64 generator") from error
    return rng


def checked(state: Mapping[str, Any], kind: str, names: Iterable[str]) -> Mapping[str, Any]:
    """The state, if it is one of this kind of planner with exactly these entries."""
    expected = {"kind", *names}
    if not isinstance(state, Mapping) or set(state) != expected or state["kind"] != kind:
        found = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        what = state.get("kind") if isinstance(state, Mapping) else None
        raise InvalidArgument("state", found, f"the state_dict of a {kind} ({', '.join(sorted(expected))}), not {what}")
    return state
