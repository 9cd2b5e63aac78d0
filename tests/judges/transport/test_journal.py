"""What is on disk: the journal of a run, the cache between runs, the cassette of a test."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import InvalidArgument, MissingInput
from apportion.judges.exchange import Response, Transport, TransportError
from apportion.judges.transport import (
    Allowance,
    Cache,
    Cassette,
    Journal,
    Journalled,
    Mock,
    Recording,
    Resumed,
    ask_all,
    connect,
)
from apportion.judges.transport.base import NotStored
from apportion.judges.transport.window import Window
from tests.judges.transport.said import Clock, ask


def texts(transport: Transport, *tags: str, close: bool = True) -> list[str]:
    async def run() -> list[str]:
        outcomes = await ask_all(transport, [ask(tag) for tag in tags])
        if close:
            await transport.aclose()
        return [one.text if isinstance(one, Response) else one.kind for one in outcomes]

    return asyncio.run(run())


def stacked(mock: Mock, path: Path) -> Resumed:
    journal = Journal(path, scope=mock.identity)
    return Resumed(Journalled(mock, journal), journal)


def says(request: object) -> Response:
    return Response(f"about {request.tag}", "length", 3, 2, "judge")  # type: ignore[attr-defined]


def test_a_second_run_asks_only_what_has_no_answer(tmp_path: Path) -> None:
    first, second = Mock(says), Mock(says)
    assert texts(stacked(first, tmp_path / "j"), "a", "b") == ["about a", "about b"]
    again = stacked(second, tmp_path / "j")
    assert texts(again, "a", "b", "c") == ["about a", "about b", "about c"]
    assert ([one.tag for one in second.asked], again.found) == (["c"], 2)


def test_an_answer_from_the_journal_says_so_and_is_otherwise_the_same(tmp_path: Path) -> None:
    transport = stacked(Mock(says), tmp_path / "j")
    fresh, stored = asyncio.run(ask_all(transport, [ask("a")] * 2))
    asyncio.run(transport.aclose())
    assert fresh == Response("about a", "length", 3, 2, "judge")
    assert stored == Response("about a", "length", 3, 2, "judge", cached=True)


def test_equal_requests_at_once_are_one_call(tmp_path: Path) -> None:
    mock = Mock(says, delay_s=0.001)
    assert texts(stacked(mock, tmp_path / "j"), *"aaaa") == ["about a"] * 4
    assert len(mock.asked) == 1


def test_failures_are_not_answers_and_not_in_flight(tmp_path: Path) -> None:
    assert texts(stacked(Mock([TransportError("timeout", "late")]), tmp_path / "j"), "a") == ["timeout"]
    journal = Journal(tmp_path / "j", scope="mock")
    assert (journal.answers, journal.unfinished) == (0, 0)
    journal.close()


def test_calls_in_flight_are_counted_when_they_repeat(tmp_path: Path) -> None:
    killed = Journal(tmp_path / "j", scope="mock")
    for tag in "abc":
        killed.asked(ask(tag).digest(), 30)
    asyncio.run(killed.answered(ask("b").digest(), says(ask("b"))))
    killed.close()
    journal = Journal(tmp_path / "j", scope="mock")
    assert journal.unfinished == 2
    texts(Resumed(Journalled(Mock(says), journal), journal), *"abd")
    assert journal.repeated == 1


def test_a_cancelled_call_is_not_in_flight(tmp_path: Path) -> None:
    async def run() -> None:
        transport = stacked(Mock(says, delay_s=9), tmp_path / "j")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(transport.ask(ask()), 0.01)
        await transport.aclose()

    asyncio.run(run())
    journal = Journal(tmp_path / "j", scope="mock")
    assert journal.unfinished == 0
    journal.close()


@settings(max_examples=25)
@given(st.floats(0, 1), st.sampled_from([b"", b"\0\0\0"]))
def test_a_journal_torn_anywhere_keeps_every_whole_answer(
    tmp_path_factory: pytest.TempPathFactory, share: float, tail: bytes
) -> None:
    path = tmp_path_factory.mktemp("torn") / "j"
    texts(stacked(Mock(says), path), *"abc")
    whole = path.read_bytes()
    kept = whole[: round(share * len(whole))] + tail
    path.write_bytes(kept)
    complete = kept.count(b"}}\n")
    mock = Mock(says)
    assert texts(stacked(mock, path), *"abc") == ["about a", "about b", "about c"]
    assert len(mock.asked) == 3 - complete
    reread = Journal(path, scope="mock")
    assert reread.answers == 3
    reread.close()


@pytest.mark.parametrize(
    "content",
    [
        b"hello\n",
        b'{"id": 1}\n{"id": 2}\n',
        b'{"journal": 1, "scope": "mock"}\nnonsense\n{"asked": "00", "at": 0, "tokens": 0}\n',
        b"[]\n",
    ],
)
def test_what_is_no_journal_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "j"
    path.write_bytes(content)
    with pytest.raises(InvalidArgument, match="line"):
        Journal(path, scope="mock")
    assert path.read_bytes() == content


def test_a_journal_of_another_server_or_process(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", scope="one")
    with pytest.raises(InvalidArgument, match="no other process"):
        Journal(tmp_path / "j", scope="one")
    journal.close()
    with pytest.raises(InvalidArgument, match=r"scope='two'.*'one'"):
        Journal(tmp_path / "j", scope="two")
    with pytest.raises(InvalidArgument, match="sync"):
        Journal(tmp_path / "j", scope="one", sync="always")


def test_a_full_disk_ends_the_run_and_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    transport = stacked(Mock(says), tmp_path / "j")
    texts(transport, "a", close=False)
    write = os.write

    def full(file: int, line: bytes) -> int:
        if b"answered" in bytes(line):
            write(file, bytes(line)[:9])
            raise OSError(28, "No space left on device")
        return write(file, line)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(NotStored, match="No space"):
        texts(transport, "b", close=False)
    monkeypatch.undo()
    assert texts(transport, "c") == ["about c"]
    assert texts(stacked(Mock([]), tmp_path / "j"), "a", "c") == ["about a", "about c"]


def test_sync_each_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    journal = Journal(tmp_path / "j", scope="mock", sync="each")
    texts(Journalled(Mock(says), journal), *"ab", close=False)
    assert len(synced) == 2
    journal.close()


def test_what_earlier_runs_spent_counts(tmp_path: Path) -> None:
    texts(connect(Mock(says), journal=tmp_path / "j"), *"ab")
    poor = connect(Mock(says), journal=tmp_path / "j", allowance=Allowance(tokens=40))
    assert texts(poor, *"abc", close=False) == ["about a", "about b", "budget"]
    assert poor.counts()["input_tokens"] == 6
    asyncio.run(poor.aclose())


def test_a_rate_limit_holds_through_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    began = 1e9
    for at in (0.0, 50.0, 70.0):
        monkeypatch.setattr(time, "time", lambda at=at: began + at)
        journal = Journal(tmp_path / "j", scope="mock")
        journal.asked(ask(str(at)).digest(), 30)
        journal.close()
    monkeypatch.setattr(time, "time", lambda: began + 75)
    journal = Journal(tmp_path / "j", scope="mock")
    assert journal.recent == [(25.0, 30), (5.0, 30)]
    slept: list[float] = []

    async def run() -> None:
        clock = Clock()
        window = Window(3, before=[(ago, 1) for ago, _ in journal.recent], clock=clock, sleep=clock.sleep)
        await window.take(1)
        await window.take(1)
        slept.extend(clock.slept)

    asyncio.run(run())
    assert slept == [35.0]
    journal.close()


def test_cache_keeps_answers_by_everything_that_changes_them(tmp_path: Path) -> None:
    def cache(mock: Mock, scope: str = "server") -> Cache:
        return Cache(mock, tmp_path / "c", scope=scope)

    assert texts(cache(Mock(says)), "a", "b", "a") == ["about a", "about b", "about a"]
    assert texts(cache(Mock([])), "a", "b") == ["about a", "about b"]
    other = Mock(says)
    texts(cache(other, "other"), "a")
    assert len(other.asked) == 1


def test_cache_does_not_keep_failures(tmp_path: Path) -> None:
    mock = Mock([TransportError("timeout", "late"), "7"])
    cache = Cache(mock, tmp_path / "c", scope="s")
    assert texts(cache, "a", close=False) == ["timeout"]
    assert texts(cache, "a") == ["7"]


def test_cache_forgets_what_was_used_longest_ago(tmp_path: Path) -> None:
    mock = Mock(lambda request: f"{request.tag} " + "x" * 1000)
    cache = Cache(mock, tmp_path / "c", scope="s", limit_bytes=60_000)
    for tag in map(str, range(100)):
        texts(cache, tag, close=False)
    texts(cache, "99", close=False)
    assert len(mock.asked) == 100
    texts(cache, "0")
    assert len(mock.asked) == 101
    rows, held, total = (
        sqlite3.connect(tmp_path / "c")
        .execute("SELECT count(*), sum(length(key) + length(response)), (SELECT bytes FROM total) FROM answers")
        .fetchone()
    )
    assert held == total <= 60_000
    assert rows > 15


def test_two_caches_on_one_file_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        caches = [Cache(Mock(says, delay_s=0.0005), tmp_path / "c", scope="s", limit_bytes=9000) for _ in range(3)]
        requests = [ask(str(index % 40)) for index in range(120)]
        for outcomes in await asyncio.gather(*(ask_all(cache, requests) for cache in caches)):
            assert [one.text for one in outcomes if isinstance(one, Response)] == [
                f"about {one.tag}" for one in requests
            ]
        for cache in caches:
            await cache.aclose()

    asyncio.run(run())


def test_a_file_that_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"not a database, but long enough to be looked at" * 30)
    with pytest.raises(InvalidArgument, match="path"):
        Cache(Mock([]), tmp_path / "c", scope="s")


def test_cassette_plays_what_was_recorded_and_nothing_else(tmp_path: Path) -> None:
    script = [Response("7", input_tokens=3), TransportError("refused", "no")]
    assert texts(Recording(Mock(script), tmp_path / "c"), "a", "b") == ["7", "refused"]
    cassette = Cassette(tmp_path / "c")
    assert texts(cassette, "a", close=False) == ["7"]
    assert cassette.unused == {ask("b").digest()}
    assert texts(cassette, "b", "a", close=False) == ["refused", "7"]
    assert not cassette.unused
    with pytest.raises(MissingInput, match=r"needs a recorded answer.*3 \+ 4\?"):
        texts(cassette, "c")
    with pytest.raises(FileExistsError):
        Recording(Mock([]), tmp_path / "c")


def test_a_cassette_with_two_takes_of_one_request_is_refused(tmp_path: Path) -> None:
    texts(Recording(Mock(says), tmp_path / "c"), "a", "a")
    (line,) = (tmp_path / "c").read_text().splitlines()
    (tmp_path / "d").write_text(line + "\n" + json.dumps({**json.loads(line), "response": {"text": "8"}}) + "\n")
    with pytest.raises(InvalidArgument, match="line 2 is a second"):
        Cassette(tmp_path / "d")


@pytest.mark.parametrize("line", ["x", "[]", "{}", '{"request": {"messages": [], "model": "m"}, "response": {}}'])
def test_bad_cassettes(tmp_path: Path, line: str) -> None:
    (tmp_path / "c").write_text(line + "\n")
    with pytest.raises(InvalidArgument, match="line 1"):
        Cassette(tmp_path / "c")
