"""The conformance matrix: every row meets every law, and every deviation from a law is shown on a case.

Rows are in `rows_*`, laws in `laws` and `token_laws`; docs/conformance.md shows both as one table.
"""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path

import pytest

from apportion import advantages, recipes
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from tests.conformance.law import Law, breaks, verify
from tests.conformance.matrix import LAWS, ROWS
from tests.conformance.row import Row
from tests.conformance.table import page


def _estimators() -> set[str]:
    """Every public function that makes a signal; the others report about one, or weigh a loss."""
    functions = {n: f for n in advantages.__all__ if inspect.isfunction(f := getattr(advantages, n))}
    return {name for name, function in functions.items() if "Signal" in str(function.__annotations__["return"])}


def _parameters(name: str) -> set[str]:
    return set(inspect.signature(getattr(advantages, name)).parameters)


_PAIRS = [(row, law) for row in ROWS for law in LAWS.values() if law.applies(row)]
_HOLD = [(r, w) for r, w in _PAIRS if w.name not in r.deviations or r.deviations[w.name].unless is not None]
_DEVIATE = [(r, w) for r, w in _PAIRS if w.name in r.deviations]


def _name(value: Row | Law) -> str:
    return value.name


@pytest.mark.parametrize(("row", "law"), _HOLD, ids=_name)
def test_law_holds(row: Row, law: Law) -> None:
    verify(row, law)


@pytest.mark.parametrize(("row", "law"), _DEVIATE, ids=_name)
def test_deviation_is_real(row: Row, law: Law) -> None:
    deviation = row.deviations[law.name]
    assert breaks(row, law, deviation.witness), f"{row.name} obeys {law.name!r} after all: not so {deviation.reason!r}"


def test_every_estimator_has_a_row() -> None:
    assert {row.covers for row in ROWS if not row.covers.startswith("recipe ")} == _estimators()


def test_every_dialect_has_a_row() -> None:
    assert {f"grpo ({name})" for name in advantages.DIALECTS} <= {row.name for row in ROWS}


def test_every_recipe_has_a_row() -> None:
    covered = {row.covers.removeprefix("recipe ") for row in ROWS if row.covers.startswith("recipe ")}
    assert covered == set(recipes.names())


def test_recipes_say_rightly_whether_a_group_stands_alone() -> None:
    for row in ROWS:
        if row.scope:
            assert (row.scope == "batch") == ("isolation" in row.deviations), row.name


@pytest.mark.parametrize("name", [n for n in sorted(_estimators()) if "singleton" in _parameters(n)])
def test_a_singleton_is_zero_or_refused_where_one_may_choose(name: str) -> None:
    estimator = getattr(advantages, name)
    if name == "by_source":
        estimator = partial(estimator, source=["policy"] * 3)
    x = rewards_signal([0.75, 1.0, 0.0], groups=["lone", "pair", "pair"], tokens=[2, 2, 2])
    assert estimator(x, singleton="zero").values[0] == 0
    assert estimator(x, singleton="raw").values[0] > 0
    with pytest.raises(InvalidArgument, match="singleton"):
        estimator(x, singleton="raise")


def test_the_page_shows_the_matrix() -> None:
    path = Path(__file__).parents[2] / "docs" / "conformance.md"
    assert path.read_text(encoding="utf-8") == page(), "run: python -m tests.conformance.table > docs/conformance.md"


def test_rows_and_deviations_are_named_once_and_rightly() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    unknown = {(row.name, name) for row in ROWS for name in row.deviations if name not in LAWS}
    assert not unknown
    pointless = {(r.name, n) for r in ROWS for n in r.deviations if not LAWS[n].applies(r)}
    assert not pointless
    assert all(deviation.reason for row in ROWS for deviation in row.deviations.values())
