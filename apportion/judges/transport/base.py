"""What all transports share: `Endpoint`, `Failure`, `Wrapper`."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

from apportion.errors import ApportionError, InvalidArgument
from apportion.judges.exchange import ErrorKind, Request, Response, Transport, TransportError

__all__ = ["Charged", "Endpoint", "Failure", "NotStored", "Wrapper", "at_least"]

Charged: TypeAlias = Literal["no", "perhaps"]


@runtime_checkable
class Endpoint(Transport, Protocol):
    """A transport that ends at a model.

    Attributes:
        identity: everything beside the request that changes its answers (address, way of asking). Stored answers are
            kept under it, so it holds no secret.
    """

    @property
    def identity(self) -> str:
        """What stored answers are kept under."""


class Failure(TransportError):
    """A `TransportError` that knows what an attempt to come should know.

    Attributes:
        retry_after: seconds after which the server wants to be asked again; None when it did not say.
        charged: "no" where the model cannot have worked on the request; "perhaps" otherwise.
    """

    def __init__(
        self, kind: ErrorKind, detail: str, *, retry_after: float | None = None, charged: Charged = "perhaps"
    ) -> None:
        super().__init__(kind, detail)
        self.retry_after = retry_after
        self.charged: Charged = charged

    def __reduce__(self) -> tuple[Any, ...]:
        return (_failure, (self.kind, self.detail, self.retry_after, self.charged))


def _failure(kind: ErrorKind, detail: str, retry_after: float | None, charged: Charged) -> Failure:
    return Failure(kind, detail, retry_after=retry_after, charged=charged)


class NotStored(ApportionError, OSError):
    """An answer came and could not be written down (a full disk). It ends the run, which would pay for it twice."""


class Wrapper:
    """A transport around a transport: closing it closes what it holds.

    Args:
        inner: what is asked.

    Raises:
        InvalidArgument: `inner` is no transport.
    """

    def __init__(self, inner: Transport) -> None:
        if not isinstance(inner, Transport):
            raise InvalidArgument("inner", inner, "a transport: async ask(request), async aclose()")
        self._inner = inner

    async def ask(self, request: Request) -> Response:
        """The answer of what is wrapped."""
        return await self._inner.ask(request)

    async def aclose(self) -> None:
        """Closes what is wrapped."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def at_least(name: str, value: float | None, low: float, *, whole: bool = False) -> None:
    """Raises `InvalidArgument` unless `value` is None or a number >= `low`; infinity is a number here, NaN is not."""
    if value is None:
        return
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not value >= low:
        raise InvalidArgument(name, value, f"a {'whole ' if whole else ''}number >= {low}")
