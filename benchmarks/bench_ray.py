"""`apportion score --engine ray`: time, memory, and what kill -9 in the middle costs.

    python benchmarks/bench_ray.py                     # 4,000 rollouts
    python benchmarks/bench_ray.py --rows 1_000_000    # minutes

Scores a synthetic file of short rollouts twice with a recipe whose observer notes every rollout it looks at: once
undisturbed; once killed with -9 when half the blocks are committed, and resumed. Fails when the two differ in any row
or digest, when a rollout of a block that was committed before the resume was observed twice, or when all processes
together needed more than 12 GiB (counted by proportional set size, so that shared pages count once).
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LIMIT_GIB = 12.0
GROUP, GROUPS_PER_STEP = 8, 64

RECIPE = """
import os
from pathlib import Path
from apportion.advantages import grpo
from apportion.recipe import Recipe
from apportion.rollouts import Level
from apportion.verdicts import Scored

class Noted:
    name, level = "outcome", Level.TRAJECTORY
    def observe(self, trajectories):
        with open(Path(os.environ["OBSERVED"], f"{os.getpid()}.log"), "a") as log:
            log.writelines(f"{t.id}\\n" for t in trajectories)
        return [Scored(t.columns["reward"]) for t in trajectories]

def assign(batch, signals, *, step, state):
    return grpo(signals["outcome"])

recipe = Recipe(name="noted", observers=[Noted()], assign_signals=assign, aggregation="token-mean")
"""


def generate(path: Path, rows: int) -> None:
    """Two short turns each; groups of a step arrive in any order and steps overlap, as asynchronous rollouts do."""
    rng = np.random.default_rng(0)
    order = np.argsort(np.arange(rows) / (GROUP * GROUPS_PER_STEP) + 2 * rng.random(rows), kind="stable")
    lengths, ids = rng.integers(2, 8, (rows, 3)).tolist(), rng.integers(0, 1000, 4096).tolist()
    rewards = (rng.random(rows) < 0.4).astype(int).tolist()
    with open(path, "w", encoding="utf-8") as file:
        for i in order.tolist():
            (a, b, c), at, group = lengths[i], i % 4000, i // GROUP
            row = {"apportion": 1, "id": f"r{i}", "group": f"g{group}", "step": group // GROUPS_PER_STEP}
            row |= {"response_ids": ids[at : at + a + b + c], "policy": [1] * a + [0] * b + [1] * c}
            file.write(json.dumps(row | {"columns": {"reward": rewards[i]}}, separators=(",", ":")) + "\n")


class Watch(threading.Thread):
    """CPU seconds and the largest memory of a process and all below it, sampled."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root, self.peak, self.cpu, self.ended = root, 0.0, {}, threading.Event()
        self.start()

    def run(self) -> None:
        while not self.ended.wait(1.0):
            total = 0
            for pid in self._tree():
                try:
                    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().split("Pss:")[1].split()[0]
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                except (OSError, IndexError):
                    continue
                total += int(rollup)
                self.cpu[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            self.peak = max(self.peak, total / 2**20)

    def _tree(self) -> list[int]:
        children = collections.defaultdict(list)
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                except OSError:
                    continue
                children[parent].append(int(entry.name))
        found = [self.root]
        for pid in found:
            found.extend(children[pid])
        return found


def command(source: Path, out: Path, recipe: Path, *more: object) -> list[str]:
    program = Path(sys.executable).with_name("apportion")
    listed = [program, "score", source, "-r", recipe, "-o", out, "--engine", "ray", "--quiet", *more]
    return [str(part) for part in listed]


def run(title: str, arguments: list[str], observed: Path, *, kill_at: int | None = None) -> Watch:
    """Run to the end, or kill the driver when so many blocks are committed."""
    observed.mkdir(exist_ok=True)
    out = Path(arguments[arguments.index("-o") + 1])
    start, load = time.perf_counter(), os.getloadavg()[0]
    process = subprocess.Popen(arguments, env={**os.environ, "OBSERVED": str(observed)})
    watch = Watch(process.pid)
    while process.poll() is None:
        time.sleep(0.1)
        if kill_at is not None and len(list(out.glob("block-*.json"))) >= kill_at:
            process.send_signal(signal.SIGKILL)
            process.wait()
    watch.ended.set()
    watch.join()
    seconds, cpu = time.perf_counter() - start, sum(watch.cpu.values())
    print(
        f"{title:<12} {seconds:7.1f} s, {cpu:7.1f} s of CPU, peak {watch.peak:.2f} GiB, "
        f"load {load:.1f} to {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    if process.returncode != (0 if kill_at is None else -signal.SIGKILL):
        sys.exit(f"{title}: exit code {process.returncode}")
    return watch


def sorted_rows(out: Path) -> pa.Table:
    files = sorted(out.glob("block-*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files]).sort_by("id")


def settled(out: Path) -> dict[str, int]:
    """What was committed when every worker of the killed run was gone, with the time of each file."""
    import fcntl

    with open(out / ".lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return {path.name: path.stat().st_mtime_ns for path in out.glob("block-*.json")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--block-rows", type=int, default=None, help="default: the engine's, or a tenth of the rows")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    block_rows = options.block_rows or min(4096, max(options.rows // 10, 1))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, recipe = folder / "rollouts.jsonl", folder / "noted.py"
        generate(source, options.rows)
        recipe.write_text(RECIPE)
        print(f"{options.rows:,} rollouts, {source.stat().st_size / 1e6:.0f} MB, {options.workers} workers", flush=True)
        more = ("--block-rows", block_rows, "--workers", options.workers)
        whole, cut = folder / "whole", folder / "cut"
        first = run("undisturbed", command(source, whole, recipe, *more), folder / "seen-whole")
        blocks = len(list(whole.glob("block-*.json")))
        seen = folder / "seen-cut"
        second = run("killed", command(source, cut, recipe, *more), seen, kill_at=blocks // 2)
        committed = settled(cut)
        third = run("resumed", command(source, cut, recipe, *more, "--resume"), seen)

        faults = []
        counts = collections.Counter(line for log in seen.iterdir() for line in log.read_text().split())
        again = 0
        for record, written in committed.items():
            path = cut / record
            ids = pq.read_table(path.with_suffix(".parquet"), columns=["id"])["id"].to_pylist()
            again += sum(counts[id] != 1 for id in ids)
            if path.stat().st_mtime_ns != written:
                faults.append(f"{record} was committed again")
        print(f"{len(committed)} of {blocks} blocks were committed before the resume; rollouts observed again: {again}")
        if again:
            faults.append("rollouts of committed blocks were observed twice")
        a, b = sorted_rows(whole), sorted_rows(cut)
        if not (a.equals(b) and a.num_rows == options.rows):
            faults.append("the rows differ")
        digests = [json.loads((out / "manifest.json").read_text())["sha256"] for out in (whole, cut)]
        print(f"rows: {a.num_rows:,} and {b.num_rows:,}, equal: {a.equals(b)}; digests equal: {len(set(digests)) == 1}")
        if len(set(digests)) > 1:
            faults.append("the digests differ")
        peak = max(first.peak, second.peak, third.peak)
        if peak > LIMIT_GIB:
            faults.append(f"{peak:.2f} GiB of {LIMIT_GIB} allowed")
    for fault in faults:
        print(f"FAULT: {fault}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
