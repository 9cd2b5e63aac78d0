"""Two rows of token ids side by side: where they part, what changed there, and where they meet again.

    recorded     7 | 1 2 | 9          differ at index 1: [1, 2] on one side, [3] on the other
    rerendered   7 |  3  | 9

Only `recorded` tokens were seen by the sampler. Nothing here encodes: the rows are what the caller has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from apportion.errors import InvalidArgument

__all__ = ["Difference", "blocks", "carry_mask", "common_prefix", "differences", "drift", "refined", "supervised_ids"]

Ids: TypeAlias = Sequence[int] | npt.NDArray[np.int64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

# So many equal tokens in a row say that two rows run together again.
_ANCHOR = 8
# How far ahead they are looked for. A wider window is only tried after more tokens than the last one held had to be
# skipped, so the work stays linear in the length of the rows.
_WINDOWS = (64, 512, 4096, 32_768, 262_144)
# Blocks up to this size are compared token by token, unless more pairs of tokens than this are equal: what repeats
# itself over and over costs the square of the pairs.
_FINE = 256
_PAIRS = 4_096


@dataclass(frozen=True, slots=True)
class Difference:
    """recorded[start:stop] became rerendered[other_start:other_stop]; either may be empty."""

    start: int
    stop: int
    other_start: int
    other_stop: int


def common_prefix(a: Ids, b: Ids) -> int:
    """Length of the longest common prefix of two rows of token ids.

        n = max { k : a[:k] = b[:k] }

    Args:
        a: int[A].
        b: int[B].

    Returns:
        Between 0 and min(A, B); empty rows give 0.

    Raises:
        InvalidArgument: a row that is not a flat list of whole numbers.

    Example:
        >>> common_prefix([5, 6, 198], [5, 6, 271, 40])
        2
    """
    return _agree(_row("a", a), _row("b", b), 0, 0)


def supervised_ids(
    prompt_ids: Ids, full_ids: Ids, *, on_mismatch: Literal["refuse", "common-prefix"] = "refuse"
) -> IntArray:
    """The tokens after the prompt, without trusting its length.

        supervised = full[common_prefix(prompt, full):]

    Counting `len(full) - len(prompt)` from the end is wrong as soon as the tokenizer merges the end of the prompt with
    the start of the answer: the first token of the answer is then never trained.

    Args:
        prompt_ids: int[P], the prompt encoded alone.
        full_ids: int[F], prompt and answer encoded together.
        on_mismatch: what to do when the prompt is not a prefix of the whole. "refuse" raises. "common-prefix" starts at
            the first token that differs, which is right where a merge is the reason, and trains a token that holds the
            end of the prompt too.

    Returns:
        int[F - n] with n the length of the common prefix.

    Raises:
        InvalidArgument: the prompt is not a prefix of the whole under "refuse"; the message has the first differing
            index.

    Example:
        >>> supervised_ids([5, 6, 198], [5, 6, 271, 40, 99], on_mismatch="common-prefix").tolist()
        [271, 40, 99]
        >>> supervised_ids([1, 2, 3], [1, 2, 9, 4])
        Traceback (most recent call last):
            ...
        apportion.errors.InvalidArgument: full_ids=[1, 2, 9, 4]: expected a row that starts with prompt_ids; first
        difference at index 2
    """
    prompt, full = _row("prompt_ids", prompt_ids), _row("full_ids", full_ids)
    if on_mismatch not in ("refuse", "common-prefix"):
        raise InvalidArgument("on_mismatch", on_mismatch, "'refuse' or 'common-prefix'")
    n = _agree(prompt, full, 0, 0)
    if n < prompt.size and on_mismatch == "refuse":
        raise InvalidArgument(
            "full_ids", full.tolist(), f"a row that starts with prompt_ids; first difference at index {n}"
        )
    return full[n:]


def drift(recorded: Ids, rerendered: Ids) -> Difference | None:
    """The first place at which a row that was rendered or encoded again is not what was recorded.

    Args:
        recorded: int[R], the ids that the sampler saw and returned.
        rerendered: int[S], the ids of a second rendering or encoding.

    Returns:
        The first difference, up to where both rows run together again; None for equal rows.

    Raises:
        InvalidArgument: a row that is not a flat list of whole numbers.

    Example:
        >>> drift([7, 1, 2, 9], [7, 3, 9])
        Difference(start=1, stop=3, other_start=1, other_stop=2)
        >>> drift([7, 1], [7, 1]) is None
        True
    """
    return next(differences(recorded, rerendered), None)


def carry_mask(recorded: Ids, mask: Sequence[int] | BoolArray, rerendered: Ids) -> BoolArray:
    """The mask of a recorded row on a row that was rendered again: what was inserted has none.

    A token that the template put in front of an answer was never sampled, has no behaviour log-prob, and must not be
    trained. A token that changed is not the one that was sampled either.

    Args:
        recorded: int[R].
        mask: bool[R], the policy sampled this token.
        rerendered: int[S].

    Returns:
        bool[S], True where a sampled token stands unchanged.

    Raises:
        InvalidArgument: a mask that does not have R entries.

    Example:
        >>> carry_mask([60, 61, 99], [1, 1, 1], [50, 51, 60, 61, 99]).tolist()
        [False, False, True, True, True]
    """
    a, b = _row("recorded", recorded), _row("rerendered", rerendered)
    given = np.asarray(mask, dtype=np.bool_)
    if given.shape != a.shape:
        raise InvalidArgument("mask", list(mask), f"one entry for each of the {a.size} recorded tokens")
    carried = np.zeros(b.size, np.bool_)
    for x, y, length in _matches(a, b):
        carried[y : y + length] = given[x : x + length]
    return carried


def differences(recorded: Ids, rerendered: Ids) -> Iterator[Difference]:
    """Every difference between two rows, in order; time and memory grow with their length and no faster.

    Example:
        >>> [(d.start, d.stop) for d in differences([1, 2, 3], [1, 9, 2, 3, 4])]
        [(1, 1), (3, 3)]
    """
    a, b = _row("recorded", recorded), _row("rerendered", rerendered)
    for block in blocks(a, b):
        yield from refined(a, b, block)


def blocks(a: IntArray, b: IntArray) -> Iterator[Difference]:
    """The stretches in which two rows differ, each up to where they run together for some tokens again."""
    i = j = 0
    while True:
        same = _agree(a, b, i, j)
        i, j = i + same, j + same
        if i == a.size and j == b.size:
            return
        x, y = _meet(a, b, i, j)
        yield Difference(i, x, j, y)
        i, j = x, y


def refined(a: IntArray, b: IntArray, block: Difference) -> Iterator[Difference]:
    """The differences inside a block, token by token; a large one, or one that repeats itself, stays as it is."""
    i, j = block.start, block.other_start
    if max(block.stop - i, block.other_stop - j) > _FINE:
        yield block
        return
    left, right = a[i : block.stop].tolist(), b[j : block.other_stop].tolist()
    ours, theirs = Counter(left), Counter(right)
    if sum(n * theirs[token] for token, n in ours.items()) > _PAIRS:
        yield block
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag != "equal":
            yield Difference(i + i1, i + i2, j + j1, j + j2)


def _matches(a: IntArray, b: IntArray) -> Iterator[tuple[int, int, int]]:
    """The stretches that are equal, as (start in a, start in b, length)."""
    i = j = 0
    for d in differences(a, b):
        yield i, j, d.start - i
        i, j = d.stop, d.other_stop
    yield i, j, a.size - i


def _row(name: str, ids: Ids) -> IntArray:
    row = np.asarray(ids)
    if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
        raise InvalidArgument(name, ids, "a flat list of token ids")
    return row.astype(np.int64)


def _agree(a: IntArray, b: IntArray, i: int, j: int) -> int:
    """Number of equal tokens from a[i] and b[j] on."""
    n, block, same = min(a.size - i, b.size - j), 1024, 0
    while same < n:
        length = min(block, n - same)
        unequal = np.flatnonzero(a[i + same : i + same + length] != b[j + same : j + same + length])
        if unequal.size:
            return same + int(unequal[0])
        same += length
    return n


def _meet(a: IntArray, b: IntArray, i: int, j: int) -> tuple[int, int]:
    """The nearest (x, y) with x >= i, y >= j from which both rows have the same next tokens, or both end."""
    for window in _WINDOWS:
        left, right = _grams(a, i, window), _grams(b, j, window)
        first = {gram: y for y, gram in reversed(list(enumerate(right)))}
        best: tuple[int, int] | None = None
        for x, gram in enumerate(left):
            if best is not None and x >= sum(best):
                break
            y = first.get(gram)
            if y is not None and (best is None or x + y < sum(best)):
                best = (x, y)
        if best is not None:
            return i + best[0], j + best[1]
    return a.size, b.size


def _grams(row: IntArray, start: int, window: int) -> list[tuple[int | None, ...]]:
    # Behind the last token there is nothing, and nothing equals nothing: both rows meet at their ends.
    tokens: list[int | None] = [*row[start : start + window + _ANCHOR].tolist(), *[None] * _ANCHOR]
    stops = min(window, row.size - start) + 1
    return [tuple(tokens[k : k + _ANCHOR]) for k in range(stops)]
