"""Progress by acceptance checks: a fixed denominator, and nothing that is missing counts as none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import observe
from apportion.rewards.potential import potential_rewards
from apportion.rewards.potentials import checks_potential
from apportion.rollouts import Trajectory, Turn
from apportion.verdicts import Abstained, Failed, Scored, Verdict

ABSENT = object()


def rollout(start: Any, *after: Any, id: str = "r", group: str = "q", executed: Sequence[bool] = ()) -> Trajectory:
    done = [*executed, *[True] * (len(after) - len(executed))]
    turns = [
        Turn(columns={} if result is ABSENT else {"checks": result}, executed=ran)
        for result, ran in zip(after, done, strict=True)
    ]
    return Trajectory(
        id=id, group=group, turns=tuple(turns), columns={} if start is ABSENT else {"checks_start": start}
    )


def values(*rollouts: Trajectory) -> list[list[float | None]]:
    rows: Any = checks_potential().values(rollouts)
    return [[cell.value if isinstance(cell, Scored) else None for cell in row] for row in rows]


def test_only_what_was_unmet_at_the_start_counts_and_it_may_be_lost_again() -> None:
    one = rollout([1, 0, 0], [True, False, True], [False, True, True], [False, False, False])
    assert values(one) == [[0.0, 0.5, 1.0, 0.0]]


def test_the_denominator_is_that_of_the_group() -> None:
    """The first rollout's start has a check met that the second's has not: flaky, and nobody's progress."""
    both = values(rollout([0, 0, 1], [0, 1, 1]), rollout([0, 0, 0], [1, 1, 1], id="s"))
    assert both == [[0.0, 0.5], [0.0, 1.0]]


def test_a_missing_start_is_that_of_the_others() -> None:
    assert values(rollout(ABSENT, [0, 1]), rollout([0, 0], [1, 1], id="s")) == [[None, 0.5], [0.0, 1.0]]
    assert values(rollout(ABSENT, [0, 1], group="p"), rollout([0, 0], [1, 1], id="s")) == [[None, None], [0.0, 1.0]]


def test_nothing_unmet_at_the_start_is_zero_everywhere() -> None:
    assert values(rollout([1, 1], [1, 0], [1, 1])) == [[0.0, 0.0, 0.0]]
    assert values(rollout([], [])) == [[0.0, 0.0]]


def test_a_missing_result_abstains_and_is_not_no_progress() -> None:
    seen: Any = checks_potential().values([rollout([0, 0], ABSENT, None, [1, 0])])
    assert [type(cell) for cell in seen[0]] == [Scored, Abstained, Abstained, Scored]


def test_a_turn_that_never_arrived_leaves_the_state_as_it_was() -> None:
    assert values(rollout([0, 0], [1, 0], ABSENT, executed=[True, False])) == [[0.0, 0.5, 0.5]]


def test_counts_never_fall_below_the_start() -> None:
    def counted(n: int) -> dict[str, int]:
        return {"passed": n, "total": 5}

    assert values(rollout(counted(1), counted(3), counted(0), counted(5))) == [[0.0, 0.5, 0.0, 1.0]]


def test_flags_by_name_are_matched_by_name() -> None:
    assert values(rollout({"a": False, "b": False}, {"b": True, "a": False})) == [[0.0, 0.5]]


@pytest.mark.parametrize(
    "junk", ["all good", 0.5, [0, 2], {"passed": 3, "total": 2}, {"passed": "1", "total": 2}, ["x"]]
)
def test_what_is_no_result_failed(junk: object) -> None:
    seen: Any = checks_potential().values([rollout([0, 0], junk)])
    assert isinstance(seen[0][1], Failed)


def test_other_checks_than_the_group_failed() -> None:
    seen: Any = checks_potential().values([rollout([0, 0], [0, 1, 1]), rollout([0, 0], [0, 1], id="s")])
    assert [type(cell) for cell in seen[0]] == [Scored, Failed]
    seen = checks_potential().values([rollout([0, 0], [0, 1]), rollout([0], [1], id="s")])
    assert {type(cell) for row in seen for cell in row} == {Failed}


def test_a_function_runs_the_checks_and_its_exception_is_one_rollouts_failure() -> None:
    def run(t: Trajectory) -> list[list[int]]:
        if t.id == "broken":
            raise RuntimeError("no sandbox")
        return [[0, 0]] + [[1, 0]] * t.n_turns

    rows: Any = checks_potential(run).values([rollout(ABSENT, 0), rollout(ABSENT, 0, id="broken")])
    assert rows[0] == [Scored(0.0, rows[0][0].evidence), Scored(0.5, "1 of 2 checks that were unmet at the start")]
    assert all(isinstance(cell, Failed) and "no sandbox" in cell.error for cell in rows[1])


def test_an_async_function_and_both_observers() -> None:
    async def run(t: Trajectory) -> list[Any]:
        await asyncio.sleep(0)
        return [[0], [1]]

    start, after = potential_rewards(checks_potential(run, name="progress"))
    seen = observe([start, after], [rollout(ABSENT, 0)])
    one: Verdict = seen["progress at start"][0]  # type: ignore[assignment]
    assert (one, seen["progress"][0][0].value) == (Scored(0.0, one.evidence), 1.0)  # type: ignore[index, union-attr]


def test_a_wrong_number_of_results_failed() -> None:
    rows: Any = checks_potential(lambda t: [[0]]).values([rollout(ABSENT, 0)])
    assert [cell.error for cell in rows[0]] == ["1 results of checks for 2 states"] * 2


def test_what_nobody_recorded_is_asked_for() -> None:
    with pytest.raises(MissingInput, match="turn column 'checks' and a trajectory column 'checks_start'"):
        checks_potential().values([Trajectory(id="r", group="q", turns=(Turn(),))])
    with pytest.raises(MissingInput, match="needs a trajectory column 'checks_start'"):
        checks_potential().values([rollout(ABSENT, [1])])
    with pytest.raises(InvalidArgument, match="run"):
        checks_potential("run.py")  # type: ignore[arg-type]
