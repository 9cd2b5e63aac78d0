"""gate, first_of, clip, scoped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import clip, first_of, gate, observe, outcome, reward, scoped, summarise
from apportion.rewards.base import Reward
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored
from tests.rewards.builders import Fixed, Slow, cells, fixed, fixed_turns, kinds, observed, rollouts, row, said, values
from tests.rewards.test_linear import Drawn, assert_same, seen


def test_a_gate_pays_only_where_its_condition_holds() -> None:
    form, right = fixed("form", 1.0, 0.0, 1.0, 0.5), fixed("right", 1.0, 1.0, 0.0, 1.0)
    made = gate(form, then=right)
    assert made.name == "gate(form, right)"
    assert values(seen(made, rollouts(4))) == [1.0, 0.0, 0.0, 0.0]
    assert right.asked == ["0", "2"]
    assert values(seen(gate(form, then=right, at=0.5), rollouts(4))) == [1.0, 0.0, 0.0, 1.0]


def test_a_gate_passes_missing_on() -> None:
    form = fixed("form", Failed("no text"), None, 1.0, 1.0)
    made = gate(form, then=fixed("right", 1.0, 1.0, None, Failed("down")))
    assert seen(made, rollouts(4)) == [
        Failed("gate form is unknown: no text"),
        Abstained("gate form does not apply: form does not apply"),
        Abstained("right does not apply"),
        Failed("down"),
    ]


def test_a_shut_gate_may_abstain_or_ask_someone_else() -> None:
    form, right, other = fixed("form", 0.0, 1.0), fixed("right", 1.0, 1.0), fixed("other", -1.0, -1.0)
    assert kinds(seen(gate(form, then=right, otherwise=None), rollouts(2))) == "AS"
    assert values(seen(gate(form, then=right, otherwise=other), rollouts(2))) == [-1.0, 1.0]
    assert other.asked == ["0"]
    assert values(seen(gate(form, then=right, otherwise=-0.5), rollouts(2))) == [-0.5, 1.0]


def test_checks_of_doing_nothing_bad_pay_only_beside_the_task() -> None:
    task, harmless = fixed("task", 0.0, 1.0), fixed("no_leak", 1.0, 1.0)
    made = 0.4 * task + 0.6 * gate(task, then=harmless)
    assert values(seen(made, rollouts(2))) == [0.0, 1.0]


def test_a_gate_works_turn_by_turn() -> None:
    condition, then = fixed_turns("c", 1.0, 0.0, None), fixed_turns("t", 0.5, 0.5, 0.5)
    assert values(seen(gate(condition, then=then), [said("", "", "", id="0")])) == [0.5, 0.0, None]


def test_gates_check_their_arguments() -> None:
    with pytest.raises(InvalidArgument, match="one level"):
        gate(fixed("a", 1.0), then=fixed_turns("b", 1.0))
    with pytest.raises(InvalidArgument, match="one level"):
        gate(fixed("a", 1.0), then=fixed("b", 1.0), otherwise=fixed_turns("c", 1.0))
    with pytest.raises(InvalidArgument, match="otherwise"):
        gate(fixed("a", 1.0), then=fixed("b", 1.0), otherwise=float("nan"))
    with pytest.raises(InvalidArgument, match="at"):
        gate(fixed("a", 1.0), then=fixed("b", 1.0), at=float("inf"))


def test_first_of_takes_the_first_that_applies() -> None:
    exact, judged = fixed("exact", 1.0, None, None), fixed("judged", 0.1, 0.2, None)
    assert seen(first_of([exact, judged]), rollouts(3)) == [
        Scored(1.0, "exact"),
        Scored(0.2, "judged"),
        Abstained("exact: exact does not apply; judged: judged does not apply"),
    ]
    assert judged.asked == ["1", "2"]


@pytest.mark.parametrize(("failed", "found"), [("stop", "FS"), ("skip", "SS")])
def test_first_of_says_what_a_failure_does(failed: Any, found: str) -> None:
    parts = [fixed("a", Failed("down"), 1.0), fixed("b", 0.5, 0.5)]
    assert kinds(seen(first_of(parts, failed=failed), rollouts(2))) == found


def test_a_failure_outlives_later_abstentions() -> None:
    parts = [fixed("a", Failed("down")), fixed("b", None), fixed("c", Failed("too"))]
    assert seen(first_of(parts, failed="skip"), rollouts(1)) == [Failed("a: down; c: too")]


@given(observed(3), st.sampled_from(["stop", "skip"]))
def test_first_of_associates(drawn: Drawn, failed: Any) -> None:
    trajectories, (a, b, c) = drawn
    nested = first_of([a, first_of([b, c], failed=failed)], failed=failed)
    assert_same(seen(nested, trajectories), seen(first_of([a, b, c], failed=failed), trajectories))


@given(observed(1))
def test_first_of_one_is_that_one(drawn: Drawn) -> None:
    trajectories, (a,) = drawn
    assert_same(seen(first_of([a]), trajectories), seen(a, trajectories))


def test_first_of_checks_its_arguments() -> None:
    with pytest.raises(InvalidArgument, match="at least one"):
        first_of([])
    with pytest.raises(InvalidArgument, match="failed"):
        first_of([fixed("a", 1.0)], failed="ignore")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="one level"):
        first_of([fixed("a", 1.0), fixed_turns("b", 1.0)])


@given(observed(1), st.floats(-5, 5), st.floats(0, 5))
def test_clip_bounds_and_is_idempotent(drawn: Drawn, low: float, span: float) -> None:
    trajectories, (a,) = drawn
    once = clip(a, low=low, high=low + span)
    assert kinds(seen(once, trajectories)) == kinds(seen(a, trajectories))
    assert all(low <= value <= low + span for value in values(seen(once, trajectories)) if value is not None)
    assert seen(clip(once, low=low, high=low + span), trajectories) == seen(once, trajectories)


def test_clip_says_what_it_cut() -> None:
    made = clip(Fixed("a", {"0": [Scored(-3.0, "three faults")]}), low=-2.0)
    assert seen(made, rollouts(1)) == [Scored(-2.0, "three faults; clipped from -3")]
    assert seen(clip(fixed("a", 0.5), low=0.0, high=1.0), rollouts(1)) == [Scored(0.5)]


@pytest.mark.parametrize("bounds", [{}, {"low": 1.0, "high": 0.0}, {"low": float("nan")}])
def test_clip_checks_its_bounds(bounds: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument):
        clip(fixed("a", 1.0), **bounds)


def tasks(*names: Any) -> list[Trajectory]:
    return [row(str(at), task=name) for at, name in enumerate(names)]


def test_a_scoped_reward_abstains_and_is_not_asked_elsewhere() -> None:
    proof = fixed("proof", 1.0, 1.0, 0.0)
    made = scoped("maths", proof)
    assert made.name == "proof[maths]"
    assert seen(made, tasks("maths", "code", "maths")) == [
        Scored(1.0),
        Abstained("proof is for task maths, not 'code'"),
        Scored(0.0),
    ]
    assert proof.asked == ["0", "2"]
    assert kinds(seen(scoped(["maths", "code"], proof), tasks("maths", "code", "law"))) == "SSA"


def test_means_are_over_the_tasks_that_a_reward_is_for() -> None:
    rows = [row(str(at), task=task, reward=value) for at, (task, value) in enumerate(
        [("maths", 1), ("maths", 0), ("code", 1), ("code", 1)]
    )]  # fmt: skip
    seen_by_name = observe([scoped("maths", outcome(name="maths")), scoped("code", outcome(name="code"))], rows)
    means = {name: (summarise(found).mean, summarise(found).scored) for name, found in seen_by_name.items()}
    assert means == {"maths[maths]": (0.5, 2), "code[code]": (1.0, 2)}


@pytest.mark.parametrize("task", [None, "absent"])
def test_a_rollout_without_a_task_is_named_not_guessed(task: str | None) -> None:
    strays = [row("stray")] if task == "absent" else [row("stray", task=None)]
    with pytest.raises(MissingInput, match=r"column 'task'.*absent in stray.*no default task"):
        scoped("maths", fixed("proof", 1.0)).observe([*tasks("maths"), *strays])


def test_scope_by_a_function_works_per_turn_and_fails_per_rollout() -> None:
    made = scoped(lambda t: t.columns["long"], Fixed("a", {"x": [Scored(1.0)] * 2}, Level.TURN), name="a[long]")
    long = said("", "", id="x", columns={"long": True})
    short, unknown = said("", id="y", columns={"long": False}), said("", id="z")
    found = seen(made, [long, short, unknown])
    assert [kinds([entry]) for entry in found] == ["SS", "A", "F"]
    assert "KeyError: 'long'" in found[2][0].error


def test_a_scope_that_is_set_up_wrong_is_raised() -> None:
    def wrong(trajectory: Trajectory) -> bool:
        raise InvalidArgument("tasks", [], "some tasks")

    with pytest.raises(InvalidArgument, match="tasks"):
        scoped(wrong, fixed("a", 1.0)).observe(rollouts(1))


def test_scope_checks_its_arguments() -> None:
    for scope in ("", [], [3]):
        with pytest.raises(InvalidArgument, match="scope"):
            scoped(scope, fixed("a", 1.0))  # type: ignore[arg-type]


COMBINATIONS: dict[str, Callable[[Reward, Reward], Reward]] = {
    "sum": lambda a, b: 1.0 * a + 2.0 * b,  # type: ignore[operator]
    "gate": lambda a, b: gate(a, then=b, otherwise=a),
    "first_of": lambda a, b: first_of([a, b]),
    "clip": lambda a, b: clip(a, low=0.0),
    "scoped": lambda a, b: scoped(lambda trajectory: trajectory.id != "0", b, name="s"),
}


@pytest.mark.parametrize("combination", COMBINATIONS)
@given(drawn=observed(2), waiting=st.lists(st.booleans(), min_size=2, max_size=2))
def test_async_parts_change_nothing(combination: str, drawn: Drawn, waiting: list[bool]) -> None:
    trajectories, parts = drawn
    build = COMBINATIONS[combination]
    mixed = [Slow(part) if slow else part for part, slow in zip(parts, waiting, strict=True)]
    made = build(*mixed)
    assert cells(seen(made, trajectories)) == cells(seen(build(*parts), trajectories))


def test_a_failing_part_is_only_unknown_where_it_was_asked() -> None:
    class Down(Fixed):
        def observe(self, trajectories: Any) -> Any:
            raise ConnectionError("down")

    made = gate(fixed("form", 1.0, 0.0), then=Down("judge", {}))
    assert kinds(seen(made, rollouts(2))) == "FS"
    assert kinds(seen(first_of([Down("judge", {}), fixed("b", 1.0)], failed="skip"), rollouts(1))) == "S"
    assert kinds(seen(reward(name="f")(lambda t: 1.0) + Down("judge", {}), rollouts(1))) == "F"
