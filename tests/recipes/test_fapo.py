"""FAPO: the numbers of its schedule, what an undetected flaw is worth, and a model as the detector."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from apportion import advantages as adv
from apportion import recipes
from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.judges.annotators import first_wrong
from apportion.judges.prompts import Server
from apportion.recipes.fapo import fapo, flawed_reward
from apportion.rewards import observe
from apportion.rollouts import Level, Trajectory, Turn
from apportion.signal import Signal
from apportion.verdicts import Abstained, Failed, Scored
from tests.judges.scripted import Scripted, prompt_of, verdict


def signals(sound: int, flawed: int, wrong: int) -> tuple[Signal, Signal]:
    size = sound + flawed + wrong
    batch = Batch.of(groups=["q"] * size, turns=[1] * size)
    outcomes = [1.0] * (sound + flawed) + [0.0] * wrong
    flaws = [-1.0] * sound + [2.0] * flawed + [None] * wrong
    return (
        Signal.of(batch, Level.TRAJECTORY, outcomes, name="outcome"),
        Signal.of(batch, Level.TRAJECTORY, flaws, name="flaw"),
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((1, 2, 5), (1.5, 0.5, -0.5)), ((5, 2, 1), (0.5, -0.5, -1.5)), ((3, 2, 3), (1.0, 0.0, -1.0))],
)
def test_a_flaw_is_pushed_up_while_failures_prevail_and_down_afterwards(
    counts: tuple[int, int, int], expected: Sequence[float]
) -> None:
    centred = adv.group_center(flawed_reward(*signals(*counts))).values.tolist()
    sound, _, wrong = counts
    assert (centred[0], centred[sound], centred[-1]) == pytest.approx(expected)
    assert centred[sound] == pytest.approx((wrong - sound) / 8)


def test_the_two_terms_add_up() -> None:
    earned = flawed_reward(*signals(1, 1, 1), weight=0.5)
    assert earned.values.tolist() == [1.0, 0.5, -1.0]
    assert {name: term.tolist() for name, term in earned.ledger().items()} == {
        "outcome": [1.0, 1.0, -1.0],
        "flaw": [0.0, -0.5, 0.0],
    }
    assert earned.residual() == 0


def test_without_flaws_and_without_a_price_it_is_grpo() -> None:
    outcomes, flaws = signals(2, 1, 1)
    plain = adv.grpo(outcomes).values
    torch.testing.assert_close(adv.grpo(flawed_reward(outcomes, flaws, weight=0)).values, plain)
    no_flaws = Signal.of(outcomes.batch, Level.TRAJECTORY, [-1.0] * 4, name="flaw")
    torch.testing.assert_close(adv.grpo(flawed_reward(outcomes, no_flaws)).values, plain)


def rollouts(*outcomes: float | None, **columns: Sequence[object]) -> list[Trajectory]:
    return [
        Trajectory(
            id=f"r{at}", group="q", turns=[Turn(text=f"step of {at}"), Turn(text="answer")],
            columns={"reward": outcome, **{name: values[at] for name, values in columns.items()}},
        )
        for at, outcome in enumerate(outcomes)
    ]  # fmt: skip


def test_a_model_is_asked_about_right_answers_only() -> None:
    model = Scripted(lambda r: verdict(r, "first_wrong=1" if "step of 1" in prompt_of(r) else "first_wrong=none"))
    made = fapo(detector=first_wrong(model, server=Server("judge")).position())
    group = rollouts(1.0, 1.0, 0.0)
    seen = observe(made.observers, group)
    assert [type(v) for v in seen["flaw"]] == [Scored, Scored, Abstained]
    assert seen["flaw"][1].evidence.endswith("turn 1 is wrong")
    assert len(model.asked) == 2
    credit, _ = made.assign(Batch.pack(group), seen, step=0)
    scale = torch.tensor([1.0, 0.0, -1.0]).std(correction=1).item()
    assert credit.advantages.spread(Level.TURN).values.tolist()[::2] == pytest.approx([1 / scale, 0.0, -1 / scale])


def test_an_undetected_flaw_is_sound_or_leaves_its_group() -> None:
    group = rollouts(1.0, 1.0, 0.0)
    model = Scripted(lambda r: "???" if "step of 1" in prompt_of(r) else verdict(r, "first_wrong=none"))
    for undetected, known in (("sound", [True, True, True]), ("exclude", [True, False, True])):
        made = fapo(undetected=undetected, detector=first_wrong(model, server=Server("judge")).position())  # type: ignore[arg-type]
        seen = observe(made.observers, group, failure_limit=1)
        assert isinstance(seen["flaw"][1], Failed)
        credit, _ = made.assign(Batch.pack(group), seen, step=0)
        moved = [value != 0 for value in credit.advantages.spread(Level.TURN).values.tolist()[::2]]
        assert moved == known


def test_it_reads_a_recorded_column_and_says_when_there_is_none() -> None:
    made = recipes.load("fapo")
    found = observe(made.observers, rollouts(1.0, 1.0, 0.0, first_wrong=[0, -1, None]))
    assert [v.value for v in found["flaw"][:2]] == [0.0, -1.0]
    with pytest.raises(MissingInput, match="first_wrong"):
        observe(made.observers, rollouts(1.0, 0.0))


def test_wrong_settings_are_refused() -> None:
    for settings in ({"weight": -1}, {"weight": 3}, {"undetected": "flawed"}, {"detector": lambda t: 0}):
        with pytest.raises(InvalidArgument):
            fapo(**settings)  # type: ignore[arg-type]
