"""Decode-encode drift: a reply turned into text and back is not what was sampled."""

from __future__ import annotations

from collections.abc import Iterator

from apportion.report.tokens.compare import Difference, drift
from apportion.report.tokens.hits import Hit, shown
from apportion.report.tokens.tokenizer import decode, encode
from apportion.report.tokens.view import Reply, View

__all__ = ["round_trip"]

# Some tokenizers treat the first word of a text in their own way: so many tokens before a reply tell whether this one.
_CONTEXT = 4


def round_trip(view: View) -> Iterator[Hit]:
    """One hit per reply whose ids change, at the first token that does."""
    if view.tokenizer is None:
        return
    for reply in view.replies:
        ids = view.of(reply)
        text = decode(view.tokenizer, ids)
        back = encode(view.tokenizer, text)
        found = drift(ids, back)
        if found is None or _survives_in_context(view, reply):
            continue
        yield Hit(
            code=f"roundtrip-{_kind(text, decode(view.tokenizer, back), back, found, view.scaffold.special - {*ids})}",
            turn=reply.turn,
            index=reply.start + found.start,
            recorded=view.around(reply.start + found.start),
            instead=shown(view.tokenizer, back, found.other_start),
            tokens=found.stop - found.start,
        )


def _survives_in_context(view: View, reply: Reply) -> bool:
    assert view.tokenizer is not None
    ids: list[int] = view.ids[max(reply.start - _CONTEXT, 0) : reply.stop].tolist()
    size = reply.stop - reply.start
    return encode(view.tokenizer, decode(view.tokenizer, ids))[-size:] == ids[-size:]


def _kind(text: str, again: str, back: list[int], found: Difference, new: frozenset[int]) -> str:
    if new & {*back[found.other_start : found.other_stop]}:
        return "special-token"
    if "\ufffd" in text:
        return "bytes-lost"
    return "resplit" if text == again else "text-changed"
