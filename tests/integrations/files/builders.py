"""Trajectories of every shape, and what it means that two of them are the same."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from apportion.rollouts import Action, Trajectory, Turn

TEXT = st.sampled_from(["", "a", "two\nlines", "\u2028 \x85 \x00", "日本 🙂", '"\\']) | st.text(max_size=8)
NAME = TEXT.filter(bool)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
ACTIONS = st.builds(
    Action,
    name=st.none() | TEXT,
    arguments=OBJECT,
    raw=TEXT,
    syntax=TEXT,
    call_id=st.none() | TEXT,
    error=st.none() | TEXT,
)
TURNS = st.builds(
    Turn,
    text=TEXT,
    actions=st.lists(ACTIONS, max_size=2).map(tuple),
    observation=TEXT,
    reward=st.none() | NUMBER,
    executed=st.booleans(),
    columns=OBJECT,
)


@st.composite
def trajectories(draw: st.DrawFn, id: str) -> Trajectory:
    """Text only, no tokens at all, nothing of the policy's, copied tokens, spans: degenerate cases come first."""
    fields: dict[str, Any] = {"turns": draw(st.lists(TURNS, max_size=2))}
    if draw(st.booleans()):
        fields |= draw(_tokens(fields["turns"]))
    status = draw(st.sampled_from(["terminated", "truncated", "aborted"]))
    return Trajectory(
        id=id,
        group=draw(NAME),
        step=draw(st.none() | st.integers(-(2**63), 2**63 - 1)),
        status=status,  # type: ignore[arg-type]
        error=draw(st.none() | TEXT) if status == "aborted" else None,
        reference=draw(JSON),
        messages=tuple(draw(st.lists(OBJECT, max_size=2))),
        columns=draw(OBJECT),
        **fields,
    )


@st.composite
def _tokens(draw: st.DrawFn, turns: list[Turn]) -> dict[str, Any]:
    lengths = draw(st.lists(st.integers(0, 3), min_size=len(turns), max_size=len(turns)))
    policy: list[bool] = []
    spans = []
    for length in lengths:
        start = len(policy)
        policy += [True] * length + [False] * draw(st.integers(0, 2))
        spans.append((start, len(policy)))
    if not turns:
        policy = draw(st.lists(st.booleans(), max_size=5))
    own = [wrote and draw(st.booleans()) for wrote in policy]
    size = len(policy)
    fields: dict[str, Any] = {
        "prompt_ids": draw(st.lists(st.integers(0, 2**31 - 1), max_size=3)),
        "response_ids": np.array(draw(st.lists(st.integers(0, 2**31 - 1), min_size=size, max_size=size)), np.int64),
        "policy": np.array(policy, bool),
        "own": np.array(own, bool),
        "turns": [dataclasses.replace(turn, span=span) for turn, span in zip(turns, spans, strict=True)],
    }
    if draw(st.booleans()):
        ignored = st.sampled_from([np.nan, -np.inf, np.inf, 0.0])
        fields["behaviour_logps"] = np.array([draw(NUMBER if mine else ignored) for mine in own], float)
    if draw(st.booleans()):
        versions = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=size, max_size=size))
        fields["policy_version"] = np.array(versions, np.int64)
    cell = NUMBER | st.just(np.nan)
    names = draw(st.lists(st.sampled_from(["values", "trainer_logps", "日本"]), unique=True, max_size=2))
    fields["token_columns"] = {
        name: np.array(draw(st.lists(cell, min_size=size, max_size=size)), float) for name in names
    }
    return fields


ROLLOUTS = st.integers(1, 3).flatmap(
    lambda count: st.tuples(*(trajectories(id) for id in ("r0", "日本 \x85", "2")[:count]))
)


def assert_same(left: Trajectory, right: Trajectory) -> None:
    """Equal field by field, arrays with their dtype and their bits; NaN equals NaN where the token is not own."""
    for field in dataclasses.fields(Trajectory):
        one, other = getattr(left, field.name), getattr(right, field.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype, field.name
            np.testing.assert_array_equal(one, other, err_msg=field.name)
        elif field.name == "token_columns":
            assert list(one) == list(other)
            for name in one:
                np.testing.assert_array_equal(one[name], other[name], err_msg=name)
        else:
            assert one == other, field.name


def write_lines(path: Path, *rows: object, encoding: str = "utf-8") -> Path:
    """A file with one row per line: text as it is, anything else as JSON; compressed when the name ends in .gz."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    data = "".join(f"{line}\n" for line in lines).encode(encoding)
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def native(id: object, group: object = "g", **fields: object) -> dict[str, Any]:
    return {"apportion": 1, "id": id, "group": group, **fields}
