"""Whose text the mask trains: tokens of other roles inside it, replies outside it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from apportion.report.tokens.hits import Hit
from apportion.report.tokens.view import View

__all__ = ["roles"]


def roles(view: View) -> Iterator[Hit]:
    """Replies that hold the content of a tool's, a user's or a system's message, and replies that are not trained.

    A token that merely opens another role is no fault: where a format has no end token, it is what the policy samples
    to stop. Only contents count, and who wrote a token is what the mask says, never where it stands.
    """
    for reply in view.replies:
        inside = np.flatnonzero(view.foreign[reply.start : reply.stop] >= 0)
        if inside.size:
            index = reply.start + int(inside[0])
            yield Hit(
                code="mask-on-observation",
                turn=reply.turn,
                index=index,
                recorded=view.around(index),
                tokens=inside.size,
            )
    if view.replies:
        yield from _untrained(view)


def _untrained(view: View) -> Iterator[Hit]:
    ends = np.flatnonzero(np.isin(view.ids, list(view.scaffold.end_ids)) | (view.foreign >= 0))
    trained = np.concatenate(([0], np.cumsum(view.policy)))
    for start in _opened(view):
        k = int(np.searchsorted(ends, start))
        stop = int(ends[k]) if k < ends.size else view.ids.size
        if stop > start and trained[stop] == trained[start]:
            yield Hit(code="reply-outside-mask", index=start, recorded=view.around(start), tokens=stop - start)


def _opened(view: View) -> Iterator[int]:
    """Where a reply begins in the response according to the template's opener."""
    opener = np.asarray(view.scaffold.opener, np.int64)
    if not opener.size or view.ids.size <= opener.size:
        return
    windows = np.lib.stride_tricks.sliding_window_view(view.ids, opener.size)
    for at in np.flatnonzero((windows == opener).all(axis=1)).tolist():
        # An opener inside somebody's message is text that a tool or a user wrote.
        if at + opener.size >= view.prompt and view.foreign[at] < 0:
            yield at + opener.size
