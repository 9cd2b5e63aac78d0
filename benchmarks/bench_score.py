"""Memory and time of `apportion score` on a file whose groups lie scattered through it.

The file takes 2 GB, or the bytes in APPORTION_BENCH_BYTES. Fails when the whole process needs more than 1.5 GiB.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT_GIB = 1.5


def main() -> int:
    size = float(os.environ.get("APPORTION_BENCH_BYTES", "2e9"))
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "rollouts.jsonl", Path(folder) / "credit.jsonl"
        generator = Path(__file__).with_name("generate_rollouts.py")
        subprocess.run([sys.executable, generator, source, "--bytes", str(size)], check=True)
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [Path(sys.executable).with_name("apportion"), "score", source, "-r", "grpo", "-o", target, "--quiet"]
        subprocess.run(command, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        # The largest child: writing the rollouts takes far less than scoring them.
        gib = after.ru_maxrss / 2**20
        seconds = time.perf_counter() - start
        print(f"score: {seconds:.0f} s ({cpu:.0f} s of CPU), peak {gib:.2f} GiB of {LIMIT_GIB} allowed")
    return int(gib > LIMIT_GIB)


if __name__ == "__main__":
    sys.exit(main())
