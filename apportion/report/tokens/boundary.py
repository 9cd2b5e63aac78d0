r"""Turn boundaries that a tokenizer merges: the end of what came before and the start of a reply become one token.

prompt   ... assistant \n        sampled   \n Sure        encoded together   ... assistant \n\n Sure
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apportion.report.tokens.hits import Hit, shown
from apportion.report.tokens.tokenizer import ChatTokenizer, decode, encode
from apportion.report.tokens.view import View

__all__ = ["boundaries"]

# Tokens on either side; when these do not survive a round trip alone, fewer are tried.
_SIDES = (8, 4, 2, 1)


def boundaries(view: View) -> Iterator[Hit]:
    """Recorded tokens that lie on both sides of a boundary, and boundaries that would not survive encoding."""
    if view.tokenizer is None:
        return
    for reply in view.replies:
        merged = _merged(view, reply.start)
        if merged is not None:
            yield Hit(code="boundary-merged", turn=reply.turn, index=merged, recorded=view.around(merged), tokens=1)
            continue
        for edge in (reply.start, reply.stop):
            joint = _joint(
                view.tokenizer, view.ids[:edge][-_SIDES[0] :].tolist(), view.ids[edge:][: _SIDES[0]].tolist()
            )
            if joint is not None:
                yield Hit(
                    code="boundary-merges",
                    turn=reply.turn,
                    index=edge,
                    recorded=view.around(edge),
                    instead=shown(view.tokenizer, *joint),
                    tokens=1,
                )


def _joint(tokenizer: ChatTokenizer, left: Sequence[int], right: Sequence[int]) -> tuple[list[int], int] | None:
    """The joint encoding and where it leaves the recorded one, if each side survives alone and both together do not."""
    for n in _SIDES if left and right else ():
        a, b = list(left[-n:]), list(right[:n])
        if _stable(tokenizer, a) and _stable(tokenizer, b):
            back = encode(tokenizer, decode(tokenizer, a + b))
            same = next((k for k, (x, y) in enumerate(zip(a + b, back, strict=False)) if x != y), len(back))
            return None if back == a + b else (back, same)
    return None


def _stable(tokenizer: ChatTokenizer, ids: list[int]) -> bool:
    return encode(tokenizer, decode(tokenizer, ids)) == ids


def _merged(view: View, start: int) -> int | None:
    """The index of a token that holds the last token of the opener and something of the reply, if there is one."""
    opener = list(view.scaffold.opener)
    if not opener or view.tokenizer is None:
        return None
    *rest, last = opener
    tail = decode(view.tokenizer, [last])
    # The mask may begin with that token or behind it.
    for at in (start, start - 1):
        if len(rest) <= at < view.ids.size and view.ids[at - len(rest) : at].tolist() == rest:
            text = decode(view.tokenizer, [int(view.ids[at])])
            if len(text) > len(tail) and text.startswith(tail):
                return at
    return None
