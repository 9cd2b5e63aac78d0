"""The child process of `pool`: reads one request a line, answers one line. Run as `python -m`, never imported for use.

It gives itself a limit on memory, because what is made to run for ever is often made to fill memory too, and lets the
system end it when a parent that was killed can no longer do so.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from typing import Any

from apportion.rewards.verifiers.maths_same import judged

_MEMORY = 2 << 30
_GRACE = 5


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request; an error is an answer too, and never a verdict."""
    try:
        return judged(**request)
    except Exception as error:  # noqa: BLE001 - the libraries below raise bare exceptions of their own
        return {"status": "error", "note": f"{type(error).__name__}: {str(error)[:200]}"}


def limit_memory() -> None:
    """Where the platform can, an allocation beyond the limit raises `MemoryError` here and hurts nobody else."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def set_alarm(seconds: int) -> None:
    """After so many seconds the system ends this process, also inside one long operation; 0 calls it off."""
    if hasattr(signal, "alarm"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)


def main() -> None:
    """Serves until the input ends."""
    replies = sys.stdout
    # What a library prints must not be taken for an answer.
    sys.stdout = sys.stderr
    limit_memory()
    # Loads the libraries and builds the tables of the grammar, which is nobody's answer to wait for.
    answer({"gold": "x+1", "answer": "1+x"})
    replies.write("ready\n")
    replies.flush()
    # From here on complaints have no reader, and warnings about every answer would fill a disk.
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout = sys.stderr = nowhere
        for line in sys.stdin:
            request = json.loads(line)
            set_alarm(math.ceil(request["limit"]) + _GRACE)
            result = answer(request["work"])
            set_alarm(0)
            replies.write(json.dumps(result) + "\n")
            replies.flush()


if __name__ == "__main__":
    main()
