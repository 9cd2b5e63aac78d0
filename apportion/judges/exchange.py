"""What is said to a judge and what comes back: `Request`, `Response`, `TransportError`, `Transport`.

    prompt builder -> Request -> Transport (cache, retry, budget, limits, a server) -> Response -> parser -> verdict

Everything that changes an answer is a field of the request and enters its digest, so that an answer may be stored
under it; `tag` tells two equal requests of k samples apart and enters too.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from apportion.errors import ApportionError, InvalidArgument

__all__ = ["ErrorKind", "Finish", "Message", "Request", "Response", "Role", "Transport", "TransportError"]

Role: TypeAlias = Literal["system", "user", "assistant"]
Finish: TypeAlias = Literal["stop", "length", "refused", "other"]
ErrorKind: TypeAlias = Literal["timeout", "rate-limited", "unavailable", "refused", "budget", "bad-reply"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat.

    Attributes:
        role: "system", "user" or "assistant".
        content: its text.
    """

    role: Role
    content: str

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise InvalidArgument("role", self.role, f"one of {', '.join(get_args(Role))}")
        if not isinstance(self.content, str):
            raise InvalidArgument("content", self.content, "text")


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model.

    Attributes:
        messages: the chat, at least one message.
        model: what the server calls the model.
        temperature: >= 0; 0 = greedy.
        max_tokens: the longest answer, in tokens, >= 1.
        seed: of the sampling, where the server takes one; None = the server's own.
        schema: a JSON schema that the answer must follow, where the server supports it.
        choices: the only answers allowed, where the server supports it; not together with a schema.
        n: how many answers the server is asked for; the k samples of a judge are k requests with n = 1.
        tag: tells otherwise equal requests apart ("sample 3"); part of the digest.

    Raises:
        InvalidArgument: no messages, no model, a number out of its range, a schema that is not JSON, or schema and
            choices together.

    Example:
        >>> ask = Request((Message("user", "Is 2 + 2 = 4?"),), model="judge", choices=("yes", "no"))
        >>> ask.digest() == Request(ask.messages, model="judge", choices=("yes", "no")).digest()
        True
        >>> ask.digest() == Request(ask.messages, model="judge").digest()
        False
    """

    messages: tuple[Message, ...]
    model: str
    temperature: float = 0.0
    max_tokens: int = 1024
    seed: int | None = None
    schema: Mapping[str, Any] | None = None
    choices: tuple[str, ...] | None = None
    n: int = 1
    tag: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", tuple(self.messages))
        if not self.messages or not all(isinstance(one, Message) for one in self.messages):
            raise InvalidArgument("messages", self.messages, "at least one Message")
        if not isinstance(self.model, str) or not self.model:
            raise InvalidArgument("model", self.model, "the name of a model")
        number = isinstance(self.temperature, (int, float)) and not isinstance(self.temperature, bool)
        if not number or not math.isfinite(self.temperature) or self.temperature < 0:
            raise InvalidArgument("temperature", self.temperature, "a finite number >= 0")
        for name in ("max_tokens", "n"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidArgument(name, value, "a whole number >= 1")
        if self.seed is not None and (not isinstance(self.seed, int) or isinstance(self.seed, bool)):
            raise InvalidArgument("seed", self.seed, "a whole number, or None")
        if self.choices is not None:
            object.__setattr__(self, "choices", tuple(self.choices))
            if not self.choices or not all(isinstance(one, str) and one for one in self.choices):
                raise InvalidArgument("choices", self.choices, "at least one text, or None")
            if self.schema is not None:
                raise InvalidArgument("choices", self.choices, "a schema or choices, not both")
        self._canonical()

    def _canonical(self) -> str:
        try:
            return json.dumps(asdict(self), sort_keys=True, ensure_ascii=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise InvalidArgument("schema", self.schema, "a JSON schema made of plain JSON values") from None

    def digest(self) -> str:
        """SHA-256, in hexadecimal, over every field: what an answer is stored under."""
        return hashlib.sha256(self._canonical().encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Response:
    """What a model answered.

    Attributes:
        text: the answer; "" where the server gave none.
        finish: "stop", "length" (cut off at max_tokens), "refused" (a content filter), or "other".
        input_tokens: tokens of the question, as the server counted them; None when it did not say.
        output_tokens: tokens of the answer; None when it did not say.
        model: which model answered, as the server calls it.
        cached: it was stored from before; nothing was paid.
    """

    text: str
    finish: Finish = "stop"
    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str = ""
    cached: bool = False


class TransportError(ApportionError, RuntimeError):
    """No answer came. Observing turns it into `Failed`; it never becomes a number.

    Attributes:
        kind: "timeout", "rate-limited", "unavailable", "refused", "budget" or "bad-reply".
        detail: what happened, in words.

    Example:
        >>> str(TransportError("timeout", "no answer within 30 s"))
        'timeout: no answer within 30 s'
    """

    def __init__(self, kind: ErrorKind, detail: str) -> None:
        self.kind: ErrorKind = kind
        self.detail = detail
        super().__init__(f"{kind}: {detail}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.kind, self.detail))


@runtime_checkable
class Transport(Protocol):
    """Whatever carries a request to a model and brings the answer back."""

    async def ask(self, request: Request) -> Response:
        """The answer, or `TransportError`."""

    async def aclose(self) -> None:
        """Lets go of connections; asking afterwards is an error of the caller."""
