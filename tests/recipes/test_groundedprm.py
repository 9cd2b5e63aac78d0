"""GroundedPRM: verified steps beside the outcome, or a value of the path from each step on."""

from __future__ import annotations

from typing import Literal

import pytest

from apportion.advantages import grpo
from apportion.errors import InvalidArgument, MissingInput
from apportion.quick import rewards_signal
from apportion.recipes.groundedprm import groundedprm, simulated_value
from apportion.rollouts import Trajectory
from tests.recipes.builders import advantages, by, rollout
from tests.recipes.test_igpo import pooled


def verified(name: str, *verdicts: float | None, reward: float, group: str = "q") -> Trajectory:
    return rollout(name, by("step_verdict", verdicts), group=group, reward=reward)


ONE, TWO = verified("1", 1, -1, None, reward=1.0), verified("2", 1, 1, reward=0.0)


def test_the_value_of_one_path() -> None:
    assert simulated_value([1.0, -1.0], 1.0) == pytest.approx(0.75)
    assert simulated_value([], -1.0) == -1.0
    assert simulated_value([1.0], 1.0, outcome_weight=0.5) == 1.5


def test_every_turn_has_the_value_of_the_path_from_it_on() -> None:
    """U = .75, 0, 1 for (+, -, F = +1); U = 1 - 1 = 0 and -1 for (+, F = -1): the last verdict is the outcome's."""
    made = advantages(groundedprm(form="value", eps=0.0), [ONE, TWO])
    assert made == pytest.approx(pooled(0.75, 0.0, 1.0, 0.0, -1.0))
    weighed = advantages(groundedprm(form="value", outcome_weight=2.0, step_weight=3.0, eps=0.0), [ONE, TWO])
    assert weighed == pytest.approx(pooled(3 * 0.25 + 1.0, -3.0 + 2.0, 2.0, 3.0 - 2.0, -2.0))


def test_verdicts_beside_the_outcome() -> None:
    a, b, c, d = pooled(1, -1, 1, 1)
    won = 0.5**0.5
    made = advantages(groundedprm(eps=0.0, step_weight=0.5), [ONE, TWO])
    assert made == pytest.approx([won + (a + b) / 2, won + b / 2, won, -won + (c + d) / 2, -won + d / 2])


def test_equal_verdicts_leave_grpo() -> None:
    rollouts = [verified(str(i), *[1] * (i + 1), reward=float(i == 0)) for i in range(4)]
    expected = grpo(rewards_signal([1.0, 0.0, 0.0, 0.0])).values.tolist()
    made = advantages(groundedprm(eps=0.0), rollouts)
    assert made == pytest.approx([a for i, a in enumerate(expected) for _ in range(i + 1)])


def test_two_prompts_never_mix() -> None:
    for form in ("steps", "value"):
        recipe = groundedprm(form=form)
        mixed = [ONE, verified("3", -1, reward=1.0, group="p"), TWO, verified("4", 1, reward=0.0, group="p")]
        made = advantages(recipe, mixed)
        assert [*made[:3], *made[4:6]] == pytest.approx(advantages(recipe, [ONE, TWO]))


def test_its_use_as_credit_is_said_to_be_a_reconstruction() -> None:
    assert "labels data" in groundedprm().reconstruction


def test_what_is_missing_or_wrong_is_said() -> None:
    with pytest.raises(MissingInput, match=r"turn column 'step_verdict'.*let a tool verify"):
        groundedprm().score([rollout("a", [{}], reward=1.0)])
    with pytest.raises(InvalidArgument, match="form"):
        groundedprm(form="tree")  # type: ignore[arg-type]


def test_a_verdict_on_a_turn_in_which_the_policy_wrote_nothing_says_nothing() -> None:
    other = rollout("2", by("step_verdict", [-1, 1]), tokens=[1, 1], reward=0.0)

    def made(form: Literal["steps", "value"], verdicts: list[int], tokens: list[int]) -> list[float]:
        first = rollout("1", by("step_verdict", verdicts), tokens=tokens, reward=1.0)
        return advantages(groundedprm(form=form), [first, other])

    for form in ("steps", "value"):
        expected = made(form, [1, -1], [1, 1])
        for noise in (1, -1):
            assert made(form, [noise, 1, noise, -1, noise], [0, 1, 0, 1, 0]) == pytest.approx(expected)
