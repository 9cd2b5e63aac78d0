"""ProCredit: progress across attempts and across turns, from acceptance checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from apportion.advantages import grpo
from apportion.errors import InvalidArgument, MissingInput
from apportion.quick import rewards_signal
from apportion.recipes.procredit import procredit
from apportion.rollouts import Trajectory
from tests.recipes.builders import advantages, by, rollout


def told(name: str, progress: list[int | None], reward: float, *, of: int = 4, group: str = "q") -> Trajectory:
    """Checks passed after every turn, of so many that are unmet at the start."""
    turns = by("checks", [None if n is None else {"passed": n, "total": of} for n in progress])
    return rollout(name, turns, group=group, reward=reward, checks_start={"passed": 0, "total": of})


DONE, HALF = told("1", [1, 1, 4], 1.0), told("2", [2, 1], 0.0)


def test_the_attempts_of_the_specification() -> None:
    made = advantages(procredit(eps=0.0), [DONE, HALF])
    assert made == pytest.approx([1.65, 1.525, 1.525, -1.725, -1.975])


def test_a_group_in_which_all_fail_still_learns() -> None:
    rollouts = [told("1", [1, 1], 0.0, of=2), told("2", [0, 1], 0.0, of=2)]
    made = advantages(procredit(), rollouts)
    assert made == pytest.approx([0.0625, -0.1875, 0.0625, 0.0625])


def test_neighbouring_turns_differ_by_what_the_first_one_gained() -> None:
    c, weight = 0.3, 2.0
    recipe = procredit(progress_weight=c, turn_weight=weight)
    made = advantages(recipe, [DONE, HALF])
    gained = [0.25, 0.0, 0.75, 0.5, -0.25]
    for k in (0, 1, 3):
        assert made[k] - made[k + 1] == pytest.approx(weight * c * gained[k])


def test_what_the_paper_leaves_open_can_be_chosen() -> None:
    """G = [1.5, 1.375, 1.375] and [.125, -.125]: mean .85 over turns, .70833 over attempts."""
    plain = advantages(procredit(eps=0.0), [DONE, HALF])
    per_attempt = advantages(procredit(eps=0.0, turn_unit="trajectory"), [DONE, HALF])
    assert per_attempt[0] - plain[0] == pytest.approx(0.85 - 0.5 * (4.25 / 3))
    scaled = advantages(procredit(eps=0.0, turn_scale="std"), [DONE, HALF])
    std = (sum((g - 0.85) ** 2 for g in (1.5, 1.375, 1.375, 0.125, -0.125)) / 5) ** 0.5
    assert scaled[0] == pytest.approx(1 + 0.65 / std)


def test_no_check_unmet_leaves_grpo_and_the_centred_outcome() -> None:
    rollouts = [told(str(i), [0, 0], float(i == 0), of=0) for i in range(4)]
    population = [3**0.5, -(3**-0.5), -(3**-0.5), -(3**-0.5)]
    alone = advantages(procredit(turn_weight=0.0, eps=0.0), rollouts)
    assert alone == pytest.approx([a for a in population for _ in range(2)])
    assert population == pytest.approx(grpo(rewards_signal([1.0, 0, 0, 0]), dialect="rllm").values.tolist(), abs=1e-5)
    both = advantages(procredit(eps=0.0), rollouts)
    assert both[0] == pytest.approx(population[0] + 0.75)


def test_a_state_without_a_result_is_passed_over() -> None:
    """Nobody ran the checks after the second turn: the third has the whole step from .25 to 1."""
    made = advantages(procredit(eps=0.0), [told("1", [1, None, 4], 1.0), HALF])
    assert made == pytest.approx([1.65, 1.525, 1.525, -1.725, -1.975])


def test_an_attempt_without_any_result_leaves_both_means() -> None:
    blind = told("3", [None, None], 1.0)
    made = advantages(procredit(eps=0.0), [DONE, HALF, blind])
    assert made == pytest.approx([1.65, 1.525, 1.525, -1.725, -1.975, 0.0, 0.0])


def test_two_prompts_never_mix() -> None:
    mixed = [DONE, told("3", [4], 0.0, group="p"), HALF, told("4", [0], 1.0, group="p")]
    made = advantages(procredit(eps=0.0), mixed)
    assert [*made[:3], *made[4:6]] == pytest.approx([1.65, 1.525, 1.525, -1.725, -1.975])


def test_what_is_missing_or_wrong_is_said() -> None:
    with pytest.raises(MissingInput, match="turn column 'checks' and a trajectory column 'checks_start'"):
        procredit().score([rollout("a", [{}], reward=1.0)])
    with pytest.raises(InvalidArgument, match="turn_unit"):
        procredit(turn_unit="token")  # type: ignore[arg-type]


def test_checks_that_are_run_take_the_place_of_recorded_ones(tmp_path: Path) -> None:
    """A file that defines `potential`: its function runs the checks on every state."""
    file = tmp_path / "checks.py"
    file.write_text(
        "from apportion.rewards.potentials import checks_potential\n"
        "def run(t):\n"
        "    return [{'passed': n, 'total': 4} for n in (0, *t.columns['ran'])]\n"
        "potential = checks_potential(run)\n"
    )
    rollouts = [
        rollout("1", [{}] * 3, reward=1.0, ran=[1, 1, 4]),
        rollout("2", [{}] * 2, reward=0.0, ran=[2, 1]),
    ]
    recipe = procredit(potential=str(file), eps=0.0)
    assert recipe.needs == ("trajectory column 'reward'",)
    assert advantages(recipe, rollouts) == pytest.approx([1.65, 1.525, 1.525, -1.725, -1.975])


def test_progress_shows_in_the_ledger_of_its_own() -> None:
    credit, _ = procredit(eps=0.0).score([DONE, HALF])
    ledger = credit.ledger()
    assert set(ledger) == {"outcome", "progress"}
    # Across attempts (2 / 1.375) and across turns, where the outcome's mean is that of three turns of five.
    assert ledger["outcome"][0] == pytest.approx(0.5 * 2 / 1.375 + 1 - 0.6)
