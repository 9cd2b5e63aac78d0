"""A rollout file of any size with its groups scattered: what `apportion score` must handle in bounded memory.

    python benchmarks/generate_rollouts.py /tmp/rollouts.jsonl --bytes 2e9
    python benchmarks/generate_rollouts.py /tmp/rollouts.jsonl --measure    # index it, walk its groups, print the cost

Every row is a multi-turn trajectory with token ids, a mask and log-probs; rewards are 0 or 1, at a rate of the group's
own; some rollouts are truncated, some aborted with an error and no reward. Rows of one group lie anywhere in the file.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from apportion.integrations.files import RolloutIndex, write
from apportion.integrations.files.native import to_line, to_row
from apportion.rollouts import Status, Trajectory

GROUPS_PER_STEP = 64
VOCABULARY = 150_000


def trajectory(rng: np.random.Generator, number: int, group: int, *, turns: int) -> Trajectory:
    """One rollout of a group; its length varies a lot, as real ones do."""
    pieces = rng.integers(20, 150, size=(int(rng.integers(1, 2 * turns)), 2))
    pieces[-1, 1] = 0
    policy = np.repeat(np.tile([True, False], len(pieces)), pieces.ravel())
    fate = rng.random()
    status: Status = "aborted" if fate < 0.01 else "truncated" if fate < 0.05 else "terminated"
    of_group = np.random.default_rng(group)
    solved = of_group.beta(0.6, 0.8)
    reward = None if status == "aborted" else float(status == "terminated" and rng.random() < solved)
    return Trajectory(
        id=f"rollout-{number}",
        group=f"prompt-{group}",
        step=group // GROUPS_PER_STEP,
        prompt_ids=of_group.integers(0, VOCABULARY, int(of_group.integers(50, 400))),
        response_ids=rng.integers(0, VOCABULARY, policy.size),
        policy=policy,
        behaviour_logps=np.where(policy, -np.round(rng.exponential(0.4, policy.size), 4), 0.0),
        status=status,
        error="the sandbox did not answer" if status == "aborted" else None,
        columns={"reward": reward},
    )


def trajectories(total: float, *, group_size: int, turns: int, seed: int) -> Iterator[Trajectory]:
    """Rollouts that take `total` bytes or a little more, whole groups in random order."""
    rng = np.random.default_rng(seed)
    sample = [len(to_line(to_row(trajectory(rng, k, k, turns=turns)))) for k in range(200)]
    groups = int(np.ceil(total / (np.mean(sample) * group_size)))
    order = rng.permutation(np.repeat(np.arange(groups), group_size))
    for number, group in enumerate(order.tolist()):
        yield trajectory(rng, number, group, turns=turns)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(path: Path) -> None:
    """Index the file, walk its groups, and print what that cost."""
    start = time.perf_counter()
    with RolloutIndex(path) as index:
        indexed = time.perf_counter()
        print(
            f"{path.stat().st_size / 1e9:.2f} GB, {len(index)} rollouts, {index.n_groups} groups, {index.n_steps} steps"
        )
        print(f"index:  {indexed - start:6.1f} s, peak {peak_mib():.0f} MiB")
        count = sum(len(chunk) for chunk in index.groups())
        print(f"groups: {time.perf_counter() - indexed:6.1f} s, peak {peak_mib():.0f} MiB, {count} rollouts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="a .jsonl file")
    parser.add_argument("--bytes", type=float, default=2e9, help="size to reach (default 2e9)")
    parser.add_argument("--group-size", type=int, default=8, help="rollouts per prompt (default 8)")
    parser.add_argument("--turns", type=int, default=5, help="turns per rollout, on average (default 5)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--measure", action="store_true", help="measure an existing file instead of writing one")
    options = parser.parse_args()
    if options.measure:
        measure(options.path)
        return
    made = trajectories(options.bytes, group_size=options.group_size, turns=options.turns, seed=options.seed)
    count = write(made, options.path)
    print(f"{options.path}: {options.path.stat().st_size / 1e9:.2f} GB, {count} rollouts")


if __name__ == "__main__":
    main()
