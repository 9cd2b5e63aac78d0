"""Rows of modulation, and of the recipes that read potentials, labels, flags and links of turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from apportion import advantages as adv
from apportion import recipes
from apportion.advantages.modulate_weights import exp_clip, tanh_gate, within_rollout
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.conformance.row import Row, because
from tests.conformance.rows_batch import WHITENED
from tests.conformance.rows_recipes import recipe, verdicts
from tests.conformance.strategies import KNOWN, build, filled

BOTH = (Level.TRAJECTORY, Level.TURN)


def hindsight(signals: Sequence[Signal]) -> Signal:
    """`hca` of an outcome and two log-probabilities per token."""
    x, policy, after = signals
    columns = {
        name: torch.where(logp.known, logp.values.clamp(-20.0, 0.0), torch.nan)
        for name, logp in (("behaviour_logps", policy), ("hindsight_logps", after))
    }
    batch = replace(x.batch, token_columns=columns)
    credit, _ = recipes.load("hca", baseline="group").assign(batch, {"outcome": verdicts(x)})
    return credit.advantages


def gated(signals: Sequence[Signal]) -> Signal:
    """`value_gate` of an outcome and probabilities."""
    x, start, after = signals[0], _chances(signals[1]), _chances(signals[2])
    flat = iter(verdicts(after))
    rows = [[next(flat) for _ in range(count)] for count in x.batch.turns.tolist()]
    seen = {"outcome": verdicts(x), "success_probability at start": verdicts(start), "success_probability": rows}
    credit, _ = recipes.load("experimental/value_gate").assign(x.batch, seen)
    return credit.advantages


def _chances(x: Signal) -> Signal:
    return replace(x, values=x.values.clamp(0.0, 1.0))


_ALONE = because("what a turn did to the potential needs no group to compare with")
_UNWHITENED = because(
    "with fewer than two known tokens there is nothing to whiten",
    filled(build([("a", 0, [(1, 0)])]), (*BOTH[:1], *BOTH), lambda n: [1.0] + [0.0] * n, lambda n: [KNOWN] * n),
    lambda case: int(case.batch.tokens_per_trajectory[case.signals[0].known].sum()) < 2,
)
_PAID_BACK = because("the last state is worth 0, so a value that is higher everywhere is paid back at the end")
_ROLES = because("a role is worth its constant whatever the group did")
_SOLVED = because("whether a task is solved too often depends on the outcome's size")

ROWS: list[Row] = [
    Row(
        name="modulate",
        covers="modulate",
        run=lambda s: adv.modulate(adv.dr_grpo(s[0]), tanh_gate(s[1])),
        levels=BOTH,
        moved=[0],
        door=False,
    ),
    Row(
        name="modulate (mass)",
        covers="modulate",
        run=lambda s: adv.modulate(adv.grpo(s[0]), exp_clip(within_rollout(s[1])), conserve="mass"),
        levels=BOTH,
        moved=[0],
        degree=0,
        door=False,
        deviations={"text_only": because("a turn counts as often as it has tokens, and once where there are none")},
    ),
    Row(
        name="keep_sign",
        covers="keep_sign",
        run=lambda s: adv.keep_sign(adv.dr_grpo(s[0]) + adv.dr_grpo(s[1]) * 0.5, of=adv.dr_grpo(s[0])),
        levels=(Level.TRAJECTORY, Level.TRAJECTORY),
        door=False,
    ),
    recipe("trace", moved=[0], degree=0, deviations={"singleton": _ALONE}),
    recipe(
        "pbrs",
        deviations={
            **dict.fromkeys(("shift_group", "shift_batch", "constant_group", "constant_batch"), _PAID_BACK),
            "singleton": because("the turns of a lone rollout are compared with each other"),
        },
    ),
    recipe(
        "rudder",
        deviations={
            "scale": because("a rollout whose prediction is far off, or unknown, gets GRPO's normalised advantage")
        },
    ),
    recipe(
        "vineppo",
        degree=0,
        deviations={"isolation": WHITENED, "constant_group": WHITENED, "singleton": _ALONE, "scale": _UNWHITENED},
    ),
    recipe(
        "triage",
        moved=[0],
        degree=0,
        domain="binary",
        deviations=dict.fromkeys(("constant_group", "constant_batch", "singleton"), _ROLES),
    ),
    recipe("iapo", moved=[0], degree=0),
    Row(
        name="recipe hca",
        covers="recipe hca",
        run=hindsight,
        levels=(Level.TRAJECTORY, Level.TOKEN, Level.TOKEN),
        moved=[0],
        door=False,
        floats_only=True,
        scope="group",
    ),
    recipe("experimental/mutating_steps", moved=[0], degree=0),
    recipe(
        "experimental/first_error",
        moved=[0],
        degree=0,
        deviations={"turn_splitting": because("the first wrong turn is known by its number, and cutting renumbers")},
    ),
    recipe(
        "experimental/step_filter",
        settings={"repeats": 2, "solved_share": 0.5, "success": 2.0},
        moved=[0],
        degree=0,
        deviations=dict.fromkeys(("shift_group", "shift_batch", "scale"), _SOLVED),
    ),
    Row(
        name="recipe experimental/value_gate",
        covers="recipe experimental/value_gate",
        run=gated,
        levels=(Level.TRAJECTORY, Level.TRAJECTORY, Level.TURN),
        moved=[0],
        degree=0,
        door=False,
        floats_only=True,
        scope="group",
    ),
]
