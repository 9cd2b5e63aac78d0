"""The usual stack of wrappers around a server."""

from __future__ import annotations

import os

from apportion.judges.exchange import Transport
from apportion.judges.transport.allowance import Allowance
from apportion.judges.transport.base import Endpoint
from apportion.judges.transport.budget import Budget
from apportion.judges.transport.cache import Cache
from apportion.judges.transport.hosted import Hosted
from apportion.judges.transport.journal import Journal, Sync
from apportion.judges.transport.journalled import Journalled, Resumed
from apportion.judges.transport.limits import Limits
from apportion.judges.transport.pause import Pause
from apportion.judges.transport.retry import Retry
from apportion.judges.transport.timeout import Timeout

__all__ = ["Connection", "connect"]


class Connection(Hosted):
    """A server behind its wrappers, and what they counted. Made by `connect`, asked from any event loop."""

    def __init__(
        self,
        outermost: Transport,
        *,
        pause: Pause,
        retry: Retry,
        limits: Limits,
        budget: Budget,
        journal: Journal | None,
        resumed: Resumed | None,
        cache: Cache | None,
    ) -> None:
        super().__init__(outermost)
        self._pause, self._retry, self._limits, self._budget = pause, retry, limits, budget
        self._journal, self._resumed, self._cache = journal, resumed, cache

    def counts(self) -> dict[str, float]:
        """What happened so far, by name."""
        counts: dict[str, float] = {
            "input_tokens": self._budget.input_tokens,
            "output_tokens": self._budget.output_tokens,
            "money": self._budget.money,
            "over_budget": self._budget.refused,
            "retries": self._retry.retries,
            "outages": self._pause.outages,
            "most_in_flight": self._limits.most_in_flight,
        }
        if self._journal is not None and self._resumed is not None:
            counts |= {"from_journal": self._resumed.found, "repeated": self._journal.repeated}
        if self._cache is not None:
            counts["from_cache"] = self._cache.hits
        return counts


def connect(
    server: Endpoint,
    *,
    concurrency: int = 16,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
    timeout_s: float = 120.0,
    attempts: int = 5,
    first_wait_s: float = 1.0,
    total_s: float = 600.0,
    allowance: Allowance | None = None,
    journal: str | os.PathLike[str] | None = None,
    sync: Sync = "system",
    cache: str | os.PathLike[str] | None = None,
    cache_bytes: int = 2**30,
    give_up_after: int = 5,
    pause_s: float = 300.0,
    abstain_s: float = 600.0,
    probe_s: float = 10.0,
) -> Connection:
    """Stacks journal, cache, pause, retry, limits, budget and timeout around a server.

        Resumed( Cache( Pause( Retry( Limits( Budget( Journalled( Timeout( server ))))))))

    A stored answer waits for nothing; waiting for a retry holds no slot; only calls in flight hold budget; what is open
    in the journal was in flight, at most `concurrency` calls. All of it lives on a loop of its own (`Hosted`).

    Args:
        server: where the model is.
        concurrency: the most calls at once.
        requests_per_minute: see `Limits`.
        tokens_per_minute: see `Limits`.
        timeout_s: of one call.
        attempts: the most calls for one request, before a pause.
        first_wait_s: the longest wait before the second attempt; see `Retry`.
        total_s: seconds after which no attempt begins.
        allowance: see `Budget`; default: no limit, tokens are counted. A journal's earlier answers are booked.
        journal: the file of this run; default: none.
        sync: see `Journal`.
        cache: a file shared between runs; default: none.
        cache_bytes: the most that it keeps.
        give_up_after: requests in a row that fail, retries included, before the endpoint counts as failing.
        pause_s: seconds to wait for a failing endpoint; see `Pause`.
        abstain_s: seconds to go on without it after that, before `EndpointDown`.
        probe_s: seconds between two tries in the meantime.

    Raises:
        InvalidArgument: what one of the wrappers cannot use.
        MissingExtra: tenacity is not installed.

    Example:
        >>> from apportion.judges.exchange import Message, Request
        >>> from apportion.judges.transport import Blocking, Mock
        >>> with Blocking(connect(Mock(["7"]), concurrency=4)) as judge:
        ...     judge.ask(Request((Message("user", "3 + 4?"),), model="m")).text
        '7'
    """
    book = None if journal is None else Journal(journal, scope=server.identity, sync=sync)
    try:
        inner: Transport = Timeout(server, seconds=timeout_s)
        if book is not None:
            inner = Journalled(inner, book)
        budget = Budget(
            inner,
            allowance or Allowance(),
            input_tokens=0 if book is None else book.input_tokens,
            output_tokens=0 if book is None else book.output_tokens,
        )
        limits = Limits(
            budget,
            concurrency=concurrency,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            before=() if book is None else book.recent,
        )
        retry = Retry(limits, attempts=attempts, first_wait_s=first_wait_s, total_s=total_s)
        pause = Pause(retry, after=give_up_after, pause_s=pause_s, abstain_s=abstain_s, probe_s=probe_s)
        cached = None if cache is None else Cache(pause, cache, scope=server.identity, limit_bytes=cache_bytes)
        resumed = None if book is None else Resumed(cached or pause, book)
    except BaseException:
        if book is not None:
            book.close()
        raise
    return Connection(
        resumed or cached or pause,
        pause=pause,
        retry=retry,
        limits=limits,
        budget=budget,
        journal=book,
        resumed=resumed,
        cache=cached,
    )
