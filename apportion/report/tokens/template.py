"""Template drift: the messages, rendered and encoded again, are not the tokens that the sampler saw."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from apportion.report.tokens.compare import Difference, IntArray, blocks, refined
from apportion.report.tokens.hits import Hit, shown
from apportion.report.tokens.tokenizer import decode
from apportion.report.tokens.view import Reply, View

__all__ = ["template_drift"]

_EMPTY_THINKING = re.compile(r"\s*<(think|thinking)>\s*</\1>\s*")
_THINKING = re.compile(r"</?(think|thinking)>")


def template_drift(view: View) -> Iterator[Hit]:
    """One hit per difference, with its kind.

    Differences that only cut the same text differently inside a reply are the round trip's business, and a missing or
    doubled first token that of `check_bos`.
    """
    if isinstance(view.rendering, str):
        yield Hit(code="template-refuses", recorded=view.rendering[:200])
        return
    if view.rendering is None or view.tokenizer is None:
        return
    other = view.rendering.tolist()
    for block in blocks(view.ids, view.rendering):
        for d, kind in _kinds(view, view.rendering, block):
            reply = view.reply_at(d.start, d.stop)
            yield Hit(
                code=f"template-{kind}",
                turn=None if reply is None else reply.turn,
                index=d.start,
                recorded=view.around(d.start),
                instead=shown(view.tokenizer, other, d.other_start),
                tokens=max(d.stop - d.start, d.other_stop - d.other_start),
            )


def _kinds(view: View, other: IntArray, block: Difference) -> Iterator[tuple[Difference, str]]:
    """A block of one text is one difference in the tokens alone; any other is looked at token by token."""
    cut = _same_text(view, other, block)
    if cut is not None:
        new = {*cut} - {*view.ids[block.start : block.stop].tolist()}
        if new & view.scaffold.special:
            yield block, "special-token"
        elif view.reply_at(block.start, block.stop) is None:
            yield block, "resplit"
        return
    for d in refined(view.ids, other, block):
        # What one row has behind the end of the other was never compared with anything.
        if d.start < view.ids.size and (d.other_start < other.size or d.stop < view.ids.size):
            kind = _kind(view, d, other[d.other_start : d.other_stop].tolist(), view.reply_at(d.start, d.stop))
            if kind is not None:
                yield d, kind


def _same_text(view: View, other: IntArray, block: Difference) -> list[int] | None:
    """The rendering's ids for the block's text, if it has that text; where one row ends, it may have less or more."""
    assert view.tokenizer is not None
    was = view.ids[block.start : block.stop].tolist()
    now: list[int] = other[block.other_start : block.other_stop].tolist()
    before, after = decode(view.tokenizer, was), decode(view.tokenizer, now)
    if before == after or (block.other_stop == other.size and now and before.startswith(after)):
        return now
    if block.stop == view.ids.size and was and after.startswith(before):
        tokenizer = view.tokenizer
        return now[: bisect_left(range(len(now)), len(before), key=lambda k: len(decode(tokenizer, now[:k])))]
    return None


def _kind(view: View, d: Difference, now: list[int], reply: Reply | None) -> str | None:
    assert view.tokenizer is not None
    was = view.ids[d.start : d.stop].tolist()
    before, after = decode(view.tokenizer, was), decode(view.tokenizer, now)
    bos = view.scaffold.bos_id
    if d.start <= 1 and bos is not None and {*was, *now} == {bos}:
        return None
    if not was and _EMPTY_THINKING.fullmatch(after):
        return "empty-thinking"
    if _THINKING.search(before) and not _THINKING.search(after):
        return "thinking-stripped"
    if reply is not None and reply.turn in view.calling:
        return "tool-call"
    if not (before.strip() or after.strip()):
        return "whitespace"
    closing = view.scaffold.special - {*view.scaffold.opener}
    if all(one in closing or not decode(view.tokenizer, [one]).strip() for one in [*was, *now]):
        return "end-of-turn"
    return "inserted" if not was else "dropped" if not now else "changed"
