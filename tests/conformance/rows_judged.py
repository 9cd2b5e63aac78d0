"""Rows of the recipes whose reward a model has a say in."""

from __future__ import annotations

from apportion.rollouts import Level
from tests.conformance.row import because
from tests.conformance.rows_recipes import recipe
from tests.conformance.strategies import ABSENT, KNOWN, Case, build, signal


def _some_flaws_unknown(case: Case) -> bool:
    return not bool(case.signals[1].known.all())


def _one_flaw_of_two() -> Case:
    batch = build([("a", 0, [(1, 0)]), ("a", 0, [(1, 0)])])
    right = signal(batch, Level.TRAJECTORY, [1.0, 1.0], [KNOWN, KNOWN], name="outcome")
    return Case(batch, (right, signal(batch, Level.TRAJECTORY, [1.0, 0.0], [KNOWN, ABSENT], name="flaw")))


_FLAWS = because(
    "of equally right answers, one with a wrong step is worth less", _one_flaw_of_two(), _some_flaws_unknown
)

ROWS = [
    *(recipe(name, degree=0) for name in ("judge", "ruler_like", "grm")),
    recipe(
        "fapo",
        moved=[0],
        degree=0,
        domain="binary",
        deviations=dict.fromkeys(("constant_group", "constant_batch"), _FLAWS),
    ),
]
