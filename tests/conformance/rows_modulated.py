"""Rows of modulation, and of the recipes that read potentials, labels, flags and links of turns."""

from __future__ import annotations

from apportion import advantages as adv
from apportion.advantages.modulate_weights import exp_clip, tanh_gate, within_rollout
from apportion.rollouts import Level
from tests.conformance.row import Row

BOTH = (Level.TRAJECTORY, Level.TURN)

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
    ),
    Row(
        name="keep_sign",
        covers="keep_sign",
        run=lambda s: adv.keep_sign(adv.dr_grpo(s[0]) + adv.dr_grpo(s[1]) * 0.5, of=adv.dr_grpo(s[0])),
        levels=(Level.TRAJECTORY, Level.TRAJECTORY),
        door=False,
    ),
]
