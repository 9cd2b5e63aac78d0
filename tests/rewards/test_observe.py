"""Running rewards: order, concurrency, limits, and failures that stop a run."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
import time
import warnings
from typing import Any

import pytest

from apportion.errors import ApportionError, InvalidArgument, MissingExtra, ObserverFailing
from apportion.rewards import first_of, gate, observe, observe_async, reward, summarise, vector
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Failed, Scored
from tests.rewards.builders import Fixed, Slow, fixed, fixed_turns, kinds, rollouts, row, said, values


class Odd:
    """A reward that returns whatever it was given."""

    def __init__(self, answer: Any, level: Level = Level.TRAJECTORY) -> None:
        self.name, self.level, self.answer = "odd", level, answer

    def observe(self, trajectories: list[Trajectory]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_results_keep_the_order_and_shape_of_their_level() -> None:
    seen = observe([fixed("b", 1.0), fixed_turns("a", 0.0, 1.0)], [said("x", "y", id="0")])
    assert list(seen) == ["b", "a"]
    assert seen["b"] == [Scored(1.0)]
    assert seen["a"] == [[Scored(0.0), Scored(1.0)]]


def test_nothing_to_look_at() -> None:
    assert observe([Odd([1, 2, 3]), fixed_turns("a")], []) == {"odd": [], "a": []}  # type: ignore[list-item]
    assert observe([], rollouts(2)) == {}
    assert observe([fixed_turns("a")], rollouts(1)) == {"a": [[]]}


def test_sync_rewards_run_in_order() -> None:
    order: list[str] = []
    parts = [reward(name=name)(lambda t, name=name: order.append(name)) for name in "cab"]
    observe(parts, rollouts(2))
    assert order == ["c", "c", "a", "a", "b", "b"]


def test_async_rewards_run_together() -> None:
    meeting = asyncio.Barrier(4)

    @reward
    async def first(trajectory: Trajectory) -> float:
        await meeting.wait()
        return 1.0

    @reward
    async def second(trajectory: Trajectory) -> float:
        await meeting.wait()
        return 2.0

    # Each waits for all four calls to be under way.
    seen = observe([first, second], rollouts(2), timeout=10)
    assert values(seen["first"]) == [1.0, 1.0]
    assert values(seen["second"]) == [2.0, 2.0]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_concurrency_is_a_limit_over_all_rewards(concurrency: int) -> None:
    running, most = 0, 0

    async def busy(trajectory: Trajectory) -> float:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return 1.0

    parts = [reward(name=name)(busy) for name in "ab"]
    assert kinds(observe(parts, rollouts(5), concurrency=concurrency)["a"]) == "SSSSS"
    assert most == concurrency


def test_combinations_of_async_rewards_do_not_wait_for_their_own_slot() -> None:
    nested = first_of([Slow(fixed("none", None, None)), 0.5 * Slow(fixed("a", 1.0, 2.0)) + fixed("b", 1.0, 1.0)])
    assert values(observe([nested], rollouts(2), concurrency=1, timeout=10)[nested.name]) == [1.5, 2.0]


def test_it_works_inside_a_running_loop() -> None:
    async def main() -> Any:
        return observe([Slow(fixed("a", 1.0)), fixed("b", 2.0)], rollouts(1))

    assert {name: values(seen) for name, seen in asyncio.run(main()).items()} == {"a": [1.0], "b": [2.0]}


def test_the_async_form_stays_on_the_running_loop() -> None:
    loops = []

    @reward
    async def where(trajectory: Trajectory) -> float:
        loops.append(asyncio.get_running_loop())
        return 1.0

    async def main() -> None:
        seen = await observe_async([where, fixed("b", 2.0)], rollouts(1))
        assert values(seen["where"]) == [1.0]
        assert loops == [asyncio.get_running_loop()]

    asyncio.run(main())


def test_a_call_that_never_returns_fails_by_itself() -> None:
    never = threading.Event()

    @reward
    def sync(trajectory: Trajectory) -> float:
        if trajectory.id == "1":
            never.wait(30)
        return 0.2

    @reward
    async def waiting(trajectory: Trajectory) -> float:
        if trajectory.id == "1":
            await asyncio.Event().wait()
        return 0.2

    started = time.monotonic()
    seen = observe([sync, waiting], rollouts(3), timeout=0.2)
    assert time.monotonic() - started < 10
    never.set()
    for name in ("sync", "waiting"):
        assert kinds(seen[name]) == "SFS"
        assert "no answer within 0.2 s" in seen[name][1].error  # type: ignore[union-attr]


def test_a_timed_call_that_raises_is_located_like_any_other() -> None:
    @reward
    def broken(trajectory: Trajectory) -> float:
        raise KeyError("answer")

    @reward
    def misused(trajectory: Trajectory) -> float:
        raise InvalidArgument("a", 1, "2")

    seen = observe([broken, fixed("fine", 1.0)], rollouts(1), timeout=5, failure_limit=1)
    line = broken.function.__code__.co_firstlineno + 2
    assert seen == {"broken": [Failed(f"KeyError: 'answer' at test_observe.py:{line}")], "fine": [Scored(1.0)]}
    with pytest.raises(InvalidArgument):
        observe([misused], rollouts(1), timeout=5)


def test_an_async_batch_reward_that_raises_fails_every_rollout() -> None:
    class Down(Fixed):
        async def observe(self, trajectories: list[Trajectory]) -> Any:  # type: ignore[override]
            raise ConnectionError("refused")

    class Misused(Fixed):
        async def observe(self, trajectories: list[Trajectory]) -> Any:  # type: ignore[override]
            raise MissingExtra("httpx", "judges")

    assert kinds(observe([Down("down", {})], rollouts(2), failure_limit=1)["down"]) == "FF"
    with pytest.raises(MissingExtra):
        observe([Misused("misused", {})], rollouts(2))


def test_late_answers_leave_the_mean() -> None:
    script = [1, 0, "timeout", 1, "timeout", 0, "timeout", 1]

    @reward
    async def judged(trajectory: Trajectory) -> float:
        answer = script[int(trajectory.id)]
        if answer == "timeout":
            await asyncio.sleep(60)
        return float(answer)

    summary = summarise(observe([judged], rollouts(8), timeout=0.1)["judged"])
    assert (summary.mean, summary.scored, summary.failed, summary.failure_rate) == (0.6, 5, 3, 0.375)


def test_a_batch_reward_is_timed_as_one_call() -> None:
    class Stuck(Fixed):
        async def observe(self, trajectories: list[Trajectory]) -> Any:  # type: ignore[override]
            await asyncio.sleep(60)

    seen = observe([Stuck("stuck", {})], rollouts(2), timeout=0.05, failure_limit=1)
    assert kinds(seen["stuck"]) == "FF"


def test_a_reward_that_mostly_fails_stops_the_run() -> None:
    sandbox = ["ok", "unknown", "unknown", "ok", "unknown", "unknown", "unknown", "ok", "unknown", "ok"]

    @reward
    def executed(trajectory: Trajectory) -> float:
        if sandbox[int(trajectory.id)] != "ok":
            raise ConnectionError("http://placeholder")
        return 1.0

    with pytest.raises(ObserverFailing, match=r"'executed' failed on 6 of 10 \(60%; the limit is 50%\).*'1': Conn"):
        observe([executed], rollouts(10))
    seen = observe([executed], rollouts(10), failure_limit=0.6)
    assert values(seen["executed"]).count(None) == 6
    assert summarise(seen["executed"]).mean == 1.0


def test_a_failing_reward_that_nobody_needs_does_not_stop_a_run() -> None:
    seen = observe([Odd(ConnectionError("down"))], rollouts(2), failure_limit=1)
    assert kinds(seen["odd"]) == "FF"
    assert seen["odd"][0].error.startswith("ConnectionError: down at test_observe.py:")  # type: ignore[union-attr]


def test_failures_of_turns_are_counted_by_turn() -> None:
    part = fixed_turns("a", Failed("x"), 1.0, 1.0)
    assert kinds(observe([part], [said("", "", "", id="0")], failure_limit=0.34)["a"]) == "FSS"
    with pytest.raises(ObserverFailing, match="1 of 3"):
        observe([part], [said("", "", "", id="0")], failure_limit=0.33)


def test_the_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(ObserverFailing("judge", 3, 4, 0.5, "'r': timeout")))
    assert isinstance(error, ApportionError)
    assert str(error) == "reward 'judge' failed on 3 of 4 (75%; the limit is 50%); first failure: 'r': timeout"


@pytest.mark.parametrize(
    ("answer", "level", "complaint"),
    [
        ([Scored(1.0)], Level.TRAJECTORY, "2 entries, one per trajectory .got 1"),
        (None, Level.TRAJECTORY, "got NoneType"),
        ([1.0, Scored(1.0)], Level.TRAJECTORY, "'0': float"),
        ([Scored(1.0), Scored(1.0)], Level.TURN, "list of 1 entries, one per turn"),
        ([[Scored(1.0)], []], Level.TURN, "1 entries, one per turn .got 0"),
        ([[Scored(1.0)], [True]], Level.TURN, "'1': bool"),
    ],
)
def test_wrong_answers_name_the_reward_and_the_rollouts(answer: Any, level: Level, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint) as caught:
        observe([Odd(answer, level)], rollouts(2, turns=1))
    assert "odd.observe" in str(caught.value)


def test_an_exception_of_the_set_up_is_raised_through_combinations() -> None:
    absent = Odd(MissingExtra("math-verify", "math"))
    with pytest.raises(MissingExtra, match=r"apportion\[math\]"):
        observe([gate(fixed("a", 1.0), then=absent)], rollouts(1))


def test_nothing_is_left_waiting_when_the_set_up_is_wrong() -> None:
    @reward
    async def judged(trajectory: Trajectory) -> float:
        return 1.0

    waiting = gate(Slow(fixed("a", 1.0)), then=judged) + first_of([Slow(fixed("b", 1.0))])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(MissingExtra):
            observe([judged, waiting, Odd(MissingExtra("x", "y"))], rollouts(1))
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def test_the_first_wrong_set_up_stops_the_other_calls() -> None:
    stopped = []

    @reward
    async def patient(trajectory: Trajectory) -> float:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(trajectory.id)
            raise
        return 1.0

    @reward
    async def misused(trajectory: Trajectory) -> float:
        await asyncio.sleep(0)
        raise InvalidArgument("model", "?", "a model")

    with pytest.raises(InvalidArgument, match="model"):
        observe([patient, misused], rollouts(1))
    assert stopped == ["0"]


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"failure_limit": 1.5}, "failure_limit"),
        ({"failure_limit": float("nan")}, "failure_limit"),
        ({"timeout": 0}, "timeout"),
        ({"concurrency": 0}, "concurrency"),
    ],
)
def test_options_are_checked(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidArgument, match=argument):
        observe([fixed("a", 1.0)], rollouts(1), **options)


def test_what_is_no_reward_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="wrap a plain function with @reward"):
        observe([lambda trajectory: 1.0], rollouts(1))  # type: ignore[list-item]
    with pytest.raises(InvalidArgument, match="a list of rewards"):
        observe(fixed("a", 1.0), rollouts(1))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="level"):
        observe([Odd([], Level.GROUP)], rollouts(1))
    with pytest.raises(InvalidArgument, match="a repeats"):
        observe([fixed("a", 1.0), fixed("a", 0.0)], rollouts(1))
    with pytest.raises(InvalidArgument, match="Trajectory objects"):
        observe([fixed("a", 1.0)], [{"id": "0"}])  # type: ignore[list-item]


def test_a_vector_is_observed_part_by_part() -> None:
    pair = vector([fixed("right", 0, 1), fixed("brief", 0, 1)], weights={"right": 1, "brief": 0.5})
    seen = observe([pair], rollouts(2))
    assert {name: values(column) for name, column in seen.items()} == {"right": [0, 1], "brief": [0, 1]}
    assert pair.level is Level.TRAJECTORY
    assert values(observe([pair.total()], rollouts(2))["right + 0.5*brief"]) == [0, 1.5]


@pytest.mark.parametrize(
    ("parts", "weights"),
    [
        ([], None),
        ([fixed("a", 1.0), fixed("a", 1.0)], None),
        ([fixed("a", 1.0), fixed_turns("b", 1.0)], None),
        ([fixed("a", 1.0)], {"b": 1.0}),
        ([fixed("a", 1.0)], {"a": float("inf")}),
    ],
)
def test_vectors_are_checked(parts: Any, weights: Any) -> None:
    with pytest.raises(InvalidArgument):
        vector(parts, weights=weights)


def test_a_reward_that_sorts_its_rollouts_cannot_move_those_of_the_others() -> None:
    class Sorting:
        name, level = "sorting", Level.TRAJECTORY

        def observe(self, trajectories: Any) -> list[Scored]:
            trajectories.sort(key=lambda t: t.id)
            return [Scored(0.0) for _ in trajectories]

    rows = list(reversed(rollouts(3)))
    before = list(rows)
    with pytest.raises(ObserverFailing, match="no attribute 'sort'"):
        observe([Sorting()], rows)
    assert rows == before


def test_a_late_answer_is_failed_even_where_its_cancellation_was_swallowed() -> None:
    @reward(name="stubborn")
    async def stubborn(trajectory: Trajectory) -> float:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return 1.0
        return 1.0

    assert observe([stubborn], rollouts(1), timeout=0.01, failure_limit=1.0) == {
        "stubborn": [Failed("no answer within 0.01 s")]
    }


def test_rollouts_without_steps_are_not_an_error() -> None:
    seen = observe([fixed_turns("a")], [row("0")])
    assert seen == {"a": [[]]}
