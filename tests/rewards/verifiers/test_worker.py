"""The child process: an answer per request, within limits that it keeps when nobody is there to watch."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from apportion.rewards.verifiers.worker import answer

SERVE = "from apportion.rewards.verifiers import worker; worker._GRACE = 0; worker.main()"
FILL = """
from apportion.rewards.verifiers.worker import limit_memory
limit_memory()
try:
    bytearray(3 << 30)
except MemoryError:
    print("refused")
"""


def run(code: str, requests: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], input=requests, capture_output=True, text=True, check=False)


def test_an_answer_or_an_error_and_never_an_exception() -> None:
    assert answer({"gold": "2x", "answer": "x+x"})["status"] == "right"
    assert answer({"gold": "2x", "answer": "x+x", "decimals": "six"})["status"] == "right"
    assert answer({"gold": "1/3", "answer": "0.333333", "decimals": "six"})["status"] == "error"
    assert answer({"nothing": 1})["status"] == "error"


def test_it_serves_until_the_input_ends() -> None:
    requests = "".join(json.dumps({"limit": 20, "work": {"gold": "2", "answer": text}}) + "\n" for text in "234")
    ready, *replies = run(SERVE, requests).stdout.splitlines()
    assert ready == "ready"
    assert [json.loads(reply)["status"] for reply in replies] == ["right", "wrong", "wrong"]


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="the platform has no alarm")
def test_the_system_ends_it_when_its_parent_cannot() -> None:
    tower = json.dumps({"limit": 0.5, "work": {"gold": "9", "answer": "7^{7^{7^{7}}}"}})
    assert run(SERVE, tower + "\n").returncode == -signal.SIGALRM


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep this limit")
def test_memory_is_limited() -> None:
    assert run(FILL).stdout == "refused\n"
