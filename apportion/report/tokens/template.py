"""Template drift: the messages, rendered and encoded again, are not the tokens that the sampler saw."""

from __future__ import annotations

import re
from collections.abc import Iterator

from apportion.report.tokens.compare import Difference
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
    for d in view.drifted:
        reply = _reply(view, d)
        kind = _kind(view, d, other, reply)
        if kind is not None:
            yield Hit(
                code=f"template-{kind}",
                turn=None if reply is None else reply.turn,
                index=d.start,
                recorded=view.around(d.start),
                instead=shown(
                    view.tokenizer, other[max(d.other_start - 8, 0) : d.other_start + 8], min(d.other_start, 8)
                ),
                tokens=max(d.stop - d.start, d.other_stop - d.other_start),
            )


def _reply(view: View, d: Difference) -> Reply | None:
    """The reply that a difference falls into; what is inserted in front of its first token belongs to it."""
    for reply in view.replies:
        if d.start < reply.stop and max(d.stop, d.start + 1) > reply.start:
            return reply
    return None


def _kind(view: View, d: Difference, other: list[int], reply: Reply | None) -> str | None:
    assert view.tokenizer is not None
    was, now = view.ids[d.start : d.stop].tolist(), other[d.other_start : d.other_stop]
    before, after = decode(view.tokenizer, was), decode(view.tokenizer, now)
    bos = view.scaffold.bos_id
    if d.start <= 1 and bos is not None and {*was, *now} == {bos}:
        return None
    if before == after:
        if view.scaffold.special & {*now} - {*was}:
            return "special-token"
        return None if reply is not None else "resplit"
    if not was and _EMPTY_THINKING.fullmatch(after):
        return "empty-thinking"
    if _THINKING.search(before) and not _THINKING.search(after):
        return "thinking-stripped"
    if reply is not None and _calls_tools(view, reply):
        return "tool-call"
    if not (before.strip() or after.strip()):
        return "whitespace"
    closing = view.scaffold.special - {*view.scaffold.opener}
    if all(one in closing or not decode(view.tokenizer, [one]).strip() for one in [*was, *now]):
        return "end-of-turn"
    return "inserted" if not was else "dropped" if not now else "changed"


def _calls_tools(view: View, reply: Reply) -> bool:
    """Whether the message of a reply holds tool calls; the last messages of the policy are those of the turns."""
    own = [message for message in view.trajectory.messages if message.get("role") == "assistant"]
    turns = view.trajectory.n_turns
    at = len(own) - turns + reply.turn
    return 0 <= at < len(own) and bool(own[at].get("tool_calls"))
