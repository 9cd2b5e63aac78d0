"""IAPO: the worked weights from the graph itself, its laws, and HCA, whose weights come from hindsight."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from apportion import recipes
from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards.annotators import Links
from apportion.rollouts import Trajectory, Turn
from tests.recipes.builders import advantages

USED = {"supports": [[0, 1], [0, 2]]}
BROKEN = {"supports": [[0, 1], [0, 2]], "failed_uses": [[1, 2]], "errors": [1]}


def rollout(name: str, reward: float, links: Any = None, tokens: tuple[int, ...] = (10, 20, 10)) -> Trajectory:
    """Three turns of so many tokens."""
    ends = [sum(tokens[: k + 1]) for k in range(len(tokens))]
    turns = [Turn(span=(end - n, end)) for n, end in zip(tokens, ends, strict=True)]
    columns = {"reward": reward, **({} if links is None else {"links": links})}
    return Trajectory(id=name, group="q", turns=turns, columns=columns, response_ids=list(range(sum(tokens))))  # type: ignore[arg-type]


def weights(won: Any, lost: Any, **settings: Any) -> tuple[list[float], list[float]]:
    """Of a success and of a failure, per turn; population statistics make their advantages 1 and -1."""
    rows = [rollout("won", 1.0, won), rollout("lost", 0.0, lost)]
    made = advantages(recipes.load("iapo", dialect="rllm", **settings), rows)
    assert sum(made[:40]) == pytest.approx(40.0, rel=1e-5)
    assert sum(made[40:]) == pytest.approx(-40.0, rel=1e-5)
    return [made[at] for at in (0, 10, 30)], [-made[at] for at in (40, 50, 70)]


def test_worked_weights_without_errors() -> None:
    won, lost = weights(USED, USED)
    assert won == pytest.approx([1.4186, 0.8605, 0.8605], abs=1e-4)
    assert lost == pytest.approx([1.0, 1.0, 1.0], abs=1e-4)


def test_worked_weights_with_an_error() -> None:
    won, lost = weights(BROKEN, BROKEN)
    assert won == pytest.approx([1.4607, 0.8266, 0.8860], abs=1e-4)
    assert lost == pytest.approx([0.7551, 1.2449, 0.7551], abs=1e-4)


def test_without_restraint_an_error_costs_a_success_nothing() -> None:
    assert weights(BROKEN, BROKEN, restraint=0.0)[0] == pytest.approx([1.4186, 0.8605, 0.8605], abs=1e-4)


@pytest.mark.parametrize("links", [{}, {"from_user": [0, 1, 2]}, {"errors": [0, 1, 2]}, None, "nonsense"])
def test_equal_or_unknown_features_are_grpo(links: Any) -> None:
    rows = [rollout("won", 1.0, links), rollout("lost", 0.0, links), rollout("other", 0.0, {})]
    made, _ = recipes.load("iapo").score(rows, failure_limit=1.0)
    plain, _ = recipes.load("grpo").score(rows)
    assert made.advantages.values.tolist() == pytest.approx(plain.advantages.values.tolist())


def test_a_dead_group_stays_dead() -> None:
    assert set(advantages(recipes.load("iapo"), [rollout("a", 1.0, USED), rollout("b", 1.0, BROKEN)])) == {0.0}


def test_a_judge_that_waits() -> None:
    async def judge(trajectory: Trajectory) -> Links:
        return Links(supports=[(0, 1), (0, 2)])

    recipe = recipes.load("iapo", dialect="rllm", annotator=judge)
    made = advantages(recipe, [rollout("won", 1.0), rollout("lost", 0.0)])
    assert [made[at] for at in (0, 10, 30)] == pytest.approx([1.4186, 0.8605, 0.8605], abs=1e-4)
    assert recipe.parameters["annotator"] == "judge"


def test_what_is_missing_and_wrong_is_named() -> None:
    with pytest.raises(MissingInput, match="trajectory column 'links'"):
        recipes.load("iapo").score([rollout("a", 1.0)])
    for setting, value in (("limit", -0.1), ("limit", 1e6), ("restraint", -1.0), ("restraint", math.inf)):
        with pytest.raises(InvalidArgument, match=setting):
            recipes.load("iapo", **{setting: value})


# --------------------------------------------------------------------------------------------------------- hindsight


def hindsight(name: str, reward: float, policy: list[float], after: list[float]) -> Trajectory:
    """Two turns of two tokens."""
    return Trajectory(
        id=name,
        group="q",
        columns={"reward": reward},
        response_ids=[1, 2, 9, 3, 4],  # type: ignore[arg-type]
        policy=[1, 1, 0, 1, 1],  # type: ignore[arg-type]
        behaviour_logps=[*policy[:2], 0.0, *policy[2:]],  # type: ignore[arg-type]
        token_columns={"hindsight_logps": [*after[:2], math.nan, *after[2:]]},  # type: ignore[dict-item]
    )


LOG = [math.log(p) for p in (0.5, 0.5, 0.5, 1.0)]
AFTER = [math.log(p) for p in (0.5, 1.0, 0.25, 1.0)]


def test_a_turn_is_worth_the_return_as_far_as_hindsight_expects_it() -> None:
    row = hindsight("a", 1.0, LOG, AFTER)
    assert advantages(recipes.load("hca"), [row]) == pytest.approx([0.5, 0.5, -1.0, -1.0])
    assert advantages(recipes.load("hca", action="token"), [row]) == pytest.approx([0.0, 0.5, -1.0, 0.0])
    assert advantages(recipes.load("hca", limit=1.5), [row]) == pytest.approx([0.5, 0.5, -0.5, -0.5])


def test_hindsight_that_changes_nothing_gives_nothing() -> None:
    assert advantages(recipes.load("hca"), [hindsight("a", 1.0, LOG, LOG)]) == [0.0] * 4


def test_an_action_that_was_not_scored_gets_the_return() -> None:
    row = hindsight("a", 2.0, LOG, [math.nan, AFTER[1], AFTER[2], AFTER[3]])
    assert advantages(recipes.load("hca"), [row]) == pytest.approx([2.0, 2.0, -2.0, -2.0])


def test_an_action_is_what_was_sampled_of_it() -> None:
    """The end token of the first turn was appended by hand: 1 - (1/2) / (1/4) for the token before it."""
    row = hindsight("a", 1.0, LOG, [math.log(0.25), *AFTER[1:]])
    logps = [LOG[0], -math.inf, 0.0, *LOG[2:]]
    row = dataclasses.replace(row, own=[1, 0, 0, 1, 1], behaviour_logps=logps)  # type: ignore[arg-type]
    assert advantages(recipes.load("hca"), [row]) == pytest.approx([-1.0, 0.0, -1.0, -1.0])


def test_the_return_may_be_compared_inside_the_group() -> None:
    rows = [hindsight("a", 1.0, LOG, AFTER), hindsight("b", 0.0, LOG, AFTER)]
    made = advantages(recipes.load("hca", baseline="group"), rows)
    assert made == pytest.approx([0.25, 0.25, -0.5, -0.5, -0.25, -0.25, 0.5, 0.5])


def test_missing_columns_say_how_they_come_about() -> None:
    bare = Trajectory(id="a", group="q", columns={"reward": 1.0}, response_ids=[1], behaviour_logps=[-1.0])  # type: ignore[arg-type]
    with pytest.raises(MissingInput, match=r"hindsight_logps.*outcome in the context"):
        recipes.load("hca").score([bare])
    for setting, value in (("action", "word"), ("baseline", "batch"), ("limit", 0.0)):
        with pytest.raises(InvalidArgument, match=setting):
            recipes.load("hca", **{setting: value})
