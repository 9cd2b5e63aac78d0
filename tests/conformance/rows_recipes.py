"""Rows of the named recipes: verdicts in, credit out, through `Recipe.assign`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from apportion import recipes
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Abstained, Failed, Scored, Verdict
from tests.conformance.row import Deviation, Row, because
from tests.conformance.rows_batch import ALPHA, BATCH, DENOMINATOR, RAW, TOKEN_MEAN, WHITENED
from tests.conformance.rows_group import MEAN_SCALE, TIES
from tests.conformance.strategies import ABSENT, KNOWN


def verdicts(x: Signal) -> list[Verdict]:
    """What an observer would have said."""
    states = zip(x.values.tolist(), x.presence.tolist(), strict=True)
    return [Scored(v) if s == KNOWN else Abstained("-") if s == ABSENT else Failed("-") for v, s in states]


def recipe(name: str, *, called: str = "", settings: Mapping[str, object] | None = None, **declared: object) -> Row:
    """The row of a recipe, made with the given settings."""
    made = recipes.load(name, **(settings or {}))

    def run(signals: Sequence[Signal]) -> Signal:
        batch = signals[0].batch
        seen: dict[str, list[Verdict] | list[list[Verdict]]] = {}
        for observer, x in zip(made.observers, signals, strict=True):
            flat = iter(verdicts(x))
            rows = (
                [[next(flat) for _ in range(count)] for count in batch.turns.tolist()] if x.level == Level.TURN else []
            )
            seen[observer.name] = rows if x.level == Level.TURN else list(flat)
        credit, _ = made.assign(batch, seen, step=0)
        return credit.advantages

    return Row(
        name=f"recipe {called or name}",
        covers=f"recipe {name}",
        run=run,
        levels=[observer.level for observer in made.observers],
        door=False,
        floats_only=True,
        scope=made.scope,
        **declared,
    )


_SUMS = because("penalty and credit stay as they are, and the episode's counts are capped")
_COUNTS = because("a rollout with more turns breaks an equal rule more often")
_GATED = because("credit for the path depends on whether the outcome reaches 1")
_HALF_SEEN = because(
    "a turn of which only one of the two counts is known still moves by it",
    unless=lambda case: not torch.equal(case.signals[1].known, case.signals[2].known),
)
_PATH: Mapping[str, Deviation] = {
    "isolation": DENOMINATOR,
    "constant_group": RAW,
    "constant_batch": RAW,
    "singleton": RAW,
}

ROWS = [
    recipe("grpo", degree=0),
    recipe("dr_grpo"),
    recipe("rloo"),
    recipe("opo", text="refused"),
    recipe("gpg", deviations={"isolation": ALPHA}),
    recipe("maxrl", domain="nonnegative", degree=0, deviations={"shift_group": MEAN_SCALE, "shift_batch": MEAN_SCALE}),
    recipe("mc_grpo", degree=0, deviations=TIES),
    recipe("pass_at_k", domain="binary"),
    recipe("pass_at_k_top", degree=0),
    recipe("reinforce_pp", degree=0, text="refused", deviations=BATCH),
    recipe(
        "reinforce_pp_baseline",
        degree=0,
        text="refused",
        deviations={"isolation": WHITENED, "constant_group": TOKEN_MEAN, "singleton": TOKEN_MEAN},
    ),
    recipe("gdpo", degree=0, deviations={"isolation": WHITENED}),
    recipe(
        "gdpo", called="gdpo (two rewards)", settings={"rewards": "a,b"}, degree=0, deviations={"isolation": WHITENED}
    ),
    recipe("remax", deviations={"singleton": because("the baseline is a rollout of its own: no group is needed")}),
    recipe("rlvp", domain="nonnegative", moved=[0], deviations={**_PATH, "scale": _SUMS}),
    recipe(
        "rlvp",
        called="rlvp (c2)",
        settings={"variant": "c2"},
        domain="nonnegative",
        moved=[0, 1, 2],
        deviations={**_PATH, "shift_group": RAW, "shift_batch": RAW},
    ),
    recipe(
        "rlvp",
        called="rlvp (c4, gate)",
        settings={"variant": "c4", "gate": "reachable"},
        domain="nonnegative",
        moved=[0],
        deviations={**_PATH, "scale": _SUMS, "shift_group": _GATED, "shift_batch": _GATED},
    ),
    recipe(
        "rlvp_centred",
        domain="nonnegative",
        moved=[0],
        deviations={"isolation": DENOMINATOR, "scale": _SUMS, "constant_group": _COUNTS, "constant_batch": _COUNTS},
    ),
    recipe(
        "rlvp_centred",
        called="rlvp_centred (c2)",
        settings={"variant": "c2"},
        domain="nonnegative",
        deviations={
            "isolation": DENOMINATOR,
            **dict.fromkeys(("shift_group", "shift_batch", "constant_group", "constant_batch"), _HALF_SEEN),
        },
    ),
]
