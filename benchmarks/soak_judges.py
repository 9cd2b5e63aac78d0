"""Many judgements through a server that delays, drops, limits, lies and dies, in a run that is killed on the way.

    python benchmarks/soak_judges.py --judgements 20000 --kills 2

Three processes: this one supervises; one serves (and counts what it saw); one judges and is killed with SIGKILL at even
shares of the way, then started again. Exits with an error when one of these does not hold:

- every judgement ends exactly once, as an answer or a failure, and every answer is the right one;
- the server never saw more calls at once than the limit, nor more in any minute than allowed;
- an answer that was in the journal when the run was killed was never asked for again, and at most `concurrency` calls
  per kill were asked again without need;
- memory of the judging process is flat from a quarter of the way on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from pathlib import Path

ADDRESS = "http://127.0.0.1:{port}/v1"
TIMEOUT_S = 2.0
WINDOW_S = 60.0
SLACK_MIB = 24.0


class Server:
    """Each call draws its fate; one in `death_every` calls takes the whole server down for half a second."""

    def __init__(self, folder: Path, seed: int, death_every: int) -> None:
        self.draw = random.Random(seed)
        self.folder = folder
        self.death_every = death_every
        self.calls: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.fates: Counter[str] = Counter()
        self.writers: set[asyncio.StreamWriter] = set()
        self.asking: set[asyncio.StreamReader] = set()
        self.times: deque[float] = deque()
        self.most = self.most_in_window = self.deaths = self.seen = 0
        self.port = 0
        self.server: asyncio.Server | None = None

    async def start(self) -> None:
        self.server = await asyncio.start_server(self.connection, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def die(self) -> None:
        assert self.server is not None
        if not self.server.is_serving():
            return
        self.deaths += 1
        self.server.close()
        for writer in list(self.writers):
            writer.transport.abort()
        await asyncio.sleep(0.5)
        await self.start()

    def stats(self) -> dict[str, object]:
        return {
            "most": self.most,
            "most_in_window": self.most_in_window,
            "deaths": self.deaths,
            "seen": self.seen,
            "answered": sum(self.answered.values()),
            "twice": sum(count - 1 for count in self.answered.values() if count > 1),
            "fates": dict(self.fates),
        }

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            while await self.call(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    async def call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET /stats"):
            writer.write(page(json.dumps(self.stats()).encode()))
        elif head.startswith(b"GET /calls"):
            writer.write(page(json.dumps(self.calls).encode()))
        else:
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            body = json.loads(await reader.readexactly(length))
            self.asking.add(reader)
            # Whoever was killed or gave up has hung up: that call is over, though this end still works on it.
            await asyncio.sleep(0)
            self.most = max(self.most, sum(not one.at_eof() for one in self.asking))
            try:
                return await self.judge(body["messages"][-1]["content"], writer)
            finally:
                self.asking.discard(reader)
        await writer.drain()
        return True

    async def judge(self, name: str, writer: asyncio.StreamWriter) -> bool:
        self.seen += 1
        self.calls[name] += 1
        clock = time.monotonic()
        self.times.append(clock)
        while self.times[0] <= clock - WINDOW_S:
            self.times.popleft()
        self.most_in_window = max(self.most_in_window, len(self.times))
        if self.seen % self.death_every == 0:
            self.death = asyncio.create_task(self.die())
        fate = self.draw.choices(
            ["good", "busy", "down", "dropped", "cut", "slow", "garbage", "page", "NaN", "empty", "refused"],
            [80, 4, 4, 3, 2, 0.3, 1.5, 1.5, 1, 1, 1.7],
        )[0]
        self.fates[fate] += 1
        await asyncio.sleep(self.draw.uniform(0, 0.01) if fate != "slow" else TIMEOUT_S * 1.5)
        good = {
            "choices": [{"message": {"content": f"score of {name}"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 5},
        }
        body = page(json.dumps(good).encode())
        if fate == "dropped":
            return False
        if fate == "cut":
            writer.write(body[:-7])
            await writer.drain()
            return False
        refused = b'{"choices": [{"message": {"content": null}, "finish_reason": "content_filter"}]}'
        sent = {
            "busy": page(b"slow down", status="429 Too Many Requests", more="retry-after: 0.05\r\n"),
            "down": page(b"overloaded", status="503 Service Unavailable"),
            "garbage": page(b"\xff\x00{{{" * 50),
            "page": page(b"<html>bad gateway</html>", kind="text/html"),
            "NaN": page(b'{"choices": [{"message": {"content": NaN}}]}'),
            "empty": page(b'{"choices": []}'),
            "refused": page(refused),
        }.get(fate, body)
        writer.write(sent)
        await writer.drain()
        if fate in ("good", "slow", "refused"):
            self.answered[name] += 1
        return True


def page(body: bytes, *, status: str = "200 OK", kind: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


async def serve(options: argparse.Namespace) -> None:
    server = Server(options.folder, options.seed, options.death_every)
    await server.start()
    (options.folder / "port.new").write_text(str(server.port))
    (options.folder / "port.new").rename(options.folder / "port")
    await asyncio.Event().wait()


def rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def judge(options: argparse.Namespace) -> None:
    from apportion.judges.exchange import Message, Request, Response, TransportError
    from apportion.judges.transport import OpenAITransport, ask_each, connect

    server = OpenAITransport(ADDRESS.format(port=(options.folder / "port").read_text()), silence_s=TIMEOUT_S)
    connection = connect(
        server,
        concurrency=options.concurrency,
        requests_per_minute=options.rate,
        timeout_s=TIMEOUT_S,
        attempts=6,
        first_wait_s=0.05,
        journal=options.folder / "journal.jsonl",
        pause_s=30,
        abstain_s=30,
        probe_s=0.2,
    )
    memory: list[float] = []
    ends: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    wrong = 0

    def take(index: int, outcome: Response | TransportError) -> None:
        nonlocal wrong
        ends[index] += 1
        if isinstance(outcome, Response):
            kinds[outcome.finish] += 1
            wrong += outcome.finish == "stop" and outcome.text != f"score of judgement {index}"
        else:
            kinds[outcome.kind] += 1
        if sum(ends.values()) % max(1, options.judgements // 20) == 0:
            memory.append(rss_mib())

    asked = (
        Request((Message("user", f"judgement {index}"),), model="soak", max_tokens=16)
        for index in range(options.judgements)
    )
    await ask_each(connection, asked, take, at_once=4 * options.concurrency)
    once = len(ends) == options.judgements and set(ends.values()) == {1}
    found = {"once": once, "wrong": wrong, "kinds": kinds, "memory": memory, **connection.counts()}
    await connection.aclose()
    (options.folder / "done.json").write_text(json.dumps(found))


def journalled(folder: Path) -> set[str]:
    """Digests of the answers that were written in full."""
    found = set()
    path = folder / "journal.jsonl"
    for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else []:
        record = json.loads(line)
        if "answered" in record:
            found.add(record["answered"])
    return found


def supervise(options: argparse.Namespace) -> int:
    import httpx

    from apportion.judges.exchange import Message, Request

    def part(role: str) -> subprocess.Popen[bytes]:
        same = [f"--{name.replace('_', '-')}={value}" for name, value in vars(options).items() if name != "role"]
        return subprocess.Popen([sys.executable, __file__, *same, f"--role={role}"])

    names = {
        Request((Message("user", f"judgement {index}"),), model="soak", max_tokens=16).digest(): f"judgement {index}"
        for index in range(options.judgements)
    }
    start = time.monotonic()
    server = part("serve")
    try:
        while not (options.folder / "port").exists():
            time.sleep(0.05)
        address = ADDRESS.format(port=(options.folder / "port").read_text()).removesuffix("/v1")

        def get(what: str) -> dict[str, object]:
            for _ in range(100):
                try:
                    found: dict[str, object] = httpx.get(f"{address}/{what}", timeout=5).json()
                    return found
                except httpx.TransportError:
                    time.sleep(0.1)  # it died a moment ago
            raise RuntimeError("the server does not come back")

        known: list[tuple[dict[str, int], set[str]]] = []
        for kill in range(options.kills):
            worker = part("judge")
            while get("stats")["answered"] < options.judgements * (kill + 1) // (options.kills + 1):  # type: ignore[operator]
                if worker.poll() is not None:
                    print("the judging process ended before it was killed")
                    return 1
                time.sleep(0.2)
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            time.sleep(0.3)  # what it had sent arrives
            known.append((get("calls"), {names[one] for one in journalled(options.folder)}))  # type: ignore[arg-type]
            print(f"killed with {len(known[-1][1])} answers in the journal")
        code = part("judge").wait()
        calls, stats = get("calls"), get("stats")
    finally:
        server.kill()
        server.wait()
    if code:
        print(f"the judging process ended with {code}")
        return 1
    found = json.loads((options.folder / "done.json").read_text())
    asked_again = sum(calls[name] != before[name] for before, names_then in known for name in names_then)
    memory = found["memory"][len(found["memory"]) // 4 :]
    in_vain = options.concurrency * (options.kills + stats["deaths"]) + stats["fates"].get("slow", 0)
    checks = {
        "every judgement ended once": found["once"],
        "no wrong answer": not found["wrong"],
        f"at most {options.concurrency} calls at once": stats["most"] <= options.concurrency,
        # Calls are delayed on their way, so a window of the server's clock may see some that began before.
        f"at most {options.rate} calls a minute": stats["most_in_window"] <= options.rate + options.concurrency,
        "no answer in the journal was asked for again": asked_again == 0,
        # Also what the server sent in vain: while it died, or after the client had given up.
        "answers sent twice were in flight at a kill, a death or a timeout": stats["twice"] <= in_vain,
        f"repeated calls were counted, at most {options.concurrency} per kill": found["repeated"]
        <= options.concurrency,
        f"memory flat within {SLACK_MIB:g} MiB": max(memory) - memory[0] <= SLACK_MIB,
    }
    seconds = time.monotonic() - start
    print(f"{options.judgements} judgements, {stats['seen']} calls, {options.kills} kills, {seconds:.0f} s")
    print(f"server: {stats}")
    print(f"judges: {found}")
    for what, holds in checks.items():
        print(f"{'ok    ' if holds else 'FAILED'} {what}")
    return int(not all(checks.values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judgements", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--rate", type=int, default=30_000, help="calls per minute")
    parser.add_argument("--death-every", type=int, default=2_000, help="calls")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--role", choices=["supervise", "serve", "judge"], default="supervise")
    options = parser.parse_args()
    if options.role == "serve":
        asyncio.run(serve(options))
        return 0
    if options.role == "judge":
        asyncio.run(judge(options))
        return 0
    if options.folder is not None:
        return supervise(options)
    with tempfile.TemporaryDirectory() as folder:
        options.folder = Path(folder)
        return supervise(options)


if __name__ == "__main__":
    sys.exit(main())
