"""Shaping is what a recipe refuses to train on alone; a sum with an outcome in it drives."""

from __future__ import annotations

import pytest

from apportion.errors import RecipeRefused
from apportion.recipe import Recipe
from apportion.rewards import (
    Reward,
    before,
    called,
    checks_passed,
    clip,
    difference,
    first_of,
    gate,
    outcome,
    overlong,
    path,
    reduce_turns,
    repetition,
    reward,
    scoped,
    step_reward,
    tag_format,
    tool_calls,
    weighted_mean,
)
from apportion.rewards.anchors import anchor
from apportion.rewards.annotators import labelled
from apportion.rewards.base import role_of
from apportion.rewards.branches import branch_rewards, tree_key
from apportion.rewards.prefixes import prefixes
from apportion.rollouts import Level

RULES = path([before(called("read"), called("edit"))])
SHORT = overlong(max_tokens=10, cache=2)


@reward
def own(trajectory: object) -> float:
    return 1.0


@reward(level=Level.TURN)
def steps(trajectory: object) -> list[float]:
    return []


@pytest.mark.parametrize(
    "shaping",
    [
        RULES,
        RULES.violations,
        -RULES,
        SHORT,
        0.5 * SHORT + repetition(),
        clip(SHORT, low=-1),
        gate(outcome(), then=SHORT),
        scoped("maths", SHORT),
        difference(steps, initial=0.0),
        reduce_turns(RULES, how="last"),
        weighted_mean([(SHORT, 1.0), (repetition(), 1.0)]),
        tag_format(),
        tool_calls(),
        checks_passed(),
    ],
    ids=lambda made: made.name,
)
def test_shaping_alone_is_refused(shaping: Reward) -> None:
    assert shaping.role == "shaping"  # type: ignore[attr-defined]
    with pytest.raises(RecipeRefused):
        Recipe(name="x", observers=[shaping], assign_signals=lambda *a, **k: None, aggregation="token-mean")  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    "driving",
    [
        outcome(),
        own,
        steps,
        step_reward(),
        outcome() + SHORT,
        gate(SHORT, then=outcome()),
        first_of([SHORT, outcome()]),
    ],
    ids=lambda made: made.name,
)
def test_an_outcome_drives_also_in_company(driving: Reward) -> None:
    assert driving.role == "outcome"  # type: ignore[attr-defined]
    Recipe(name="x", observers=[driving], assign_signals=lambda *a, **k: None, aggregation="token-mean")  # type: ignore[arg-type,return-value]


def test_what_gives_codes_is_a_label() -> None:
    kinds = [anchor(), prefixes(), tree_key(), labelled(lambda t: None, ["a"]), *branch_rewards()]
    assert [kind.role for kind in kinds] == ["label"] * 6 + ["shaping"]
    assert role_of(anchor(), prefixes()) == "label"
    assert role_of(anchor(), SHORT) == "shaping"
    assert role_of(anchor(), own) == "outcome"
