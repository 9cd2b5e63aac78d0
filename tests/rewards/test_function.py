"""`@reward`: plain functions as rewards."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import numpy as np
import pytest

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import FunctionReward, Reward, reward
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored
from tests.rewards.builders import rollouts, row, said


@reward
def decorated(trajectory: Trajectory) -> float:
    """Counts."""
    return float(trajectory.n_turns)


@reward(name="renamed", level=Level.TURN)
def per_turn(trajectory: Trajectory) -> list[float]:
    return [float(len(turn.text)) for turn in trajectory.turns]


def plain(trajectory: Trajectory) -> float:
    return trajectory.columns["value"] * 2


@reward
async def waiting(trajectory: Trajectory) -> float:
    await asyncio.sleep(0)
    return float(trajectory.columns["value"])


def test_it_is_a_reward_and_still_the_function() -> None:
    assert isinstance(decorated, Reward)
    assert (decorated.name, decorated.level, decorated.__doc__) == ("decorated", Level.TRAJECTORY, "Counts.")
    assert decorated(said("x", "y")) == 2.0
    assert per_turn.observe([said("a", "bcd")]) == [[Scored(1.0), Scored(3.0)]]


@pytest.mark.parametrize(
    ("returned", "verdict"),
    [
        (True, Scored(1.0)),
        (np.float32(0.5), Scored(0.5)),
        (None, Abstained("f returned None")),
        (Scored(2.0, "because"), Scored(2.0, "because")),
        (float("nan"), Failed("f returned nan, which is not a finite number")),
        ("7", Failed("f returned the text '7', not a number")),
    ],
)
def test_what_a_function_may_return(returned: Any, verdict: Any) -> None:
    assert reward(name="f")(lambda trajectory: returned).observe(rollouts(1)) == [verdict]


def test_an_exception_fails_only_its_trajectory_and_says_where() -> None:
    made = reward(plain).observe([row("a", value=1), row("b"), row("c", value=3)])
    assert made[0] == Scored(2.0)
    assert made[2] == Scored(6.0)
    assert isinstance(made[1], Failed)
    line = plain.__code__.co_firstlineno + 1
    assert made[1].error == f"KeyError: 'value' at test_function.py:{line}"


def test_a_long_message_is_cut() -> None:
    @reward
    def loud(trajectory: Trajectory) -> float:
        raise ValueError("x" * 10_000)

    (verdict,) = loud.observe(rollouts(1))
    assert isinstance(verdict, Failed)
    assert len(verdict.error) < 400


@pytest.mark.parametrize("error", [MissingInput("f", "a column", "add it"), InvalidArgument("a", 1, "2")])
def test_a_wrong_set_up_is_raised(error: Exception) -> None:
    @reward
    def misused(trajectory: Trajectory) -> float:
        raise error

    with pytest.raises(type(error)):
        misused.observe(rollouts(1))


@pytest.mark.parametrize("returned", [[1.0], [1.0, 2.0, 3.0], 1.0, "ab", {"a": 1, "b": 2}, Scored(1.0)])
def test_a_turn_reward_gives_one_entry_per_turn(returned: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"f\('r'\)"):
        reward(name="f", level=Level.TURN)(lambda trajectory: returned).observe([said("x", "y")])


def test_a_turn_reward_may_answer_for_all_turns_at_once() -> None:
    assert reward(name="f", level=Level.TURN)(lambda t: None).observe([said("x", "y")]) == [
        [Abstained("f returned None")] * 2
    ]
    assert reward(name="f", level=Level.TURN)(lambda t: np.array([1, 2])).observe([said("x", "y")]) == [
        [Scored(1.0), Scored(2.0)]
    ]


def test_an_async_function_is_awaited() -> None:
    assert asyncio.run(waiting.observe([row("a", value=1), row("b")]))[0] == Scored(1.0)  # type: ignore[arg-type, index]
    failed = asyncio.run(waiting.observe([row("b")]))[0]  # type: ignore[arg-type, index]
    assert failed.error.startswith("KeyError: 'value' at test_function.py:")


def test_a_callable_object_with_an_async_call_is_async() -> None:
    class Judge:
        async def __call__(self, trajectory: Trajectory) -> float:
            return 0.5

    made = reward(Judge())
    assert made.name == "Judge"
    assert asyncio.run(made.observe(rollouts(1))) == [Scored(0.5)]  # type: ignore[arg-type]


def test_a_hidden_coroutine_is_refused() -> None:
    async def later() -> float:
        return 1.0

    with pytest.raises(InvalidArgument, match="async def"):
        reward(name="f")(lambda trajectory: later()).observe(rollouts(1))


def test_names() -> None:
    with pytest.raises(InvalidArgument, match="a lambda has none"):
        reward(lambda trajectory: 1.0)
    with pytest.raises(InvalidArgument, match="name"):
        reward(name=" ")(plain)
    with pytest.raises(InvalidArgument, match="level"):
        reward(level=Level.TOKEN)(plain)
    with pytest.raises(InvalidArgument, match="function"):
        FunctionReward(3, "three")  # type: ignore[arg-type]


@pytest.mark.parametrize("made", [decorated, per_turn, waiting])
def test_a_decorated_function_pickles_to_itself(made: FunctionReward) -> None:
    assert pickle.loads(pickle.dumps(made)) is made


def test_renamed_and_undecorated_functions_pickle_too() -> None:
    renamed = pickle.loads(pickle.dumps(decorated.named("other")))
    assert (renamed.name, renamed(said("x"))) == ("other", 1.0)
    assert decorated.name == "decorated"
    assert pickle.loads(pickle.dumps(reward(plain))).observe([row("a", value=1)]) == [Scored(2.0)]
    total = pickle.loads(pickle.dumps(0.5 * decorated + reward(plain)))
    assert total.name == "0.5*decorated + plain"


def test_a_local_function_does_not_pickle_silently() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(reward(name="f")(lambda trajectory: 1.0))
