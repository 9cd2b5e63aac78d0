"""How a judge is asked: servers, and the transports that wrap them.

    servers    OpenAITransport, VllmOffline, LocalTransport; without a model: Mock, Cassette
    wrappers   Timeout, Journalled, Budget, Limits, Retry, Pause, Cache, Resumed; Recording makes a cassette
    together   connect(server, ...) stacks them on a loop of their own (Hosted); ask_all, ask_each;
               Blocking(transport) is the synchronous face

Everything is an `apportion.judges.exchange.Transport`: `async ask(request)`, `async aclose()`.
"""

from __future__ import annotations

from apportion.judges.transport.allowance import Allowance
from apportion.judges.transport.ask_all import Outcome, ask_all, ask_each
from apportion.judges.transport.base import Endpoint, Failure, NotStored, Wrapper
from apportion.judges.transport.batched import Batched
from apportion.judges.transport.blocking import Blocking
from apportion.judges.transport.budget import Budget
from apportion.judges.transport.cache import Cache
from apportion.judges.transport.cassette import Cassette, Recording
from apportion.judges.transport.connect import Connection, connect
from apportion.judges.transport.hosted import Hosted
from apportion.judges.transport.journal import Journal
from apportion.judges.transport.journalled import Journalled, Resumed
from apportion.judges.transport.limits import Limits
from apportion.judges.transport.local import LocalTransport
from apportion.judges.transport.mock import Mock
from apportion.judges.transport.openai import OpenAITransport
from apportion.judges.transport.pause import EndpointDown, Pause
from apportion.judges.transport.retry import Retry
from apportion.judges.transport.timeout import Timeout
from apportion.judges.transport.vllm_offline import VllmOffline

__all__ = [
    "Allowance",
    "Batched",
    "Blocking",
    "Budget",
    "Cache",
    "Cassette",
    "Connection",
    "Endpoint",
    "EndpointDown",
    "Failure",
    "Hosted",
    "Journal",
    "Journalled",
    "Limits",
    "LocalTransport",
    "Mock",
    "NotStored",
    "OpenAITransport",
    "Outcome",
    "Pause",
    "Recording",
    "Resumed",
    "Retry",
    "Timeout",
    "VllmOffline",
    "Wrapper",
    "ask_all",
    "ask_each",
    "connect",
]
