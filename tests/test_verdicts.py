"""What a reward may return, and what a verdict may hold."""

from __future__ import annotations

import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from apportion.errors import InvalidArgument
from apportion.verdicts import Abstained, Failed, Scored, as_verdict


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, 1.0),
        (np.int8(3), 3.0),
        (np.float32(0.5), 0.5),
        (np.array(0.5), 0.5),
        (torch.tensor([0.5], dtype=torch.bfloat16), 0.5),
        (torch.tensor(0.5, requires_grad=True), 0.5),
        (Decimal("0.5"), 0.5),
        (Fraction(1, 2), 0.5),
        (5e-324, 5e-324),
    ],
)
def test_numbers_of_any_kind_are_scores(value: Any, expected: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_verdict(value, source="x") == Scored(expected)


@pytest.mark.parametrize(
    "value",
    [
        1e151,
        -(10**200),
        "1",
        b"1",
        bytearray(b"1"),
        1j,
        [1],
        (1, "why"),
        {},
        Scored,
        10**400,
        Decimal("nan"),
        torch.ones(2),
        np.ones(1),
    ],
)
def test_what_is_no_number_is_nobodys_score(value: Any) -> None:
    assert isinstance(as_verdict(value, source="x"), Failed)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: Scored(1.0, {"rule": "a"}), "evidence"),  # type: ignore[arg-type]
        (lambda: Abstained(None), "reason"),  # type: ignore[arg-type]
        (lambda: Failed(ValueError("x")), "error"),  # type: ignore[arg-type]
        (lambda: Scored(10**400), "value"),
    ],
)
def test_a_verdict_is_plain_data(make: Any, argument: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.argument == argument
