"""Annotators: notes in words become codes, flags and features; what cannot be read is a failure, never a 0."""

from __future__ import annotations

import asyncio
import gc
import math
import pickle
import time
import warnings
from typing import Any

import pytest

from apportion import recipes
from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import observe, reward
from apportion.rewards.annotators import (
    Label,
    Links,
    decisive_turn,
    first_error,
    flagged,
    labelled,
    link_features,
    recorded_notes,
)
from apportion.rewards.potential import potential_rewards
from apportion.rewards.potentials import learned_potential, monte_carlo_potential, on_scale
from apportion.rollouts import Level, Trajectory, Turn
from apportion.verdicts import Abstained, Failed, Scored, Verdict

ROLES = ["progress", "explore", "regress"]


def rollout(turns: int = 3, id: str = "r", **columns: Any) -> Trajectory:
    return Trajectory(id=id, group="q", turns=[Turn(text=str(k)) for k in range(turns)], columns=columns)


def seen(observer: Any, *rollouts: Trajectory) -> list[Any]:
    return observe([observer], rollouts or [rollout()], failure_limit=1.0)[observer.name]


# ------------------------------------------------------------------------------------------------- labels and flags


def test_labels_are_codes_and_keep_their_words() -> None:
    notes = ["explore", Label("progress", "found the file"), None]
    assert seen(labelled(lambda t: notes, ROLES)) == [
        [Scored(1.0, "explore"), Scored(0.0, "progress: found the file"), Abstained("no label")]
    ]


@pytest.mark.parametrize("note", ["Explore", "", 3, ["explore"], Label(name=7)])  # type: ignore[arg-type]
def test_a_label_that_was_not_declared_is_a_failure_of_its_turn(note: Any) -> None:
    found = seen(labelled(lambda t: ["explore", note, "regress"], ROLES))[0]
    assert [type(v) for v in found] == [Scored, Failed, Scored]
    assert "progress, explore, regress" in found[1].error


@pytest.mark.parametrize("notes", ["explore", ["explore"], [], 3.0, {"0": "explore"}, object()])
def test_notes_in_another_form_are_a_failure_of_the_rollout(notes: Any) -> None:
    for observer in (labelled(lambda t: notes, ROLES), flagged(lambda t: notes)):
        assert all(isinstance(v, Failed) for v in seen(observer)[0])


@pytest.mark.parametrize("note", [None, Abstained("not a task for labels"), Failed("the judge is down")])
def test_no_notes_are_no_notes_on_any_turn(note: Verdict | None) -> None:
    kind = Abstained if note is None else type(note)
    assert [type(v) for v in seen(labelled(lambda t: note, ROLES))[0]] == [kind] * 3
    assert [type(v) for v in seen(link_features(lambda t: note)[0])[0]] == [kind] * 3


def test_flags_are_zero_or_one() -> None:
    found = seen(flagged(lambda t: [True, Scored(0.0, "only looks"), 0.5]))[0]
    assert found[:2] == [Scored(1.0), Scored(0.0, "only looks")]
    assert isinstance(found[2], Failed)


def test_labels_are_declared_once() -> None:
    for labels in ([], ["a", "a"], "ab", [""], [1]):
        with pytest.raises(InvalidArgument, match="labels"):
            labelled(lambda t: None, labels)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="annotator"):
        labelled(3, ["a"])  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------- asynchronous


def test_a_judge_that_waits_fails_alone_and_in_time() -> None:
    async def judge(trajectory: Trajectory) -> list[str]:
        if trajectory.id == "slow":
            await asyncio.sleep(5)
        if trajectory.id == "broken":
            raise OSError("no connection")
        return ["explore"] * 3

    rows = [rollout(id=name) for name in ("good", "slow", "broken")]
    started = time.monotonic()
    found = observe([labelled(judge, ROLES)], rows, failure_limit=1.0, timeout=0.2)["label"]
    assert time.monotonic() - started < 2
    assert [type(row[0]) for row in found] == [Scored, Failed, Failed]  # type: ignore[index]
    assert "no answer within 0.2 s" in found[1][0].error  # type: ignore[index, union-attr]
    assert "no connection" in found[2][0].error  # type: ignore[index, union-attr]


def test_an_exception_fails_its_rollout_and_is_located() -> None:
    def judge(trajectory: Trajectory) -> list[str]:
        if trajectory.id == "bad":
            raise ValueError("hm")
        return ["explore"] * 3

    good, bad = seen(labelled(judge, ROLES), rollout(id="good"), rollout(id="bad"))
    assert [type(v) for v in good] == [Scored] * 3
    assert "ValueError: hm at test_annotators.py" in bad[0].error


def test_one_annotation_serves_both_features() -> None:
    asked: list[str] = []

    async def judge(trajectory: Trajectory) -> Links:
        asked.append(trajectory.id)
        await asyncio.sleep(0)
        return Links(supports=[(0, 1)])

    observers = link_features(judge)
    observe(observers, [rollout(id="a"), rollout(id="b")])
    assert sorted(asked) == ["a", "b"]
    observe(observers, [rollout(id="c")])
    assert len(asked) == 3


async def _links(trajectory: Trajectory) -> Links:
    return Links()


async def _half(trajectory: Trajectory) -> float:
    return 0.5


@pytest.mark.parametrize(
    "observers",
    [
        pytest.param(lambda: link_features(_links), id="links"),
        pytest.param(lambda: potential_rewards(learned_potential(_half)), id="head"),
        pytest.param(lambda: potential_rewards(on_scale(learned_potential(_half), "log")), id="scale"),
        pytest.param(lambda: potential_rewards(monte_carlo_potential(_returns)), id="continuations"),
        pytest.param(lambda: potential_rewards(_Coroutine()), id="coroutine"),
    ],
)
def test_what_nobody_waits_for_leaves_no_coroutine_behind_and_may_be_asked_again(observers: Any) -> None:
    pair, rows = list(observers()), [rollout()]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(MissingInput):
            observe([*pair, labelled(recorded_notes("nowhere"), ROLES)], rows)
        gc.collect()
    assert [str(warning.message) for warning in told] == []
    found = observe(pair, rows)
    assert all(isinstance(v, Scored) for v in found[pair[1].name][0])  # type: ignore[union-attr]


async def _returns(state: Trajectory, n: int) -> list[float]:
    return [0.5] * n


class _Coroutine:
    name = "phi"

    async def values(self, trajectories: list[Trajectory]) -> list[list[Verdict]]:
        return [[Scored(0.5)] * (t.n_turns + 1) for t in trajectories]


def test_a_plain_function_may_not_wait() -> None:
    async def inner(trajectory: Trajectory) -> list[str]:
        return ["explore"] * 3

    with pytest.raises(InvalidArgument, match="async def"):
        seen(labelled(lambda t: inner(t), ROLES))


# ------------------------------------------------------------------------------------------------------------- links


def test_features_of_links() -> None:
    notes = Links(supports=[(0, 1), (0, 2), (0, 1)], failed_uses=[(1, 2)], errors=[1], from_user=[2, 2])
    support, failure = (seen(x)[0] for x in link_features(lambda t: notes))
    assert [v.value for v in support] == pytest.approx([math.log(3), math.log(2), math.log(4)])
    assert [v.value for v in failure] == pytest.approx([0.0, math.log(4), 0.0])
    assert failure[1].evidence == "an error; 1 turns suffer from it, it uses 1"
    told = seen(link_features(lambda t: Links(errors=[1], why="404 at turn 1"))[1])[0]
    assert [v.evidence for v in told][:2] == [
        "no error; '404 at turn 1'",
        "an error; 0 turns suffer from it, it uses 0; '404 at turn 1'",
    ]
    as_mapping = {"supports": [[0, 1], [0, 2]], "failed_uses": [[1, 2]], "errors": [1], "from_user": [2, 2]}
    assert seen(link_features(lambda t: as_mapping)[0])[0] == support


@pytest.mark.parametrize(
    "notes",
    [
        {"supports": [[1, 0]]},
        {"supports": [[0, 3]]},
        {"supports": [[-1, 0]]},
        {"supports": [[1, 1]]},
        {"supports": [["0", "1"]]},
        {"supports": ["01"]},
        {"supports": 7},
        {"errors": [3]},
        {"errors": [True]},
        {"errors": None},
        {"from_user": [0.0]},
        {"edges": []},
        [[0, 1]],
        "0->1",
    ],
)
def test_links_that_cannot_be_are_a_failure(notes: Any) -> None:
    for observer in link_features(lambda t: notes):
        assert all(isinstance(v, Failed) and len(v.error) < 400 for v in seen(observer)[0])


# ------------------------------------------------------------------------------------- recorded, and first errors


def test_what_was_recorded() -> None:
    turns = [Turn(columns={"role": "explore", "mutates": True}), Turn(columns={"role": None}), Turn()]
    t = Trajectory(id="r", group="q", turns=turns, columns={"links": {"errors": [2]}})
    roles = seen(labelled(recorded_notes("role"), ROLES), t)[0]
    assert [type(v) for v in roles] == [Scored, Abstained, Abstained]
    assert seen(flagged(recorded_notes("mutates")), t)[0][0] == Scored(1.0)
    failure = link_features(recorded_notes("links", per=Level.TRAJECTORY))[1]
    assert [v.value for v in seen(failure, t)[0]] == pytest.approx([0.0, 0.0, math.log(2)])


@pytest.mark.parametrize("per", [Level.TURN, Level.TRAJECTORY])
def test_a_column_that_is_nowhere_is_named(per: Level) -> None:
    with pytest.raises(MissingInput, match=f"{per.name.lower()} column 'rolle'"):
        seen(labelled(recorded_notes("rolle", per=per), ROLES))


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.9, 0.8, 0.3, 0.7], 2.0),
        ([0.9, None, 0.5, 0.5], None),
        ([None, None, None, 0.1], 3.0),
        ([], None),
    ],
)
def test_first_errors(scores: list[float | None], expected: float | None) -> None:
    process = reward(name="process", level=Level.TURN)(lambda t: scores)
    (found,) = seen(first_error(process), rollout(len(scores)))
    assert found.value == expected if expected is not None else isinstance(found, Abstained)


def test_an_error_behind_an_unknown_score_is_unknown() -> None:
    process = reward(name="process", level=Level.TURN)(lambda t: [0.9, float("nan"), 0.1])
    assert isinstance(seen(first_error(process))[0], Failed)
    with pytest.raises(InvalidArgument, match="TURN level"):
        first_error(reward(name="whole")(lambda t: 1.0))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.6, 0.7, 0.2, 0.1], 1.0),
        ([0.6, None, 0.2, 0.1], 1.0),
        ([0.4, 0.3, 0.7, 0.1], 2.0),
        ([0.4, 0.3, 0.3, 0.1], None),
        ([0.6, 0.5, 0.5, 0.5], None),
        ([0.6, float("nan"), 0.2, 0.1], "failed"),
        ([None, None, None, None], None),
    ],
)
def test_where_success_was_lost(values: list[float | None], expected: float | str | None) -> None:
    potential = learned_potential(lambda t: values, sees="trajectory")
    (found,) = seen(decisive_turn(potential))
    assert getattr(found, "value", "failed" if isinstance(found, Failed) else None) == expected


def test_what_lost_success_takes_the_blame() -> None:
    chance = learned_potential(lambda t: [0.6, 0.7, 0.2, 0.1], sees="trajectory")
    rows = [rollout(id=str(r), reward=r) for r in (0.0, 1.0)]
    made, _ = recipes.load("experimental/first_error", score=decisive_turn(chance)).score(rows)
    assert made.advantages.values[:3].tolist() == pytest.approx([0.0, -(0.5**0.5), 0.0])


def always(trajectory: Trajectory) -> list[str]:
    return ["explore"] * trajectory.n_turns


def test_observers_travel_to_other_processes() -> None:
    observer = labelled(always, ROLES)
    seen(observer)
    assert seen(pickle.loads(pickle.dumps(observer))) == seen(observer)
