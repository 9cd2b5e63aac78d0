"""A potential is asked once for its two observers, and gives one value per state."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from apportion.errors import InvalidArgument
from apportion.rewards import observe
from apportion.rewards.observe import observe_async
from apportion.rewards.potential import potential_rewards
from apportion.rollouts import Trajectory, Turn
from apportion.verdicts import Failed, Scored, Verdict

ROLLOUTS = [Trajectory(id="a", group="q", turns=[Turn(), Turn()]), Trajectory(id="b", group="q", turns=[])]


class Counting:
    name = "phi"

    def __init__(self, extra: int = 1) -> None:
        self.extra = extra
        self.asked = 0

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]]:
        self.asked += 1
        return [[Scored(float(k)) for k in range(t.n_turns + self.extra)] for t in trajectories]


class Waiting(Counting):
    async def values(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]]:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().values(trajectories)


@pytest.mark.parametrize("kind", [Counting, Waiting])
def test_asked_once_for_both_halves_and_again_for_other_trajectories(kind: type[Counting]) -> None:
    potential = kind()
    halves = potential_rewards(potential)
    found = observe(halves, ROLLOUTS)
    assert found == {"phi at start": [Scored(0.0), Scored(0.0)], "phi": [[Scored(1.0), Scored(2.0)], []]}
    assert potential.asked == 1
    observe(halves, list(reversed(ROLLOUTS)))
    assert potential.asked == 2
    asyncio.run(observe_async(halves, ROLLOUTS[:1]))
    assert potential.asked == 3


@pytest.mark.parametrize("kind", [Counting, Waiting])
def test_a_value_too_few_names_the_trajectory(kind: type[Counting]) -> None:
    with pytest.raises(InvalidArgument, match="a: 2 for 3 states"):
        observe(potential_rewards(kind(extra=0)), ROLLOUTS)


def test_a_crash_is_a_failure_of_both_halves() -> None:
    class Broken(Counting):
        def values(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]]:
            raise OSError("the scorer is gone")

    found = observe(potential_rewards(Broken()), ROLLOUTS[:1], failure_limit=1.0)
    assert all(isinstance(v, Failed) for v in [*found["phi at start"], *found["phi"][0]])


def test_what_is_no_potential_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="values"):
        potential_rewards(object())  # type: ignore[arg-type]
