"""Rows of the estimators that compare rollouts inside their group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch

from apportion import advantages as adv
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.conformance.row import Deviation, Row, because, number
from tests.conformance.strategies import Case, build, signal

Estimator = Callable[[Signal], Signal]

EPSILON = because("epsilon has the units of the reward, so the ratio to it changes")
BATCH_SCALE = because("the divisor is the standard deviation of the whole batch")
MEAN_SCALE = because("the divisor is the group's mean")
UNDIVIDED = because("where the others agree there is nothing to divide by, and the distance to them stays")


def _lone(case: Case) -> bool:
    (x,) = case.signals
    known = torch.bincount(x.batch.owner(x.level, Level.GROUP)[x.known], minlength=len(x.batch.group_ids))
    return bool((known == 1).any())


_LONE = Case(b := build([("a", 0, [(1, 0)])]), (signal(b, Level.TRAJECTORY, [0.75], [2], name="reward"),))
_RAW = because("a singleton keeps its raw reward", _LONE, _lone)
# What "raw" costs: the laws hold only for groups with more than one known reward.
RAW_SINGLETON: Mapping[str, Deviation] = dict.fromkeys(
    ("shift_group", "shift_batch", "constant_group", "constant_batch"), _RAW
)


def one(name: str, estimator: Estimator, *, covers: str = "", **declared: object) -> Row:
    """The row of an estimator of one signal."""
    return Row(name=name, covers=covers or name.split()[0], run=lambda signals: estimator(signals[0]), **declared)


def _tie_at_the_median(case: Case) -> bool:
    (x,) = case.signals
    values, group = x.values[x.known].tolist(), x.batch.group[x.known].tolist()
    return len({*zip(group, values, strict=True)}) < len(values)


def _tied() -> Case:
    batch = build([("a", 0, [(1, 0)])] * 4)
    return Case(batch, (signal(batch, Level.TRAJECTORY, [1.0, 1.0, 0.0, 2.0], [2] * 4, name="reward"),))


TIES: Mapping[str, Deviation] = {
    "permutation": because(
        "of several rollouts at the median the first one in the batch is dropped", _tied(), _tie_at_the_median
    ),
}

_DIALECTS = [
    one("grpo (apportion)", adv.grpo, degree=0),
    *(
        one(f"grpo ({name})", partial(adv.grpo, dialect=name), degree=0, deviations={"scale": EPSILON})
        for name in ("trl", "openrlhf", "slime", "nemo-rl")
    ),
    *(
        one(
            f"grpo ({name})",
            partial(adv.grpo, dialect=name),
            degree=0,
            singleton="raw",
            deviations={**RAW_SINGLETON, "scale": EPSILON},
        )
        for name in ("verl", "rllm")
    ),
    one("grpo (prime-rl)", partial(adv.grpo, dialect="prime-rl")),
    one(
        "grpo (batch std)",
        partial(adv.grpo, scale_key="batch"),
        degree=0,
        deviations={"isolation": BATCH_SCALE, "shift_group": BATCH_SCALE},
    ),
]

_STATISTICS = [
    one("group_stat (mean, std)", adv.group_stat, degree=0),
    one("group_stat (population std)", partial(adv.group_stat, ddof=0), degree=0),
    one(
        "group_stat (leave one out)",
        partial(adv.group_stat, center="loo", scale="loo_std"),
        degree=0,
        deviations={"scale": UNDIVIDED},
    ),
    one("group_stat (median, mad)", partial(adv.group_stat, center="median", scale="mad"), degree=0),
    one("group_stat (median)", partial(adv.group_stat, center="median", scale="none")),
    one(
        "group_stat (raw singleton)",
        partial(adv.group_stat, singleton="raw"),
        degree=0,
        singleton="raw",
        deviations={**RAW_SINGLETON, "scale": _RAW},
    ),
    one("group_stat (at least three)", partial(adv.group_stat, minimum=3), degree=0),
    one("group_stat (by tokens)", partial(adv.group_stat, unit="token"), degree=0, text="refused"),
    one("group_stat (turns)", adv.group_stat, levels=[Level.TURN], degree=0, door=False),
    one(
        "group_stat (turns by rollout)",
        partial(adv.group_stat, unit="trajectory"),
        levels=[Level.TURN],
        degree=0,
        door=False,
    ),
    one(
        "group_stat (turns, leave one out)",
        partial(adv.group_stat, center="loo", scale="loo_std"),
        levels=[Level.TURN],
        degree=0,
        door=False,
        deviations={"scale": UNDIVIDED},
    ),
    one(
        "group_stat (turns, median and mad)",
        partial(adv.group_stat, center="median", scale="mad"),
        levels=[Level.TURN],
        degree=0,
        door=False,
    ),
    one("group_stat (tokens)", adv.group_stat, levels=[Level.TOKEN], degree=0),
    one("group_center", adv.group_center),
    one("group_center (turns)", adv.group_center, levels=[Level.TURN], door=False),
    one(
        "group_center (turns by tokens)",
        partial(adv.group_center, unit="token"),
        levels=[Level.TURN],
        door=False,
        text="refused",
    ),
]


def _by_source(x: Signal, *, limit: int | None = None) -> Signal:
    source = ["policy" if n % 3 else "external" for n in number(x.batch).tolist()]
    return adv.by_source(x, source=source, max_tokens=None if limit is None else dict.fromkeys(source, limit))


_OTHERS = [
    one("dr_grpo", adv.dr_grpo),
    one("rloo", adv.rloo),
    one("rloo (raw singleton)", partial(adv.rloo, singleton="raw"), singleton="raw", deviations=RAW_SINGLETON),
    one("opo", adv.opo, text="refused"),
    one(
        "maxrl",
        adv.maxrl,
        domain="nonnegative",
        degree=0,
        deviations={"shift_group": MEAN_SCALE, "shift_batch": MEAN_SCALE},
    ),
    one("mc_grpo", adv.mc_grpo, degree=0, deviations=TIES),
    one("mc_grpo (std)", partial(adv.mc_grpo, scale="std"), degree=0, deviations=TIES),
    one("mc_grpo (no scale)", partial(adv.mc_grpo, scale="none"), deviations=TIES),
    one(
        "mc_grpo (released)",
        partial(adv.mc_grpo, eps=1e-3, mad_floor=0.0, rescale="released"),
        degree=0,
        deviations={**TIES, "scale": EPSILON},
    ),
    *(one(f"pass_at_k (k={k})", partial(adv.pass_at_k, k=k), domain="binary") for k in (1, 2, 3)),
    one("pass_at_k_top", adv.pass_at_k_top, degree=0),
    one("pass_at_k_top (no scale)", partial(adv.pass_at_k_top, scale="none")),
    one("by_source", _by_source, degree=0),
    one(
        "by_source (length limit)",
        partial(_by_source, limit=2),
        degree=0,
        text="refused",
    ),
]


def _logp(x: Signal) -> Signal:
    values = -(number(x.batch) % 5).double() / 4
    return Signal.of(x.batch, Level.TRAJECTORY, values, name="logp")


def _novelty(x: Signal) -> Signal:
    solved = Signal.of(x.batch, Level.TRAJECTORY, (number(x.batch) % 2).double(), name="outcome")
    return adv.novelty(adv.dr_grpo(x), outcome=solved, logp=_logp(x))


SATURATED = because("a group of nothing but successes is pushed up, which takes a success that is known as one")
ABSOLUTE = because("a log-probability, not a reward: it is compared with the peer's, not with the group's")

_DEAD_GROUPS = [
    one(
        "pseudo_samples",
        adv.pseudo_samples,
        domain="nonnegative",
        degree=0,
        deviations=dict.fromkeys(
            ("shift_group", "shift_batch", "scale", "constant_group", "constant_batch"), SATURATED
        ),
    ),
    one("novelty", _novelty, deviations={"scale": because("the boost has the units of a log-probability")}),
    one(
        "peer_weight",
        lambda x: adv.peer_weight(-x, _logp(x), threshold=0.0),
        deviations=dict.fromkeys(
            ("shift_group", "shift_batch", "scale", "constant_group", "constant_batch", "singleton"), ABSOLUTE
        ),
    ),
]

ROWS = [*_DIALECTS, *_STATISTICS, *_OTHERS, *_DEAD_GROUPS]
