"""Masks in the right place: up to the first end token, and one to the left where a loss looks at the next token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from apportion.errors import InvalidArgument
from apportion.report.tokens.compare import BoolArray, Ids

__all__ = ["end_mask", "next_token_mask"]


def end_mask(ids: Ids, *, end_ids: Sequence[int], pad_id: int | None = None) -> BoolArray:
    """Which tokens of a padded reply the policy wrote: everything up to the first end token, and that one too.

        mask[t] = 1  if no id before t is in end_ids  and  t is not part of a pad run that reaches the end

    Args:
        ids: int[T], one reply with whatever fills it up behind its end.
        end_ids: every id that ends a reply, not only the tokenizer's own.
        pad_id: what fills up a reply that has no end token. It may be one of `end_ids`: then the first one is the end,
            and a reply that was cut off cannot be told from one that ended, so cut it to its length beforehand.

    Returns:
        bool[T]. A reply without an end token is kept whole up to its padding.

    Raises:
        InvalidArgument: no end ids, or ids that are not a flat list.

    Example:
        >>> end_mask([5, 6, 12, 8, 8], end_ids=[11, 12, 13]).tolist()
        [True, True, True, False, False]
        >>> [end_mask([5, 6, 2, 2], end_ids=[2], pad_id=pad).tolist() for pad in (0, 2)]
        [[True, True, True, False], [True, True, True, False]]
        >>> end_mask([5, 6, 0, 0], end_ids=[2], pad_id=0).tolist()
        [True, True, False, False]
    """
    row = np.asarray(ids)
    if row.ndim != 1:
        raise InvalidArgument("ids", ids, "a flat list of token ids")
    if not len(end_ids):
        raise InvalidArgument("end_ids", end_ids, "at least one id that ends a reply")
    ends = np.flatnonzero(np.isin(row, list(end_ids)))
    if ends.size:
        length = int(ends[0]) + 1
    else:
        written = np.flatnonzero(row != pad_id) if pad_id is not None else np.arange(row.size)
        length = int(written[-1]) + 1 if written.size else 0
    return np.arange(row.size) < length


def next_token_mask(mask: Sequence[int] | BoolArray) -> BoolArray:
    """A mask over T tokens as the mask over the T - 1 predictions that a next-token loss makes.

        next[t] = mask[t + 1]        prediction t is about token t + 1

    Using `mask[:-1]` instead is off by one: the first token of every reply is never learned, and the token that follows
    the reply is.

    Args:
        mask: bool[T], the token belongs to the reply.

    Returns:
        bool[T - 1] with as many trained predictions as there are trained tokens.

    Raises:
        InvalidArgument: no tokens, or a mask on the first one, which nothing predicts.

    Example:
        >>> next_token_mask([0, 0, 0, 1, 1]).astype(int).tolist()
        [0, 0, 1, 1]
    """
    given: npt.NDArray[np.bool_] = np.asarray(mask, dtype=np.bool_)
    if given.ndim != 1 or not given.size or given[0]:
        raise InvalidArgument("mask", list(mask), "at least one token, and 0 on the first: nothing predicts it")
    return given[1:]
