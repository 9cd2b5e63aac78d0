"""The token that begins a row: once, not twice, and not never."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from apportion.errors import InvalidArgument
from apportion.report.tokens.compare import Ids

__all__ = ["Bos", "check_bos"]

Bos: TypeAlias = Literal["ok", "doubled", "missing"]


def check_bos(ids: Ids, *, bos_id: int) -> Bos:
    """Whether a row begins with exactly one beginning-of-sequence token.

    It looks at the ids alone. What a chat template's text seems to say about it does not count: the tokenizer may add
    one to the rendered text, or none.

    Args:
        ids: int[T], a whole row, prompt included.
        bos_id: the id of the token.

    Returns:
        "ok" for one, "doubled" for more, "missing" for none; an empty row is "missing".

    Raises:
        InvalidArgument: ids that are not a flat list.

    Example:
        >>> [check_bos(ids, bos_id=1) for ids in ([1, 5, 6], [1, 1, 5, 6], [5, 6])]
        ['ok', 'doubled', 'missing']
    """
    row = np.asarray(ids)
    if row.ndim != 1:
        raise InvalidArgument("ids", ids, "a flat list of token ids")
    if not row.size or row[0] != bos_id:
        return "missing"
    return "doubled" if row.size > 1 and row[1] == bos_id else "ok"
