"""How many tokens a request may take, before anybody counted them."""

from __future__ import annotations

from apportion.judges.exchange import Request

__all__ = ["tokens_at_most", "tokens_expected"]

# Role headers and separators of one message in the chat templates in use; a template that adds more is rare.
_TEMPLATE = 16
_BYTES_PER_TOKEN = 4


def _bytes(request: Request) -> int:
    return sum(len(message.content.encode("utf-8", "replace")) for message in request.messages)


def tokens_at_most(request: Request) -> tuple[int, int]:
    """Tokens of the question and of the answer that a request cannot exceed: (bytes + 16 per message, max_tokens * n).

    A byte-level tokenizer makes no more tokens than there are bytes; usually a quarter of that.

    Example:
        >>> from apportion.judges.exchange import Message, Request
        >>> tokens_at_most(Request((Message("user", "four"),), model="judge", max_tokens=10))
        (20, 10)
    """
    return _bytes(request) + _TEMPLATE * len(request.messages), request.max_tokens * request.n


def tokens_expected(request: Request) -> int:
    """Tokens that a server's own rate limit is likely to book: bytes / 4, 16 per message, and the longest answer.

    Example:
        >>> from apportion.judges.exchange import Message, Request
        >>> tokens_expected(Request((Message("user", "four"),), model="judge", max_tokens=10))
        27
    """
    return -(-_bytes(request) // _BYTES_PER_TOKEN) + _TEMPLATE * len(request.messages) + request.max_tokens * request.n
