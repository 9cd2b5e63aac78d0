"""TRIAGE: roles beside the outcome, and what a judge is worth."""

from __future__ import annotations

import pytest

from apportion import recipes
from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.recipes.triage import ROLES, fit_role_constants, role_credit
from apportion.rewards.annotators import Label
from apportion.rollouts import Level, Trajectory, Turn
from apportion.signal import Signal
from apportion.verdicts import Failed
from tests.recipes.builders import advantages


def rollout(name: str, reward: float | None, *roles: str | None) -> Trajectory:
    turns = [Turn(columns={} if role is None else {"role": role}) for role in roles]
    return Trajectory(id=name, group="q", turns=turns, columns={"reward": reward})


ROWS = [rollout("a", 1.0, "exploration", "regression", "progress"), rollout("b", -1.0, "exploration", "infrastructure")]


def test_worked_numbers() -> None:
    # With population statistics two outcomes of 1 and -1 are their own advantages.
    made = advantages(recipes.load("triage", dialect="rllm"), ROWS)
    assert made == pytest.approx([1.25, 0.75, 1.5, -0.75, -1.05], abs=1e-5)


def test_the_guard_stops_a_role_at_zero() -> None:
    rows = [rollout("a", 1.0, "regression"), rollout("b", 1.0, "regression"), rollout("c", 0.0, "progress")]
    free = advantages(recipes.load("triage", weight=1.0), rows)
    kept = advantages(recipes.load("triage", weight=1.0, sign="keep"), rows)
    assert free == pytest.approx([0.5774 - 0.5] * 2 + [-1.1547 + 1.0], abs=1e-4)
    assert kept == pytest.approx(free)
    turned = advantages(
        recipes.load("triage", weight=1.0, sign="keep", constants={"regression": -2.0, "progress": 3.0}), rows
    )
    assert turned == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("role", [None, "unheard of"])
def test_a_turn_without_a_usable_label_keeps_the_outcome(role: str | None) -> None:
    rows = [rollout("a", 1.0, "progress", role), rollout("b", 0.0, "regression", "regression")]
    made, _ = recipes.load("triage").score(rows, failure_limit=1.0)
    assert made.advantages.values.tolist() == pytest.approx([0.7071 + 0.5, 0.7071, -0.9571, -0.9571], abs=1e-4)


def test_without_weight_it_is_grpo() -> None:
    assert advantages(recipes.load("triage", weight=0.0), ROWS) == pytest.approx([0.5**0.5] * 3 + [-(0.5**0.5)] * 2)


def test_whitening_is_over_the_batch() -> None:
    made = advantages(recipes.load("triage", whitening="batch"), ROWS)
    assert sum(made) == pytest.approx(0.0, abs=1e-9)
    assert sum(x * x for x in made) / len(made) == pytest.approx(1.0, abs=1e-6)
    assert recipes.load("triage", whitening="batch").scope == "batch"


def test_a_judge_that_waits_and_gives_reasons() -> None:
    async def judge(trajectory: Trajectory) -> list[Label | Failed]:
        return [Label("progress", "found it"), *[Failed("no answer")] * (trajectory.n_turns - 1)]

    made, _ = recipes.load("triage", annotator=judge).score(ROWS, failure_limit=1.0)
    assert made.ledger()["role"].tolist() == [0.5, 0.0, 0.0, 0.5, 0.0]


def test_fitted_constants_and_what_the_judge_is_worth() -> None:
    b = Batch.of(groups=["q"] * 2, turns=[3, 2])
    labels = Signal.of(b, Level.TURN, [0.0, 3.0, None, 0.0, 3.0], name="role")
    base = Signal.of(b, Level.TRAJECTORY, [1.0, -1.0], name="outcome")
    better = Signal.of(b, Level.TURN, [1.5, 0.5, 9.0, 5.0, -1.5], name="value")
    fit = fit_role_constants(labels, better, base)
    assert fit.constants == {"progress": 1.0, "exploration": 0.5, "infrastructure": -0.1, "regression": -0.5}
    assert fit.counts == {"progress": 2, "exploration": 0, "infrastructure": 0, "regression": 2}
    gaps, worth = [0.5, -0.5, 6.0, -0.5], [1.0, -0.5, 1.0, -0.5]
    mean = sum(worth) / 4
    assert fit.covariance == pytest.approx(sum((c - mean) * g for c, g in zip(worth, gaps, strict=True)) / 4)
    upside_down = fit_role_constants(labels, better, base, constants={"a": -1.0, "b": 0.0, "c": 0.0, "d": 1.0})
    assert upside_down.covariance < 0


def test_nothing_labelled_is_no_evidence() -> None:
    b = Batch.of(groups=["q"], turns=[1])
    none = Signal.of(b, Level.TURN, [None], name="role")
    fit = fit_role_constants(none, none, Signal.of(b, Level.TRAJECTORY, [1.0], name="outcome"))
    assert (fit.constants, fit.covariance) == (dict(ROLES), 0.0)


def test_bad_arguments_are_named() -> None:
    for setting, value in (
        ("weight", 1.5),
        ("constants", {}),
        ("constants", {"progress": float("inf")}),
        ("constants", {"progress": True}),
        ("sign", "flip"),
        ("whitening", "group"),
        ("annotator", 3),
    ):
        with pytest.raises(InvalidArgument, match=setting):
            recipes.load("triage", **{setting: value})
    b = Batch.of(groups=["q"], turns=[1])
    with pytest.raises(InvalidArgument, match="codes below 4"):
        role_credit(Signal.of(b, Level.TURN, [4.0], name="role"), ROLES)
    x = Signal.of(b, Level.TRAJECTORY, [1.0], name="outcome")
    with pytest.raises(InvalidArgument, match="levels"):
        fit_role_constants(x, x, x)
    with pytest.raises(MissingInput, match="turn column 'role'"):
        recipes.load("triage").score([Trajectory(id="a", group="q", turns=[Turn()], columns={"reward": 1.0})])
