"""Rows of the recipes that compare turns: rewards of turns, keyed groups, progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from apportion import advantages as adv
from apportion import recipes
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.conformance.row import Deviation, Row, because, step_number
from tests.conformance.rows_batch import UNCENTRED, WHITENED
from tests.conformance.rows_group import one
from tests.conformance.rows_recipes import recipe, verdicts
from tests.conformance.strategies import KNOWN, build, filled


def _prime(signals: Sequence[Signal], **settings: object) -> Signal:
    """`prime` under a reward model whose log-probabilities follow a rollout wherever it goes."""
    (x,) = signals
    ratio = (step_number(x.batch) % 5).double() / 8 if x.batch.has_tokens else torch.zeros(0)
    columns = {"rm_logps": ratio - 1.0, "ref_logps": torch.full_like(ratio, -1.0)} if x.batch.has_tokens else {}
    made = recipes.load("prime", **settings)
    credit, _ = made.assign(replace(x.batch, token_columns=columns), {"outcome": verdicts(x)})
    return credit.advantages


_SHIFTS = ("shift_group", "shift_batch", "constant_group", "constant_batch")


def _moved(reason: str, *also: str) -> Mapping[str, Deviation]:
    return dict.fromkeys((*_SHIFTS, *also), because(reason))


_UNPAID = because(
    "in the sum of a rollout of one turn, a turn without a reward counts as 0",
    unless=lambda case: not bool(case.signals[1].known.all()),
)
_DISCOUNTED = "a discounted return depends on how far its turn is from the end"
_CUT = "the return of a step depends on how many steps that match follow it"
_JOINED = "gains and outcomes are in one pool, so turns of a lone rollout are compared too"
_SHARE = "the last turn alone has a share of the reliability, and turns of a lone rollout are compared"
_LENGTHS = "rollouts differ in length: equal scores are not equal per token"
_PATH = "a value of a path depends on how long it is, and turns of a lone rollout are compared"
_IMPLICIT = because("the reward model's own rewards are neither shifted nor scaled")

# Two rollouts of one prompt, of one and of three turns.
_LONG = filled(
    build([("a", 0, [(1, 0)]), ("a", 0, [(1, 0), (1, 0), (1, 0)])]),
    (Level.TRAJECTORY, Level.TURN),
    lambda n: [0.5, 1.0, 0.25, 2.0, 0.75][:n],
    lambda n: [KNOWN] * n,
)

ROWS: list[Row] = [
    one(
        "on_last_turn",
        adv.on_last_turn,
        door=False,
        deviations={
            **UNCENTRED,
            "turn_splitting": because("another turn is the last"),
            "singleton": because("a move, not a comparison: no group is needed"),
        },
    ),
    recipe("mt_grpo", settings={"eps": 0.0}, degree=0, deviations=dict.fromkeys(_SHIFTS, _UNPAID)),
    recipe("mt_grpo", called="mt_grpo (each turn)", settings={"eps": 0.0, "turns": "each"}, degree=0),
    recipe("gigpo", moved=[0], deviations=_moved(_DISCOUNTED)),
    recipe(
        "gigpo",
        called="gigpo (std)",
        settings={"mode": "mean_std", "eps": 0.0},
        moved=[0],
        degree=0,
        deviations=_moved(_DISCOUNTED),
    ),
    recipe("ui_s1", settings={"eps": 0.0}, moved=[0], degree=0, deviations=_moved(_CUT)),
    recipe("igpo", settings={"eps": 0.0}, degree=0),
    recipe(
        "igpo",
        called="igpo (joint)",
        settings={"eps": 0.0, "normalise": "joint"},
        degree=0,
        deviations=_moved(_JOINED, "singleton"),
    ),
    recipe("siop", domain="nonnegative", degree=0, deviations=_moved(_SHARE, "singleton")),
    recipe(
        "procredit",
        settings={"eps": 0.0},
        deviations={"scale": because("across attempts it is normalised, across turns it is not")},
    ),
    recipe(
        "pure",
        text="refused",
        deviations={**_moved(_LENGTHS), "scale": because("the temperature has the units of the score")},
    ),
    recipe(
        "pure",
        called="pure (min, per turn)",
        settings={"form": "min", "baseline": "turn"},
        deviations=_moved(_LENGTHS),
    ),
    Row(
        name="recipe prime",
        covers="recipe prime",
        run=_prime,
        degree=0,
        text="refused",
        door=False,
        floats_only=True,
        scope="batch",
        deviations={
            "isolation": WHITENED,
            "scale": _IMPLICIT,
            "constant_group": _IMPLICIT,
            "constant_batch": _IMPLICIT,
            "singleton": WHITENED,
            "missing": because("a rollout without an outcome keeps its implicit rewards"),
        },
    ),
    recipe("groundedprm", settings={"eps": 0.0}, degree=0),
    recipe(
        "groundedprm",
        called="groundedprm (value)",
        settings={"eps": 0.0, "form": "value"},
        degree=0,
        deviations={**_moved(_PATH, "singleton"), "scale": because("an outcome of 0 stands for -1", _LONG)},
    ),
]
