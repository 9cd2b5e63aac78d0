"""One connection for all the event loops of a run."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from apportion.judges.exchange import Response
from apportion.judges.transport import Hosted, Mock, OpenAITransport, ask_all, connect
from apportion.judges.transport.hosted import Home
from tests.judges.transport.said import ask, reply, serving
from tests.judges.transport.test_openai import GOOD, TLS


def test_a_connection_outlives_event_loops(tmp_path: Path) -> None:
    elsewhere = Home()
    server = serving(lambda _: [reply(json.dumps(GOOD).encode())])
    address = elsewhere.begin(server.__aenter__()).result()
    files = {"journal": tmp_path / "j", "cache": tmp_path / "c"}
    connection = connect(OpenAITransport(address, tls=TLS), concurrency=2, requests_per_minute=1000, **files)
    for step in range(3):
        outcomes = asyncio.run(ask_all(connection, [ask(f"{step} {index}") for index in range(9)]))
        assert [one.text for one in outcomes if isinstance(one, Response)] == ["7"] * 9
    assert connection.counts()["most_in_flight"] == 2
    asyncio.run(connection.aclose())
    elsewhere.begin(server.__aexit__(None, None, None)).result()
    elsewhere.close()


def test_giving_up_on_one_loop_cancels_on_the_other() -> None:
    mock = Mock(["7"], delay_s=60)
    judge = Hosted(mock)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(judge.ask(ask()), 0.05))
    limit = time.monotonic() + 5
    while mock.in_flight and time.monotonic() < limit:
        time.sleep(0.005)
    assert mock.in_flight == 0
    asyncio.run(judge.aclose())


def test_a_home_that_was_never_used_closes() -> None:
    Home().close()
