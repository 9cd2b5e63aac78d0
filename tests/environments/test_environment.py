"""The record is exact: same moves, same episode, by whatever way it was reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.batch import Batch
from apportion.environments import Environment, Episode, Notebook, Task, Terminal
from apportion.errors import InvalidArgument

Moves: TypeAlias = list[tuple[int, int]]

TASKS: list[Task[Any]] = [Terminal(), Terminal(max_turns=1), Notebook(), Notebook(rows=(2, 2), window=1, max_turns=3)]
SEEDS = st.integers(0, 40)

both = pytest.mark.parametrize("task", TASKS)


@st.composite
def moves(draw: st.DrawFn, task: Task[Any]) -> Moves:
    """Any ids at all; then moves like a demonstrator's, which get somewhere."""
    anything = st.integers(0, len(task.vocabulary) - 1)
    demonstrated = [
        task.vocabulary.ids(move)
        for move in task.demonstrate(draw(SEEDS), np.random.default_rng(draw(st.integers(0, 9))))
    ]
    sensible = st.sampled_from(demonstrated).map(lambda ids: (ids[0], ids[1]))
    return draw(st.lists(st.tuples(anything, anything) | sensible, min_size=task.max_turns, max_size=task.max_turns))


def play(environment: Environment[Any], seed: int, given_moves: Sequence[Sequence[int]]) -> list[Episode[Any]]:
    """The snapshot before the first move and after each, until the episode ends."""
    environment.reset(seed)
    seen = [environment.snapshot()]
    for move in given_moves:
        if environment.step(move).done:
            return [*seen, environment.snapshot()]
        seen.append(environment.snapshot())
    return seen


@both
@given(data=st.data())
def test_the_same_moves_give_the_same_episode(task: Task[Any], data: st.DataObject) -> None:
    seed, chosen = data.draw(SEEDS), data.draw(moves(task))
    assert play(Environment(task), seed, chosen) == play(Environment(task), seed, chosen)


@both
@given(data=st.data())
def test_restoring_forgets_what_came_after(task: Task[Any], data: st.DataObject) -> None:
    """From any snapshot, also in another environment, the rest plays as it did."""
    seed, chosen, other = data.draw(SEEDS), data.draw(moves(task)), data.draw(moves(task))
    environment = Environment(task)
    recorded = play(environment, seed, chosen)
    cut = data.draw(st.integers(0, len(recorded) - 1))
    play(environment, seed + 1, other)
    for restored in (environment, Environment(task)):
        restored.restore(recorded[cut])
        assert restored.snapshot() == recorded[cut]
        for move, after in zip(chosen[cut:], recorded[cut + 1 :], strict=False):
            restored.step(move)
            assert restored.snapshot() == after


@both
@given(data=st.data())
def test_resuming_from_a_prefix_of_ids_is_being_there(task: Task[Any], data: st.DataObject) -> None:
    seed, chosen = data.draw(SEEDS), data.draw(moves(task))
    recorded = play(Environment(task), seed, chosen)
    for there in recorded:
        resumed = Environment(task)
        resumed.resume(seed, there.response_ids)
        assert resumed.snapshot() == there


@both
@given(data=st.data())
def test_a_prefix_that_never_was_is_refused_and_changes_nothing(task: Task[Any], data: st.DataObject) -> None:
    seed, chosen = data.draw(SEEDS), data.draw(moves(task))
    recorded = play(Environment(task), seed, chosen)
    full = recorded[-1].response_ids
    environment = Environment(task)
    environment.restore(recorded[0])
    bad = [(*full, 0)] if recorded[-1].status else []
    ends = {len(there.response_ids) for there in recorded}
    bad += [full[:k] for k in range(len(full)) if k not in ends]
    spans = [turn.span for turn in recorded[-1].turns if turn.span is not None and turn.span[1] > turn.span[0] + 2]
    for _, stop in spans:
        bad.append((*full[: stop - 1], (full[stop - 1] + 1) % len(task.vocabulary), *full[stop:]))
    for prefix in bad:
        with pytest.raises(InvalidArgument):
            environment.resume(seed, prefix)
        assert environment.snapshot() is recorded[0]


@both
@given(data=st.data())
def test_lengths_depend_on_the_number_of_turns_alone(task: Task[Any], data: st.DataObject) -> None:
    recorded = play(Environment(task), data.draw(SEEDS), data.draw(moves(task)))
    assert len(recorded[0].prompt_ids) == task.prompt_length
    for turns, there in enumerate(recorded):
        ending = there.status is not None
        assert len(there.response_ids) == turns * (2 + task.observation_length) - ending * task.observation_length
    assert recorded[-1].status is not None
    assert len(recorded[-1].turns) <= task.max_turns


@both
@given(data=st.data())
def test_the_reward_comes_at_the_end_and_only_from_the_task(task: Task[Any], data: st.DataObject) -> None:
    recorded = play(Environment(task), data.draw(SEEDS), data.draw(moves(task)))
    assert all(there.status is None and there.reward == 0.0 for there in recorded[:-1])
    last = recorded[-1]
    assert last.reward in (0.0, 1.0)
    assert last.status == "terminated" or last.reward == 0.0
    assert all(turn.reward is None for turn in last.turns)


@both
@given(data=st.data())
def test_the_trajectory_is_the_record(task: Task[Any], data: st.DataObject) -> None:
    """Ids as played, two policy tokens a turn, counts that add up, and it packs into a batch by its spans."""
    environment = Environment(task)
    last = play(environment, data.draw(SEEDS), data.draw(moves(task)))[-1]
    logps = [-0.1 * k for k in range(2 * len(last.turns))]
    t = environment.trajectory(id="r", group="q", logps=logps, step=3)
    assert t.response_ids is not None
    assert t.policy is not None
    assert t.own is not None
    assert t.behaviour_logps is not None
    assert tuple(t.response_ids.tolist()) == last.response_ids
    assert (t.status, t.step, t.columns["reward"]) == (last.status, 3, last.reward)
    written = task.vocabulary.decode(t.response_ids[t.policy].tolist())
    assert written == " ".join(turn.text for turn in t.turns)
    answered = task.vocabulary.decode(t.response_ids[~t.policy].tolist())
    assert answered == " ".join(turn.observation for turn in t.turns[:-1])
    assert (t.own == t.policy).all()
    assert t.behaviour_logps[t.policy].tolist() == logps
    assert np.isnan(t.behaviour_logps[~t.policy]).all()
    batch = Batch.pack([t])
    assert batch.tokens is not None
    assert batch.tokens.tolist() == [2] * len(last.turns)
    for name in ("violations", "fulfilments"):
        assert t.columns[name] == sum(turn.columns[name] for turn in t.turns)
    for turn in t.turns:
        told = turn.columns["evidence"]
        assert told.count("violation: ") == turn.columns["violations"]
        assert told.count("fulfilment: ") == turn.columns["fulfilments"]
    assert t.columns["state"] == t.turns[-1].columns["state"]


def test_the_turn_limit_truncates_and_pays_nothing() -> None:
    """The tests would pass, but nobody submitted."""
    task = Terminal(max_turns=3)
    environment = Environment(task)
    words = task.vocabulary.encode
    recorded = play(environment, 0, [words("edit tests.py"), words("rm lock"), words("run .")])
    assert [there.status for there in recorded] == [None, None, None, "truncated"]
    assert recorded[-1].turns[-1].observation == "passed"
    assert environment.trajectory(id="r", group="q").columns["reward"] == 0.0
    with pytest.raises(InvalidArgument, match="truncated"):
        environment.step(words("submit ."))


def test_a_submission_in_the_last_turn_counts() -> None:
    task = Terminal(max_turns=3)
    words = task.vocabulary.encode
    recorded = play(Environment(task), 0, [words("edit tests.py"), words("rm lock"), words("submit .")])
    assert (recorded[-1].status, recorded[-1].reward) == ("terminated", 1.0)


def test_copied_tokens_and_demonstrations_are_not_own() -> None:
    task = Terminal(max_turns=2)
    environment = Environment(task)
    words = task.vocabulary.encode
    play(environment, 0, [words("wait ."), words("submit .")])
    copied = environment.trajectory(id="r", group="q", logps=[-1.0, -2.0], copied=3)
    assert copied.own is not None
    assert copied.own.tolist() == [False, False, False, True, True]
    shown = environment.trajectory(id="r", group="q")
    assert shown.own is not None
    assert not shown.own.any()
    assert shown.behaviour_logps is None


def test_what_cannot_be_is_refused() -> None:
    task = Terminal(max_turns=2)
    environment = Environment(task)
    with pytest.raises(InvalidArgument, match="reset"):
        environment.step([0, 1])
    environment.reset(0)
    for move in ([0], [0, 1, 2], [0, len(task.vocabulary)], [-1, 0]):
        with pytest.raises(InvalidArgument):
            environment.step(move)
    assert environment.snapshot().turns == ()
    with pytest.raises(InvalidArgument, match="0 turns"):
        environment.trajectory(id="r", group="q")
    environment.step([0, 0])
    environment.step([0, 0])
    with pytest.raises(InvalidArgument, match="4 numbers"):
        environment.trajectory(id="r", group="q", logps=[-1.0] * 3)
