"""Laws of the recipes that read states, roles and links: idle turns, signals without contrast, what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import recipes
from apportion.recipe import Recipe
from apportion.rollouts import Action, Trajectory, Turn

# Every recipe with the columns it reads, from a number in [0, 1] per turn.
NOTES: Mapping[str, tuple[Mapping[str, Any], Callable[[float], Mapping[str, Any]]]] = {
    "trace": ({"n_step": 1, "fill": 0.0}, lambda x: {"potential": x}),
    "pbrs": ({}, lambda x: {"potential": x}),
    "rudder": ({}, lambda x: {"potential": x}),
    "vineppo": ({"whitening": "none"}, lambda x: {"value": x}),
    "triage": ({}, lambda x: {"role": "progress" if x > 0.5 else "regression"}),
    "iapo": ({}, lambda x: {}),
    "experimental/first_error": ({}, lambda x: {"step_score": x}),
    "experimental/mutating_steps": ({"column": "flag"}, lambda x: {"flag": x > 0.5}),
    "experimental/step_filter": ({}, lambda x: {"reasonable": x > 0.1}),
    "experimental/value_gate": ({}, lambda x: {"success_probability": x}),
}
# A recipe observes and assigns in every example.
FEW = settings(max_examples=settings.get_profile(settings.get_current_profile_name()).max_examples // 6)
NUMBERS = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, None])


def rollout(name: str, group: str, reward: float | None, numbers: Sequence[float | None], recipe: str) -> Trajectory:
    """One turn per number; None = nothing was noted of it."""
    note = NOTES[recipe][1]
    turns = [Turn(actions=(Action(f"call{k}"),), columns={} if x is None else note(x)) for k, x in enumerate(numbers)]
    links = {"supports": [[0, k] for k, x in enumerate(numbers) if k and x]}
    start = {f"{column}_start": 0.5 for column in ("potential", "value", "success_probability")}
    return Trajectory(id=name, group=group, turns=turns, columns={"reward": reward, "links": links, **start})


def made(name: str, **options: Any) -> Recipe:
    return recipes.load(name, **{**NOTES[name][0], **options})


def credit(recipe: Recipe, rows: Sequence[Trajectory]) -> list[list[float]]:
    found, _ = recipe.score(rows, failure_limit=1.0)
    numbers = iter(found.advantages.values.tolist())
    return [[next(numbers) for _ in range(row.n_turns)] for row in rows]


# A first rollout with a note keeps a column from being nowhere, which is an error of its own.
ANCHOR: tuple[str, float, list[float | None]] = ("anchor", 1.0, [0.5, 0.5])


@pytest.mark.parametrize("name", NOTES)
@FEW
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([0.0, 1.0, None]), st.lists(NUMBERS, max_size=3)))
)
def test_whatever_is_missing_or_equal_credit_is_finite(
    name: str, rows: list[tuple[str, float | None, list[float | None]]]
) -> None:
    all_rows = [rollout(str(i), g, r, numbers, name) for i, (g, r, numbers) in enumerate([ANCHOR, *rows])]
    found, _ = made(name).score(all_rows, failure_limit=1.0)
    values = found.advantages.values
    assert bool(values.isfinite().all())
    assert not values[~found.in_loss].count_nonzero()


@pytest.mark.parametrize("name", ["trace", "vineppo", "rudder"])
@FEW
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=4), st.integers(0, 4))
def test_a_turn_that_changes_nothing_gets_nothing_and_moves_no_other(
    name: str, numbers: list[float], where: int
) -> None:
    at = min(where, len(numbers) - 1)
    options = {"max_error": 2.0} if name == "rudder" else {}
    # The last turn carries the outcome: a repeated state comes before it.
    longer = [*numbers[:at], numbers[at - 1] if at else 0.5, *numbers[at:]]
    recipe = made(name, **options)
    base = [rollout("x", "q", 1.0, numbers, name), rollout("y", "q", 0.0, [0.5], name)]
    more = [rollout("x", "q", 1.0, longer, name), base[1]]
    before, after = credit(recipe, base), credit(recipe, more)
    outcome = 1.0 if name == "trace" else 0.0
    assert after[0][at] == pytest.approx(outcome, abs=1e-12)
    assert [*after[0][:at], *after[0][at + 1 :]] == pytest.approx(before[0])
    assert after[1] == pytest.approx(before[1])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("trace", {}),
        ("triage", {"constants": {"progress": 0.0, "regression": 0.0}}),
        ("iapo", {}),
        ("rudder", {"max_error": 0.0}),
        ("experimental/first_error", {"below": 0.0}),
        ("experimental/mutating_steps", {}),
        ("experimental/step_filter", {}),
        ("experimental/value_gate", {}),
    ],
)
@FEW
@given(rewards=st.lists(st.sampled_from([0.0, 1.0, 0.25]), min_size=2, max_size=4), turns=st.integers(1, 3))
def test_without_contrast_it_is_grpo(name: str, options: dict[str, Any], rewards: list[float], turns: int) -> None:
    if name == "experimental/step_filter" and all(r == 1.0 for r in rewards):
        return
    ddof = {"ddof": 1} if name == "trace" else {}
    recipe = made(name, **options, **ddof)
    rows = [rollout(str(i), "q", r, [0.5] * turns, name) for i, r in enumerate(rewards)]
    if name == "iapo":
        rows = [rollout(str(i), "q", r, [0.0] * turns, name) for i, r in enumerate(rewards)]
    plain = credit(recipes.load("grpo"), rows)
    assert credit(recipe, rows) == [pytest.approx(row) for row in plain]
