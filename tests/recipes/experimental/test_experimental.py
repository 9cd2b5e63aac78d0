"""Methods rebuilt from an idea: their worked numbers, when they are GRPO, and that they say what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from apportion import recipes
from apportion.advantages.states import StateValues, state_values
from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.recipes.experimental.value_gate import gate_score
from apportion.rewards import observe, outcome, reward
from apportion.rewards.annotators import flagged
from apportion.rollouts import Action, Level, Trajectory, Turn
from apportion.signal import Signal
from tests.recipes.builders import advantages

ROOT = 0.5**0.5
EXPERIMENTAL = [name for name in recipes.names() if name.startswith("experimental/")]


def rollout(name: str, success: float | None, *turns: Turn, group: str = "q", **columns: Any) -> Trajectory:
    return Trajectory(id=name, group=group, turns=turns, columns={"reward": success, **columns})


def noted(column: str, *values: Any) -> list[Turn]:
    return [Turn(columns={} if v is None else {column: v}) for v in values]


def calls(*names: str) -> list[Turn]:
    return [Turn(actions=(Action(name),)) for name in names]


@pytest.mark.parametrize("name", EXPERIMENTAL)
def test_they_say_what_they_are(name: str) -> None:
    recipe = recipes.load(name)
    assert recipe.name == name
    assert recipe.reconstruction.startswith("inspired by")


# ---------------------------------------------------------------------------------------------------- mutating steps


def test_a_failure_falls_on_what_changed_something() -> None:
    rows = [
        rollout("a", 0.0, *calls("get_user", "cancel_order")),
        rollout("b", 1.0, *calls("get_user", "cancel_order")),
    ]
    made = advantages(recipes.load("experimental/mutating_steps"), rows)
    assert made == pytest.approx([-ROOT * 2 / 3, -ROOT * 4 / 3, ROOT, ROOT])


def test_flags_may_be_recorded_or_observed() -> None:
    rows = [rollout("a", 0.0, *noted("writes", 0, 1)), rollout("b", 1.0, *noted("writes", None, 1))]
    expected = pytest.approx([-ROOT * 2 / 3, -ROOT * 4 / 3, ROOT, ROOT])
    assert advantages(recipes.load("experimental/mutating_steps", column="writes"), rows) == expected
    flags = flagged(lambda t: [bool(turn.columns.get("writes")) for turn in t.turns], name="writes")
    assert advantages(recipes.load("experimental/mutating_steps", flags=flags), rows) == expected
    assert advantages(
        recipes.load("experimental/mutating_steps", column="writes", emphasis=0.0), rows
    ) == pytest.approx([-ROOT, -ROOT, ROOT, ROOT])


# ------------------------------------------------------------------------------------------------------- first error


def test_a_failure_falls_on_its_first_wrong_step() -> None:
    rows = [rollout("a", 0.0, *noted("step_score", 0.9, 0.8, 0.3, 0.7)), rollout("b", 1.0, *noted("step_score", 0.1))]
    assert advantages(recipes.load("experimental/first_error"), rows) == pytest.approx([0.0, 0.0, -ROOT, 0.0, ROOT])


def test_without_a_wrong_step_it_is_grpo() -> None:
    rows = [rollout("a", 0.0, *noted("step_score", 0.9, None)), rollout("b", 1.0, *noted("step_score", 0.9))]
    assert advantages(recipes.load("experimental/first_error"), rows) == pytest.approx([-ROOT, -ROOT, ROOT])


def test_a_score_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "prm.py"
    file.write_text(
        "from apportion.rewards import reward\n"
        "from apportion.rollouts import Level\n"
        "score = reward(name='prm', level=Level.TURN)(lambda t: [0.9, 0.1][: t.n_turns])\n"
    )
    rows = [rollout("a", 0.0, Turn(), Turn()), rollout("b", 1.0, Turn())]
    recipe = recipes.load("experimental/first_error", score=str(file))
    assert advantages(recipe, rows) == pytest.approx([0.0, -ROOT, ROOT])


def test_whoever_finds_the_step_may_name_it() -> None:
    finder = reward(name="finder")(lambda t: 1)
    rows = [rollout("a", 0.0, Turn(), Turn()), rollout("b", 1.0, Turn(), Turn())]
    assert advantages(recipes.load("experimental/first_error", score=finder), rows) == pytest.approx(
        [0.0, -ROOT, ROOT, ROOT]
    )


# -------------------------------------------------------------------------------------------------------- value gate


def values(*numbers: float, name: str = "p") -> StateValues:
    b = Batch.of(groups=["q"], turns=[len(numbers) - 1])
    start = Signal.of(b, Level.TRAJECTORY, numbers[:1], name=name)
    return state_values(start, Signal.of(b, Level.TURN, numbers[1:], name=name))


def test_worked_gate() -> None:
    p = values(0.5, 1 / (1 + torch.e**-1))
    n = Signal.of(p.after.batch, Level.TRAJECTORY, [5.0], name="n")
    # Two turns fewer are left after one turn: the pace is 1.
    pace = state_values(n, Signal.of(p.after.batch, Level.TURN, [3.0], name="n"))
    score = gate_score(p, pace, floor=1e-9)
    assert float(1 + torch.tanh(score.values[0])) == pytest.approx(1.7616, abs=1e-4)
    even = state_values(n, Signal.of(p.after.batch, Level.TURN, [4.0], name="n"))
    assert float(gate_score(p, even, floor=1e-9).values[0]) == pytest.approx(0.5)
    assert float(gate_score(p, floor=1e-9).values[0]) == pytest.approx(0.5)


def chances(name: str, success: float, *p: float | None) -> Trajectory:
    start = {} if p[0] is None else {"success_probability_start": p[0]}
    return rollout(name, success, *noted("success_probability", *p[1:]), **start)


def test_success_follows_what_rose_and_failure_what_fell() -> None:
    made = advantages(
        recipes.load("experimental/value_gate"), [chances("a", 1.0, 0.5, 0.8, 0.5), chances("b", 0.0, 0.5, 0.8, 0.5)]
    )
    assert sum(made[:2]) == pytest.approx(2 * ROOT)
    assert sum(made[2:]) == pytest.approx(-2 * ROOT)
    assert made[0] > ROOT > made[1] > 0
    assert 0 > made[2] > -ROOT > made[3]


def test_a_constant_probability_is_grpo() -> None:
    rows = [chances("a", 1.0, 0.3, 0.3, None), chances("b", 0.0, 0.7, 0.7, 0.7)]
    assert advantages(recipes.load("experimental/value_gate"), rows) == pytest.approx([ROOT, ROOT, -ROOT, -ROOT])


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="probabilities of success"):
        advantages(recipes.load("experimental/value_gate"), [chances("a", 1.0, 0.3, 1.3)])


# ------------------------------------------------------------------------------------------------------- step filter


def test_only_reasonable_steps_of_open_tasks_are_trained_on() -> None:
    rows = [
        rollout("a", 1.0, *noted("reasonable", True, False, None)),
        rollout("b", 0.0, *noted("reasonable", True)),
        rollout("c", 1.0, *noted("reasonable", True), group="solved"),
        rollout("d", 1.0, *noted("reasonable", True), group="solved"),
    ]
    made, _ = recipes.load("experimental/step_filter").score(rows)
    assert made.advantages.values.tolist() == pytest.approx([ROOT, 0.0, ROOT, -ROOT, 0.0, 0.0])
    assert made.in_loss.tolist() == [True, False, True, True, False, False]


def test_an_attempt_that_goes_in_circles_leaves_before_the_baseline() -> None:
    flags = {"reasonable": True}
    looping = [Turn(actions=(Action("tap", {"x": 1}),), columns=flags)] * 7
    other = [Turn(actions=(Action("tap", {"x": k}),), columns=flags) for k in range(7)]
    rows = [
        rollout("stuck", 0.0, *looping),
        rollout("won", 1.0, *other),
        rollout("lost", 0.0, *other[:1]),
    ]
    made, _ = recipes.load("experimental/step_filter").score(rows)
    assert made.advantages.values.tolist() == pytest.approx([0.0] * 7 + [ROOT] * 7 + [-ROOT])
    assert made.in_loss.tolist() == [False] * 7 + [True] * 8


def test_arguments_without_end_are_no_crash() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    turns = [Turn(actions=(Action("tap", {"x": deep}),), columns={"reasonable": True})] * 2
    made, _ = recipes.load("experimental/step_filter", repeats=2).score([rollout("a", 1.0, *turns)])
    assert not made.in_loss.any()


def test_the_reward_of_an_action_against_the_kept_one() -> None:
    # Single steps sampled anew are rollouts of their own, whose groups are (task, step).
    rows = [
        Trajectory(id=str(i), group="task 3, step 2", columns={"type": a, "parameters": b})
        for i, (a, b) in enumerate([(1, 1), (1, 0), (0, 0), (1, 1)])
    ]
    match = 0.2 * outcome("type", name="type") + 0.8 * outcome("parameters", name="parameters")
    found = observe([match], rows)[match.name]
    assert [v.value for v in found] == pytest.approx([1.0, 0.2, 0.0, 1.0])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("mutating_steps", "emphasis", -1.0),
        ("mutating_steps", "flags", outcome("reward")),
        ("mutating_steps", "flags", "no_such_file.py"),
        ("mutating_steps", "flags", 3),
        ("first_error", "score", 3),
        ("first_error", "below", float("nan")),
        ("value_gate", "floor", 0.5),
        ("step_filter", "repeats", 1),
        ("step_filter", "solved_share", 1.1),
    ],
)
def test_bad_settings_are_named(name: str, setting: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=setting):
        recipes.load(f"experimental/{name}", **{setting: value})


@pytest.mark.parametrize("name", ["first_error", "value_gate", "step_filter"])
def test_a_missing_column_is_named(name: str) -> None:
    with pytest.raises(MissingInput, match="turn column"):
        recipes.load(f"experimental/{name}").score([rollout("a", 1.0, Turn())])
