"""DPS: the worked numbers, drift, and what is missing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.planning import DPS

GROUPS = st.sampled_from([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.5]])


def test_the_worked_numbers() -> None:
    planner = DPS(discount=0.5)
    assert planner.predicted("q") == pytest.approx([1 / 3] * 3)
    planner.update({"q": [1.0, 0.0]})
    assert planner.predicted("q") == pytest.approx([0.3, 0.4, 0.3])
    planner.update({"q": [1.0, 1.0]})
    assert planner.predicted("q") == pytest.approx([0.3158, 0.3684, 0.3158], abs=1e-4)
    assert planner.score("q") == planner.predicted("q")[1]


def _by_hand(states: list[int | None], discount: float) -> list[float]:
    """The equations, element by element: None is a round in which the prompt is not visited."""
    a, b = [[1.0] * 3 for _ in range(3)], [1 / 3] * 3

    def move(to: int, origin: int) -> float:
        return a[to][origin] / sum(a[t][origin] for t in range(3))

    for state in states:
        joint = [b[f] * move(state, f) for f in range(3)] if state is not None else [0.0] * 3
        moved = [sum(move(t, f) * b[f] for f in range(3)) for t in range(3)]
        a = [[discount * a[t][f] + 1 - discount for f in range(3)] for t in range(3)]
        if state is None:
            b = moved
        else:
            a[state] = [a[state][f] + joint[f] / sum(joint) for f in range(3)]
            b = [float(t == state) for t in range(3)]
    return [sum(move(t, f) * b[f] for f in range(3)) for t in range(3)]


@given(st.lists(st.sampled_from([0, 1, 2, None]), max_size=7), st.sampled_from([0.0, 0.5, 1.0]))
def test_it_is_what_the_equations_say(states: list[int | None], discount: float) -> None:
    groups = {0: [0.0, 0.0], 1: [1.0, 0.0], 2: [1.0, 1.0]}
    planner = DPS(discount=discount)
    for state in states:
        planner.update({} if state is None else {"q": groups[state]})
    # Before its first visit a prompt is not in the table; drifting would leave the uniform belief as it is.
    assert planner.predicted("q") == pytest.approx(_by_hand(states, discount))


def test_a_prompt_that_is_not_visited_drifts_back() -> None:
    planner = DPS(discount=0.5)
    planner.update({"q": [1.0, 0.0]})
    scores = [planner.score("q")]
    for _ in range(30):
        planner.update({"other": [1.0, 0.0]})
        scores.append(planner.score("q"))
    # First step by hand: counts fade to (1, 7/6, 1) in the row "partial", the belief becomes (.3, .4, .3).
    assert scores[1] == pytest.approx(7 / 19)
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] == pytest.approx(1 / 3)


def test_partial_is_anything_between() -> None:
    seen = DPS()
    seen.update({"half": [0.5, 0.5], "mixed": [0.0, 1.0]})
    assert seen.predicted("half") == seen.predicted("mixed")


@given(st.lists(st.dictionaries(st.sampled_from("abc"), GROUPS), max_size=5))
def test_laws(rounds: list[dict[str, list[float]]]) -> None:
    one, other = DPS(), DPS()
    for rewards in rounds:
        one.update(rewards)
        other.update({**dict(reversed(rewards.items())), "z": [], "y": [None]})
    for prompt in "abcz":
        assert one.predicted(prompt) == pytest.approx(other.predicted(prompt))
        assert sum(one.predicted(prompt)) == pytest.approx(1.0)
        assert 0 < one.score(prompt) < 1
    assert "z" not in other.state_dict()["prompts"]


@given(st.integers(1, 8))
def test_the_oftener_mixed_the_likelier_mixed(n: int) -> None:
    few, many = DPS(discount=1.0), DPS(discount=1.0)
    for i in range(n + 1):
        many.update({"q": [1.0, 0.0]})
        if i < n:
            few.update({"q": [1.0, 0.0]})
    assert many.score("q") > few.score("q")


def test_bad_arguments() -> None:
    with pytest.raises(InvalidArgument, match="discount"):
        DPS(discount=-0.1)
    with pytest.raises(InvalidArgument, match="rewards"):
        DPS().update({"q": [2.0]})
    state = DPS().state_dict()
    for bad in ({**state, "prompts": ["q"]}, {**state, "kind": "MoPPS"}, {"kind": "DPS"}, []):
        with pytest.raises(InvalidArgument, match="state"):
            DPS().load_state_dict(bad)  # type: ignore[arg-type]


def test_many_prompts_are_one_step() -> None:
    planner, rewards = DPS(), {f"q{i}": [float(i % 2), 0.0] for i in range(2000)}
    for _ in range(20):
        planner.update(rewards)
    assert np.isfinite([planner.score(prompt) for prompt in rewards]).all()
