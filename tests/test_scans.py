"""Scans of ragged segments against plain loops. The rows that they are cut into must not show."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from apportion import scans

LENGTHS = st.lists(st.integers(0, 3) | st.integers(0, 70), min_size=1, max_size=9)
DISCOUNTS = st.sampled_from([0.0, 0.5, 0.99, 1.0])


def numbers(n: int, seed: int = 0) -> Tensor:
    return torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def loop(values: Tensor, lengths: list[int], discounts: list[float], window: int) -> Tensor:
    made: list[Tensor] = []
    for piece, discount in zip(torch.split(values, lengths), discounts, strict=True):
        power = torch.tensor(discount, dtype=torch.float64) ** torch.arange(window)
        made += [(piece[i : i + window] * power[: len(piece) - i]).sum() for i in range(len(piece))]
    return torch.stack(made) if made else values


def in_rows(values: Tensor, lengths: Tensor, discount: float | Tensor) -> Tensor:
    """What long inputs go through, whatever the length of these."""
    return scans.scan(values, scans.plan(lengths, values.numel()), discount)[0]


@given(LENGTHS, st.data())
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("scan", [scans.reverse_scan, in_rows])
def test_a_scan_is_the_loop(scan: object, each: bool, lengths: list[int], data: st.DataObject) -> None:
    values = numbers(sum(lengths))
    if not len(values):
        return
    drawn = data.draw(st.lists(DISCOUNTS, min_size=len(lengths), max_size=len(lengths)))
    discounts = drawn if each else [drawn[0]] * len(lengths)
    discount = torch.tensor(drawn, dtype=torch.float64) if each else drawn[0]
    got = scan(values, torch.tensor(lengths), discount)  # type: ignore[operator]
    torch.testing.assert_close(got, loop(values, lengths, discounts, len(values)), rtol=1e-12, atol=1e-12)


@given(LENGTHS, DISCOUNTS)
@pytest.mark.parametrize("each", [False, True])
def test_what_stands_beside_is_added_before_and_after(each: bool, lengths: list[int], discount: float) -> None:
    values, beside, sizes = numbers(sum(lengths)), numbers(sum(lengths), seed=1), torch.tensor(lengths)
    if not len(values):
        return
    each_discount = torch.full((len(lengths),), discount, dtype=torch.float64) if each else discount
    got, _ = scans.scan(values, sizes, each_discount, beside=beside, before=0.25, after=-1.25)
    expected = loop(values + 0.25 * beside, lengths, [discount] * len(lengths), len(values)) - 1.25 * beside
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@given(LENGTHS, DISCOUNTS, st.integers(0, 80))
def test_a_window_is_the_loop(lengths: list[int], discount: float, window: int) -> None:
    values = numbers(sum(lengths))
    got = scans.window_sum(values, torch.tensor(lengths), window, discount)
    expected = loop(values, lengths, [discount] * len(lengths), window) if window else torch.zeros_like(values)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@given(LENGTHS.filter(sum), st.data())
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("scan", [scans.reverse_scan, in_rows])
def test_nothing_crosses_a_border(scan: object, each: bool, lengths: list[int], data: st.DataObject) -> None:
    """Not even a NaN, nor a rounding: other segments are the same to the last bit, whatever stands in this one."""
    values, sizes = numbers(sum(lengths)), torch.tensor(lengths)
    owner = torch.repeat_interleave(sizes)
    hit = data.draw(st.integers(0, sum(lengths) - 1))
    discount = torch.full((len(lengths),), 0.9, dtype=torch.float64) if each else 0.9
    clean = scan(values, sizes, discount)  # type: ignore[operator]
    for poison in (float("nan"), float("inf"), 1e300):
        spoilt = scan(values.index_fill(0, torch.tensor([hit]), poison), sizes, discount)  # type: ignore[operator]
        others = owner != owner[hit]
        assert torch.equal(spoilt[others], clean[others])


@pytest.mark.parametrize("scan", [scans.reverse_scan, in_rows])
def test_long_segments_of_many_rows(scan: object) -> None:
    """Enough elements that the heads of the rows are cut into rows again."""
    lengths = torch.tensor([70_000, 0, 1, 33_000, 64, 32, 20_000])
    values = numbers(int(lengths.sum()))
    for discount in (1.0, 0.999):
        got = scan(values, lengths, discount)  # type: ignore[operator]
        for piece, done in zip(values.split(lengths.tolist()), got.split(lengths.tolist()), strict=True):
            power = torch.tensor(discount, dtype=torch.float64) ** torch.arange(len(piece))
            if len(piece):
                assert done[0].item() == pytest.approx((piece * power).sum().item(), rel=1e-10, abs=1e-10)
                assert done[-1].item() == piece[-1].item()


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.99995, 0.95, 0.3])
def test_float32_keeps_its_digits(discount: float, each: bool) -> None:
    lengths = torch.tensor([40_000, 5_000, 3_000])
    values = numbers(48_000).float()
    given_discount = torch.full((3,), discount, dtype=torch.float64) if each else discount
    got = scans.reverse_scan(values, lengths, given_discount)
    exact = scans.reverse_scan(values.double(), lengths, given_discount)
    assert got.dtype == torch.float32
    assert float((got - exact).abs().max() / exact.abs().max()) <= 1e-6


def test_a_long_segment_keeps_its_digits() -> None:
    values = torch.full((10_000,), 0.1, dtype=torch.float64)
    assert scans.reverse_scan(values, torch.tensor([10_000]))[0].item() == pytest.approx(1000.0, rel=1e-13)


@pytest.mark.parametrize("discount", [0.9, torch.tensor([0.9, 0.5, 1.0], dtype=torch.float64)])
def test_gradients_agree_with_differences(discount: float | Tensor) -> None:
    values, lengths = numbers(7).requires_grad_(), torch.tensor([4, 0, 3])
    assert torch.autograd.gradcheck(lambda v: scans.reverse_scan(v, lengths, discount), (values,))
    assert torch.autograd.gradgradcheck(lambda v: scans.reverse_scan(v, lengths, discount) ** 2, (values,))
    assert torch.autograd.gradcheck(lambda v: scans.window_sum(v, lengths, 2, discount), (values,))
    plan = scans.plan(lengths, 7)
    assert torch.autograd.gradcheck(lambda v: scans.reverse_scan(v, plan, discount), (values,))


def test_the_values_given_are_left_alone() -> None:
    values = numbers(70_000)
    before = values.clone()
    scans.reverse_scan(values, torch.tensor([70_000]), 0.9)
    assert torch.equal(values, before)


def test_nothing_to_scan() -> None:
    assert scans.reverse_scan(torch.zeros(0), torch.tensor([0, 0]), 0.5).tolist() == []
    assert scans.window_sum(torch.zeros(0), torch.tensor([0, 0]), 3).tolist() == []
