"""How the time of estimators grows: with tokens, trajectories, turns and groups. And what importing costs.

Writes results/scaling.json and results/import.json; fails when `import apportion` is dear or pulls torch in.
"""

from __future__ import annotations

import math
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from statistics import median

from measuring import Table, load_note, side_by_side  # first: it says how threads wait
from ragged import rollouts

# isort: split
import torch

from apportion.advantages import gae, group_stat, packed_gae
from apportion.advantages.states import critic_values, last_values, state_values
from apportion.advantages.td import td
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal


def main() -> int:
    scaling()
    return int(not imports())


def scaling() -> None:
    """Medians along one size at a time, and the exponent that fits them."""
    table = Table("Scaling", ["what", "grows", "CPU ms", "exponent"])
    widths, sizes, turns = [2048, 4096, 8192, 16384], [128, 256, 512, 1024], [8, 32, 128, 512]
    packed = {w: packed_call(256, w) for w in widths}
    row(table, "GAE, packed", "tokens per response", packed)
    row(table, "GAE, packed", "trajectories of 4096", {s: packed_call(s, 4096) for s in sizes})
    row(table, "GAE of signals", "trajectories of 1024", {s: signal_call(s) for s in sizes})
    row(table, "TD of a potential, n = 3", "turns of 256 trajectories", {k: turn_call(k) for k in turns})
    row(table, "group mean and deviation", "groups of 8", {g: group_call(g) for g in [64, 256, 1024, 4096]})
    table.notes = [
        "exponent: least-squares slope of the logarithms; 1 = proportional, less where calls cost more than numbers",
        load_note(),
    ]
    table.save("scaling")


def row(table: Table, what: str, grows: str, calls: dict[int, Callable[[], object]]) -> None:
    """Measure, fit, write down."""
    found = side_by_side({str(size): call for size, call in calls.items()}, rounds=9)
    times = [found[str(size)].cpu for size in calls]
    shown = ", ".join(f"{size}: {time:.2f}" for size, time in zip(calls, times, strict=True))
    table.rows.append([what, grows, shown, f"{exponent(list(calls), times):.2f}"])


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Least-squares slope of log time over log size."""
    x, y = [math.log(size) for size in sizes], [math.log(time) for time in times]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - mean_x) ** 2 for a in x)


def packed_call(size: int, width: int) -> Callable[[], object]:
    data = rollouts(size, width)
    plan = data.batch.plan(Level.TOKEN)
    return lambda: packed_gae(data.packed_rewards, data.packed_values, plan, discount=0.99)


def signal_call(size: int) -> Callable[[], object]:
    data = rollouts(size, 1024)
    reward = Signal.of(data.batch, Level.TOKEN, data.packed_rewards, name="reward")
    value = Signal.of(data.batch, Level.TOKEN, data.packed_values, name="value")
    states = critic_values(value, last_values(data.batch))
    return lambda: gae(reward, states)


def turn_call(turns: int) -> Callable[[], object]:
    batch = rollouts(256, 64 * turns, turns=(turns, turns)).batch
    start = Signal.zeros(batch, Level.TRAJECTORY, name="phi")
    states = state_values(start, Signal.of(batch, Level.TURN, torch.randn(batch.size(Level.TURN)), name="phi"))
    return lambda: td(states, n_step=3, lam=0.8, window="normalised")


def group_call(groups: int) -> Callable[[], object]:
    x = rewards_signal(torch.randn(8 * groups), groups=[str(i % groups) for i in range(8 * groups)])
    return lambda: group_stat(x)


def imports() -> bool:
    """CPU time of fresh interpreters."""
    table = Table("Import", ["what", "CPU ms above bare Python"])
    statements = {"bare": "pass", "import apportion": "import apportion", "torch": "import torch"}
    statements["apportion.advantages (with torch)"] = "import apportion.advantages"
    times = {name: median(fresh(code) for _ in range(5)) for name, code in statements.items()}
    table.rows = [[name, f"{times[name] - times['bare']:.0f}"] for name in statements if name != "bare"]
    table.notes = ["medians of five fresh interpreters; `import apportion` loads neither torch nor numpy", load_note()]
    above = times["import apportion"] - times["bare"]
    met = table.target("`import apportion` at most 20 ms above bare Python", above, 20, at="most")
    loaded = "import sys, apportion; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    met &= table.target(
        "... and loads no torch", subprocess.run([sys.executable, "-c", loaded]).returncode, 0, at="most"
    )
    table.save("import")
    return met


def fresh(code: str) -> float:
    """CPU milliseconds of an interpreter that runs the code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    sys.exit(main())
