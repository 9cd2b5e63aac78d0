"""Estimators beside veRL's own on the same rollouts, with a copy of the padded tensor as the yardstick.

CPU time of the process and time of the clock, medians of a round robin. Writes results/advantages-*.json; fails when a
target is missed.
"""

from __future__ import annotations

import sys
import warnings

from measuring import Table, Time, load_note, side_by_side  # first: it says how threads wait
from ragged import Rollouts, rollouts

# isort: split
import numpy as np
import torch
from verl.trainer.ppo import core_algos

from apportion.advantages import gae, group_stat, grpo, packed_gae, padded_gae, rloo
from apportion.advantages.masked_rewards import MaskedRewards
from apportion.advantages.states import critic_values, last_values
from apportion.batch import Batch
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.scans import Plan
from apportion.signal import Signal

SIZES = [(256, 2048), (256, 8192), (1024, 2048), (1024, 8192)]
GAMMA, LAM = 0.99, 0.95
COPY, COPY_PACKED, VERL, WHOLE = "copy_ padded", "copy_ packed", "veRL's loop", "veRL's estimator, whitening included"
PACKED, FROM_LENGTHS = "GAE, packed", "GAE, packed, from lengths alone"
EACH, LEDGER = "GAE, packed, a lambda per trajectory", "GAE of signals, with ledger, float64"
PADDED, REFUSING = "GAE, padded to padded", "GAE, padded to padded, refusing masked rewards"
FROM_MASK = "turn lengths from a padded mask (once per batch)"
TO_TOKEN, TO_TURN = "turn to token", "token to turn, sum"


def main() -> int:
    warnings.filterwarnings("ignore")
    return int(not all([gae_table(), group_table()]))


def gae_table() -> bool:
    """GAE and moves between levels, at every size."""
    table = Table(
        "GAE, and moves between turns and tokens",
        ["trajectories x width", "what", "CPU ms", "wall ms", "x copy_ padded (CPU)", "veRL's loop / this (CPU)"],
    )
    found: dict[str, Time] = {}
    for size, width in SIZES:
        data = rollouts(size, width)
        found = times(data)
        for name, time in found.items():
            ratio = f"{time.cpu / found[COPY].cpu:.2f}"
            faster = f"{found[VERL].cpu / time.cpu:.0f}" if "GAE" in name else ""
            table.rows.append([f"{size} x {width}", name, f"{time.cpu:.2f}", f"{time.wall:.2f}", ratio, faster])
    share = 100 * data.batch.n_tokens / data.mask.numel()
    worst = errors(data)
    table.notes = [
        f"{GAMMA=}, {LAM=}, groups of 8, 5 to 40 turns; the largest has {data.batch.n_tokens} policy tokens in "
        f"{int(data.batch.turns.sum())} turns, {share:.0f} % of its padded places",
        "padded to padded: rewards and values in, advantages and critic targets out, with the batch's turn lengths at "
        "hand, dropping rewards on masked tokens as veRL does",
        "veRL's loop: its estimator with the whitening at its end replaced by nothing",
        "largest error against float64, in units of the largest advantage: "
        + ", ".join(f"{error:.1e} ({name})" for name, error in worst.items()),
        load_note(),
    ]
    copy, loop = found[COPY].cpu, found[VERL].cpu
    at, busy = "at 1024 x 8192, CPU time", "see the load of the machine below"
    packed, door = found[PACKED].cpu, found[PADDED].cpu
    met = [
        table.target(f"packed GAE at most 3 x copy_ padded, {at}", packed / copy, 3, at="most", why=busy),
        table.target(f"packed GAE 100 x faster than veRL's loop, {at}", loop / packed, 100, at="least", why=busy),
        table.target(f"padded to padded 25 x faster than veRL's loop, {at}", loop / door, 25, at="least", why=busy),
        table.target("error against float64 at most 1e-6", max(worst.values()), 1e-6, at="most"),
        table.target(f"turn to token at most 1 x copy_ padded, {at}", found[TO_TOKEN].cpu / copy, 1, at="most"),
        table.target(f"token to turn at most 1.5 x copy_ padded, {at}", found[TO_TURN].cpu / copy, 1.5, at="most"),
    ]
    table.save("advantages-gae")
    return all(met)


def times(data: Rollouts) -> dict[str, Time]:
    """Everything of one size."""
    b, lengths = data.batch, data.batch.tokens_per_trajectory
    padded, packed = torch.empty_like(data.values), torch.empty_like(data.packed_values)
    each = 1 - 1 / (0.05 * lengths.double()).clamp_min(1)
    per_turn = torch.randn(b.size(Level.TURN))
    reward = Signal.of(b, Level.TOKEN, data.packed_rewards, name="reward")
    states = critic_values(Signal.of(b, Level.TOKEN, data.packed_values, name="value"), last_values(b))
    estimator = core_algos.get_adv_estimator_fn("gae")

    def loop() -> object:
        whole, core_algos.verl_F.masked_whiten = core_algos.verl_F.masked_whiten, lambda values, mask: values
        try:
            return estimator(data.rewards, data.values, data.mask, GAMMA, LAM)
        finally:
            core_algos.verl_F.masked_whiten = whole

    plan = b.plan(Level.TOKEN)

    def tensors(lam: float | torch.Tensor, of: torch.Tensor | Plan = plan) -> object:
        return packed_gae(data.packed_rewards, data.packed_values, of, discount=GAMMA, lam=lam)

    def door(masked: MaskedRewards) -> object:
        return padded_gae(data.rewards, data.values, b, discount=GAMMA, lam=LAM, masked_rewards=masked)

    return side_by_side(
        {
            COPY: lambda: padded.copy_(data.values),
            COPY_PACKED: lambda: packed.copy_(data.packed_values),
            VERL: loop,
            WHOLE: lambda: estimator(data.rewards, data.values, data.mask, GAMMA, LAM),
            PACKED: lambda: tensors(LAM),
            FROM_LENGTHS: lambda: tensors(LAM, lengths),
            EACH: lambda: tensors(each),
            PADDED: lambda: door("drop"),
            REFUSING: lambda: door("refuse"),
            LEDGER: lambda: gae(reward, states, discount=GAMMA, lam=LAM),
            FROM_MASK: lambda: Batch.from_mask(data.mask, data.groups),
            TO_TOKEN: lambda: b.spread(per_turn, Level.TURN, Level.TOKEN),
            TO_TURN: lambda: b.pool(data.packed_values, Level.TOKEN, Level.TURN, "sum"),
        },
        rounds=21,
        slow={VERL: 3, WHOLE: 3, LEDGER: 5, FROM_MASK: 5},
    )


def errors(data: Rollouts) -> dict[str, float]:
    """Largest error of float32 against float64, relative to the largest advantage."""
    lengths = data.batch.tokens_per_trajectory
    settings = {f"gamma {g}, lambda {lam}": (g, lam) for g, lam in [(GAMMA, LAM), (1.0, 1.0), (1.0, 0.5), (1.0, 0.1)]}
    settings["a lambda per trajectory"] = (1.0, 1 - 1 / (0.05 * lengths.double()).clamp_min(1))
    found = {}
    for name, (discount, lam) in settings.items():
        ours = packed_gae(data.packed_rewards, data.packed_values, lengths, discount=discount, lam=lam)
        wide = packed_gae(data.packed_rewards.double(), data.packed_values, lengths, discount=discount, lam=lam)
        found[name] = float((ours - wide).abs().max() / wide.abs().max())
    return found


def group_table() -> bool:
    """Statistics of groups: one reward per trajectory, so that loops over groups are all that veRL spends time on."""
    table = Table(
        "Statistics of groups of 8", ["trajectories", "what", "CPU ms", "wall ms", "veRL's loop / this (CPU)"]
    )
    for size in (256, 1024):
        groups = [f"prompt {i}" for i in np.random.default_rng(0).permutation(np.repeat(np.arange(size // 8), 8))]
        scores = torch.randn(size, generator=torch.Generator().manual_seed(0))
        x, index = rewards_signal(scores, groups=groups), np.array(groups, dtype=object)
        rewards, mask = scores[:, None].clone(), torch.ones(size, 1, dtype=torch.int64)
        stats = {
            "veRL's GRPO": lambda r=rewards, m=mask, i=index: core_algos.compute_grpo_outcome_advantage(r, m, i),
            "veRL's RLOO": lambda r=rewards, m=mask, i=index: core_algos.compute_rloo_outcome_advantage(r, m, i),
            "group mean and deviation": lambda x=x: group_stat(x),
            "GRPO in veRL's dialect": lambda x=x: grpo(x, dialect="verl"),
            "leave one out": lambda x=x: rloo(x),
        }
        found = side_by_side(stats, rounds=101)
        for name, time in found.items():
            loop = found["veRL's RLOO" if name in ("veRL's RLOO", "leave one out") else "veRL's GRPO"]
            table.rows.append([str(size), name, f"{time.cpu:.2f}", f"{time.wall:.2f}", f"{loop.cpu / time.cpu:.1f}"])
    table.notes = ["rewards [B, 1]: nothing is spread over tokens; signals with ledger and missing values", load_note()]
    mean = found["veRL's GRPO"].cpu / found["group mean and deviation"].cpu
    leave = found["veRL's RLOO"].cpu / found["leave one out"].cpu
    met = [
        table.target("group mean and deviation 12 x faster than veRL's loop, B = 1024", mean, 12, at="least"),
        table.target("leave one out 40 x faster than veRL's loop, B = 1024", leave, 40, at="least"),
    ]
    table.save("advantages-groups")
    return all(met)


if __name__ == "__main__":
    sys.exit(main())
