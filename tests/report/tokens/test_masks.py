"""Where a mask ends, and what it is over."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.report.tokens import check_bos, end_mask, next_token_mask


def test_any_of_several_end_ids_ends_a_reply() -> None:
    assert end_mask([5, 6, 12, 8, 8], end_ids=[11, 12, 13]).astype(int).tolist() == [1, 1, 1, 0, 0]


@pytest.mark.parametrize("pad", [0, 2])
def test_padding_with_the_end_id_hides_no_end(pad: int) -> None:
    assert end_mask([5, 6, 2, 2, 2], end_ids=[2], pad_id=pad).astype(int).tolist() == [1, 1, 1, 0, 0]


def test_a_reply_without_an_end_is_kept_up_to_its_padding() -> None:
    assert end_mask([5, 0, 6, 0], end_ids=[2], pad_id=0).astype(int).tolist() == [1, 1, 1, 0]
    assert end_mask([5, 6], end_ids=[2]).all()
    assert not end_mask([0, 0], end_ids=[2], pad_id=0).any()
    assert end_mask([], end_ids=[2]).size == 0


def test_an_end_needs_an_id_and_a_flat_row() -> None:
    with pytest.raises(InvalidArgument, match="end_ids"):
        end_mask([1], end_ids=[])
    with pytest.raises(InvalidArgument, match="flat"):
        end_mask([[1]], end_ids=[1])  # type: ignore[list-item]


def test_a_mask_over_predictions_is_the_one_over_tokens_without_its_first() -> None:
    assert next_token_mask([0, 0, 0, 1, 1]).astype(int).tolist() == [0, 0, 1, 1]


@given(st.lists(st.booleans(), max_size=20))
def test_every_trained_token_has_its_prediction(rest: list[bool]) -> None:
    assert next_token_mask([False, *rest]).sum() == np.sum(rest, dtype=int)


@pytest.mark.parametrize("mask", [[], [1, 0], [[0, 1]]])
def test_nothing_predicts_the_first_token(mask: list[int]) -> None:
    with pytest.raises(InvalidArgument, match="mask"):
        next_token_mask(mask)


def test_one_beginning_and_no_more() -> None:
    states = [check_bos(ids, bos_id=1) for ids in ([1, 1, 5, 6], [1, 5, 6], [5, 6], [], [1])]
    assert states == ["doubled", "ok", "missing", "missing", "ok"]
    with pytest.raises(InvalidArgument, match="flat"):
        check_bos([[1]], bos_id=1)  # type: ignore[list-item]
