"""Where a mask begins and ends: the template's opener in front of a reply, the end token, what follows it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from apportion.report.tokens.compare import BoolArray
from apportion.report.tokens.hits import Hit
from apportion.report.tokens.view import Reply, View

__all__ = ["edges"]


def edges(view: View) -> Iterator[Hit]:
    """One hit per edge that is not where the opener and the end token say.

    opener | reply end | newline
           |  1 1   1  |            right
         1 |  1 1   0  |            shifted: one to the left, as for next-token predictions
       1 1 |  1 1   1  | 1          on the opener; behind the end
    """
    ends = sorted(view.scaffold.end_ids)
    scored = _scored_ends(view, ends)
    for reply in view.replies:
        early, behind = _early(view, reply), _behind(view, reply, ends)
        last = int(view.ids[reply.stop - 1])
        outside = last not in ends and reply.stop < view.ids.size and int(view.ids[reply.stop]) in ends
        late = not early and _opened_at(view, reply.start - 1)
        if (early == 1 and outside) or (late and behind == 1):
            yield _hit(view, "mask-shifted", reply, reply.start, 2)
            continue
        if early:
            yield _hit(view, "mask-on-opener", reply, reply.start, early)
        if behind:
            yield _hit(view, "mask-behind-end", reply, reply.stop - behind, behind)
        if outside:
            code = "end-outside-mask" if scored[reply.stop] else "end-not-trained"
            yield _hit(view, code, reply, reply.stop, 1)


def _hit(view: View, code: str, reply: Reply, index: int, tokens: int) -> Hit:
    return Hit(code=code, turn=reply.turn, index=index, recorded=view.around(index), tokens=tokens)


def _opened_at(view: View, start: int) -> bool:
    """Whether the template's opener ends right before an index."""
    n = len(view.scaffold.opener)
    return bool(n) and start >= n and tuple(view.ids[start - n : start].tolist()) == view.scaffold.opener


def _early(view: View, reply: Reply) -> int:
    """How many tokens of the opener the mask holds."""
    most = min(len(view.scaffold.opener), reply.stop - reply.start)
    return next((k for k in range(most, 0, -1) if _opened_at(view, reply.start + k)), 0)


def _behind(view: View, reply: Reply, ends: list[int]) -> int:
    """How many tokens of the mask come after its first end token."""
    found = np.flatnonzero(np.isin(view.ids[reply.start : reply.stop], ends))
    return reply.stop - reply.start - int(found[0]) - 1 if found.size else 0


def _scored_ends(view: View, ends: list[int]) -> BoolArray:
    """bool[P + T]: the mask leaves the token out and the sampler scored it, as it scored no observation."""
    found = np.zeros(view.ids.size, np.bool_)
    logps = view.trajectory.behaviour_logps
    if logps is None:
        return found
    scored = np.isfinite(logps) & (logps != 0)
    rest = ~view.policy[view.prompt :] & ~np.isin(view.ids[view.prompt :], ends)
    if not bool(scored[rest].any()):
        found[view.prompt :] = scored
    return found
