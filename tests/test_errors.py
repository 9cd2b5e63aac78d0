"""Errors that cross the border of a process keep their message."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from apportion.errors import (
    ApportionError,
    BadRow,
    InvalidArgument,
    LedgerMismatch,
    MissingExtra,
    MissingInput,
    ObserverFailing,
    RecipeRefused,
)


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgument("ddof", 3, "0 or 1"),
        InvalidArgument("x", torch.ones(2), "one number"),
        InvalidArgument("source", lambda t: 1.0, "a name"),
        BadRow("a.jsonl", 3, "id", "absent", "give one"),
        MissingInput("grpo", "a column", "record it", ["a", "b"]),
        MissingExtra("pyarrow", "parquet"),
        ObserverFailing("judge", 3, 4, 0.5, "'r0': timeout"),
        RecipeRefused("penalties only"),
        LedgerMismatch("0.1 apart"),
    ],
)
def test_an_error_survives_pickling_and_copying(error: ApportionError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)


def test_long_names_do_not_flood_the_message() -> None:
    error = MissingInput("outcome", "a column", "record it", ["x" * 100_000, "short"])
    assert len(str(error)) < 300
    assert str(error).endswith("…, short; record it")
