"""Where states end, which turns are transitions, and what is not asked."""

import numpy as np
import pytest

from apportion.errors import InvalidArgument
from apportion.judges.scoring import LogProbs
from apportion.judges.scoring.potentials import answer_probability, log_gap
from apportion.judges.scoring.potentials.states import boundaries, is_answer
from apportion.rewards.potential import Potential, potential_rewards
from apportion.rollouts import Trajectory, Turn
from apportion.verdicts import Abstained, Failed, Scored
from tests.judges.scoring.told import Told, rollout, target, with_table


def test_states_end_after_the_observation() -> None:
    lead_in = Trajectory(id="r", group="q", prompt_ids=[1, 2], response_ids=[3] * 7, policy=[0, 1, 1, 0, 0, 1, 0])
    assert boundaries(lead_in).tolist() == [3, 7, 9]
    assert boundaries(Trajectory(id="r", group="q", response_ids=[], prompt_ids=[1])).tolist() == [1]


def test_one_request_holds_every_state() -> None:
    told = Told([-1.0] * 4)
    log_gap(told, target=lambda _: target(7, 8, lead=[3])).values([rollout(2, answer=True)])
    (request,) = told.asked
    assert request.ids.tolist() == [5, 6, *range(10, 18)]
    assert request.at.tolist() == [2, 5, 8, 10]
    assert [one.tolist() for one in request.targets] == [[7, 8]] * 4
    assert request.lead.tolist() == [3]


@pytest.mark.parametrize(
    ("trajectory", "last"),
    [
        (rollout(2), False),
        (rollout(1, answer=True), True),
        (with_table(rollout(2), Turn(observation="seen"), Turn(observation="seen too")), False),
        (with_table(rollout(2), Turn(observation="seen"), Turn(text="Paris")), True),
    ],
)
def test_the_answer_turn_is_the_last_one_that_nothing_answered(trajectory: Trajectory, last: bool) -> None:
    assert [is_answer(trajectory, turn) for turn in range(trajectory.n_turns)] == [False, last]


def test_the_answer_turn_abstains_and_an_unexecuted_one_carries() -> None:
    turns = (Turn(observation="a"), Turn(executed=False, observation="no such tool"), Turn(observation="b"), Turn())
    trajectory = with_table(rollout(3, answer=True), *turns)
    potential = answer_probability(Told(np.log([0.1, 0.3, 0.9, 0.5, 0.6]).tolist()), target=lambda _: target(7))
    (values,) = potential.values([trajectory])
    assert [one.value for one in values[:4] if isinstance(one, Scored)] == pytest.approx([0.1, 0.3, 0.3, 0.5])
    assert isinstance(values[4], Abstained)


@pytest.mark.parametrize(
    ("asked_for", "reason"),
    [
        (None, "there is no target to score"),
        (target(), "the target is empty"),
        (target(*range(5)), "the target has 5 tokens, the limit is 4"),
    ],
)
@pytest.mark.parametrize("make", [log_gap, answer_probability])
def test_nothing_to_score_abstains_everywhere(make: object, asked_for: object, reason: str) -> None:
    told = Told([-1.0] * 3)
    potential = make(told, target=lambda _: asked_for, longest_target=4)  # type: ignore[operator]
    assert potential.values([rollout(2)]) == [[Abstained(reason)] * 3]
    assert told.asked == []


def test_text_only_and_labels_are_not_scored() -> None:
    text = Trajectory(id="t", group="q", turns=(Turn(text="hi"),))
    label = Trajectory(id="l", group="q", prompt_ids=[1], response_ids=[2, -100], policy=[1, 0])
    values = log_gap(Told([-1.0, -1.0]), target=lambda _: target(7)).values([text, rollout(1), label])
    assert values[0] == [Abstained("no token ids were recorded")] * 2
    assert all(isinstance(one, Scored) for one in values[1])
    assert values[2] == [Abstained("negative ids are no tokens (index 2)")] * 2


@pytest.mark.parametrize("wrong", [0.5, float("nan"), float("-inf")])
def test_a_log_prob_above_zero_or_not_finite_is_a_failure(wrong: float) -> None:
    (values,) = log_gap(Told([-1.0, wrong]), target=lambda _: target(7)).values([rollout(1)])
    assert values[0] == Scored(0.0, "mean log-prob -1.0000, -1.0000 at start")
    assert isinstance(values[1], Failed)


def test_a_missing_start_is_missing_everywhere_for_the_gap_only() -> None:
    told = Told([Failed("timeout"), -1.0])
    assert log_gap(told, target=lambda _: target(7)).values([rollout(1)]) == [[Failed("timeout")] * 2]
    (values,) = answer_probability(told, target=lambda _: target(7)).values([rollout(1)])
    assert [type(one) for one in values] == [Failed, Scored]


def test_another_number_of_scores_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"answers of 'told'=2: expected one per state \(3 states\)"):
        log_gap(Told([-1.0, -1.0]), target=lambda _: target(7)).values([rollout(2)])


def test_they_are_potentials_and_enter_a_recipe_as_two_observers() -> None:
    potential = log_gap(Told([-2.0, LogProbs(np.array([-1.0, -1.0]))]), target=lambda _: target(7))
    assert isinstance(potential, Potential)
    start, after = potential_rewards(potential)
    rollouts = [rollout(1)]
    assert [one.value for one in start.observe(rollouts)] == [0.0]  # type: ignore[union-attr]
    assert [one.value for one in after.observe(rollouts)[0]] == [pytest.approx(np.log(2.1 / 1.1))]  # type: ignore[index]
