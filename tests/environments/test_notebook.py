"""The notebook shows a window; only who has seen the last row can know the largest number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.environments import Environment, Notebook
from apportion.environments.notebook import NotebookState
from apportion.errors import InvalidArgument
from apportion.rollouts import Action, Trajectory

TASK = Notebook(values=20, rows=(5, 5), window=2, max_turns=6)


def play(text: str, *, seed: int = 0) -> tuple[tuple[int, ...], Trajectory]:
    """The numbers and the episode of moves separated by commas; MAX is the largest number."""
    environment = Environment(TASK)
    environment.reset(seed)
    numbers = environment.snapshot().state.numbers
    for move in text.replace("MAX", str(max(numbers))).split(", "):
        environment.step(TASK.vocabulary.encode(move))
    while environment.snapshot().status is None:
        environment.step(TASK.vocabulary.encode("malformed malformed"))
    return numbers, environment.trajectory(id="r", group="q")


def test_the_window_moves_down_and_stops_at_the_last_row() -> None:
    n, t = play("scroll +1, scroll +3, scroll +3, note 7")
    assert Environment(TASK).reset(0) == TASK.vocabulary.encode(f"rows=5 {n[0]} {n[1]}")
    assert [turn.observation for turn in t.turns[:4]] == [f"{n[1]} {n[2]}", f"{n[4]} END", f"{n[4]} END", f"{n[4]} END"]
    assert t.turns[3].columns["state"]["notes"] == [7]


@pytest.mark.parametrize(
    ("text", "reward", "violations", "fulfilments"),
    [
        ("scroll +3, submit MAX", 1.0, 0, 1),
        ("submit MAX", 1.0, 1, 0),
        ("scroll +2, submit MAX", 1.0, 1, 0),
        ("scroll +2, scroll +1, submit MAX", 1.0, 0, 1),
        ("scroll +3, scroll +1, scroll +1, submit MAX", 1.0, 0, 1),
    ],
)
def test_a_guess_before_the_last_row_is_the_violation(
    text: str, reward: float, violations: int, fulfilments: int
) -> None:
    _, t = play(text)
    assert (t.columns["reward"], t.columns["violations"], t.columns["fulfilments"]) == (reward, violations, fulfilments)
    assert t.columns["state"]["last_row_seen"] == (violations == 0)


def test_only_the_largest_number_of_all_rows_pays() -> None:
    numbers, _ = play("submit MAX")
    for answer in range(20):
        assert play(f"submit {answer}")[1].columns["reward"] == float(answer == max(numbers))


@pytest.mark.parametrize("move", ["scroll 3", "note +1", "submit END", "END submit", "3 3", "rows=5 1"])
def test_a_move_that_is_no_command_is_an_action_with_an_error(move: str) -> None:
    _, t = play(move)
    assert t.turns[0].actions[0].error is not None
    assert t.turns[0].observation == "malformed malformed"


@pytest.mark.parametrize(
    "action",
    [Action(name="scroll", arguments={"rows": 4}), Action(name="scroll"), Action(name="note"), Action(name="submit")],
)
def test_arguments_that_no_window_has_do_nothing(action: Action) -> None:
    state, _ = TASK.start(0)
    assert TASK.apply(state, action) == (TASK.apply(state, Action(name=None)))


@given(seed=st.integers(0, 200))
def test_numbers_are_distinct_and_the_prompt_shows_the_first(seed: int) -> None:
    task = Notebook()
    state, prompt = task.start(seed)
    assert 6 <= len(state.numbers) <= 12
    assert len(set(state.numbers)) == len(state.numbers)
    assert prompt == (f"rows={len(state.numbers)}", *map(str, state.numbers[:3]))
    assert not state.last_row_seen


def test_both_ends_of_the_number_of_rows_occur() -> None:
    assert {len(Notebook().start(seed)[0].numbers) for seed in range(100)} == set(range(6, 13))


def test_the_demonstrator_is_weak_and_obeys_the_turn_limit() -> None:
    """It reaches the last row in about a third of the notebooks, and is right less often than one who has seen it."""
    task = Notebook()
    rng = np.random.default_rng(0)
    environment, seen, right = Environment(task), 0, 0
    for seed in range(300):
        environment.reset(seed)
        for move in task.demonstrate(seed, rng):
            done = environment.step(task.vocabulary.ids(move)).done
        assert done
        state: NotebookState = environment.snapshot().state
        seen += state.last_row_seen
        right += environment.snapshot().reward == 1.0
    assert 60 < seen < 150
    assert 90 < right < 210


@pytest.mark.parametrize(
    "sizes",
    [{"window": 6}, {"window": 0}, {"rows": (3, 12)}, {"rows": (9, 8)}, {"values": 11}, {"max_turns": 0}],
)
def test_sizes_that_leave_no_task_are_refused(sizes: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match="rows"):
        Notebook(**sizes)  # type: ignore[arg-type]
