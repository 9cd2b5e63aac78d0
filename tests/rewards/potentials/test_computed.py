"""Potentials that are computed: continuations, heads and scales, over prefixes that hold nothing of what came later."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import observe
from apportion.rewards.potential import Potential, potential_rewards
from apportion.rewards.potentials import (
    learned_potential,
    monte_carlo_potential,
    on_scale,
    prefix,
    recorded_continuations,
)
from apportion.rollouts import Trajectory, Turn
from apportion.verdicts import Abstained, Failed, Scored, Verdict


def told(*texts: str, id: str = "r", group: str = "q", **fields: Any) -> Trajectory:
    return Trajectory(id=id, group=group, turns=[Turn(text=t, observation=f"re {t}") for t in texts], **fields)


def values(potential: Potential, *rollouts: Trajectory) -> Sequence[Sequence[Verdict]]:
    found = potential.values(rollouts)
    return asyncio.run(_wait(found)) if isinstance(found, Awaitable) else found


async def _wait(found: Awaitable[Any]) -> Any:
    return await found


# ---------------------------------------------------------------------------------------------------------- prefixes


def test_a_prefix_ends_with_what_answered_its_last_turn() -> None:
    whole = Trajectory(
        id="r",
        group="q",
        prompt_ids=[7],
        response_ids=[5, 1, 2, 9, 3, 8],
        policy=[0, 1, 1, 0, 1, 0],
        behaviour_logps=[0.0, -1.0, -2.0, 0.0, -3.0, 0.0],
        token_columns={"values": [0.0, 0.1, 0.2, 0.0, 0.3, 0.0]},
        reference="42",
        columns={"reward": 1.0},
        messages=[{"role": "user"}, {"role": "assistant"}, {"role": "tool"}, {"role": "assistant"}, {"role": "tool"}],
    )
    tokens = [[5], [5, 1, 2, 9], [5, 1, 2, 9, 3, 8]]
    for k, (ids, messages) in enumerate(zip(tokens, (1, 3, 5), strict=True)):
        begun = prefix(whole, k)
        assert begun.response_ids is not None
        assert begun.response_ids.tolist() == ids
        assert begun.token_columns["values"].size == len(ids)
        assert (begun.n_turns, len(begun.messages), begun.reference, dict(begun.columns)) == (k, messages, "42", {})
        assert begun.prompt_ids is not None
    with pytest.raises(InvalidArgument, match=r"turns=3: expected a whole number in \[0, 2\]"):
        prefix(whole, 3)


def test_messages_that_cannot_be_cut_go() -> None:
    t = told("a", "b", messages=[{"role": "user", "content": "the answer is 42"}])
    assert prefix(t, 1).messages == ()


# ------------------------------------------------------------------------------------------------- continuations


def play(seen: list[tuple[str, ...]], waits: bool) -> Callable[..., Any]:
    """Worth k / 4 after k turns; writes down what it was asked."""

    def returns(state: Trajectory, n: int) -> list[float]:
        seen.append(tuple(turn.text for turn in state.turns))
        return [1.0] * state.n_turns + [0.0] * (n - state.n_turns)

    async def later(state: Trajectory, n: int) -> list[float]:
        await asyncio.sleep(0)
        return returns(state, n)

    return later if waits else returns


@pytest.mark.parametrize("waits", [False, True])
def test_equal_prefixes_are_sampled_once(waits: bool) -> None:
    seen: list[tuple[str, ...]] = []
    potential = monte_carlo_potential(play(seen, waits), continuations=4)
    rows = [told("a", "b", "c", id="0"), told("a", "x", id="1"), told("a", id="2", group="p")]
    found = values(potential, *rows)
    assert [[v.value for v in row if isinstance(v, Scored)] for row in found] == [
        [0, 0.25, 0.5, 0],
        [0, 0.25, 0],
        [0, 0],
    ]
    assert sorted(seen) == [(), (), ("a",), ("a", "b")]
    error = math.sqrt(0.25) / math.sqrt(4)
    assert found[0][1] == Scored(0.25, f"mean of 4 continuations, standard error {error:.3g}")


def test_later_states_are_not_sampled_and_a_cut_end_is_unknown() -> None:
    seen: list[tuple[str, ...]] = []
    potential = monte_carlo_potential(play(seen, False), states=2)
    (row,) = values(potential, told("a", "b", "c", status="truncated"))
    assert [type(v) for v in row] == [Scored, Scored, Abstained, Abstained]
    assert len(seen) == 2
    assert [type(v) for v in values(potential, told())[0]] == [Scored]


@pytest.mark.parametrize("returned", [[], "11", [1.0, float("nan")], None, 3.0, [None], ["x"]])
def test_what_is_no_return_fails_its_state(returned: Any) -> None:
    potential = monte_carlo_potential(lambda state, n: [1.0] if state.n_turns else returned)
    assert [type(v) for v in values(potential, told("a", "b"))[0]] == [Failed, Scored, Scored]


def test_a_sampler_that_breaks_fails_its_state() -> None:
    def broken(state: Trajectory, n: int) -> list[float]:
        if state.n_turns:
            raise OSError("no sandbox")
        return [1.0]

    row = values(monte_carlo_potential(broken), told("a", "b"))[0]
    assert row[0] == Scored(1.0, "one continuation, standard error unknown")
    assert isinstance(row[1], Failed)
    assert "no sandbox" in row[1].error


def test_continuations_under_way_are_limited() -> None:
    now, most = 0, 0

    async def sample(state: Trajectory, n: int) -> list[float]:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return [1.0]

    values(monte_carlo_potential(sample, concurrency=3), *(told("a", id=str(i), group=str(i)) for i in range(9)))
    assert most == 3


def test_recorded_returns() -> None:
    turns = [Turn(columns={"continuations": [1, 0]}), Turn(columns={"continuations": "?"}), Turn()]
    t = Trajectory(id="r", group="q", turns=turns, columns={"continuations_start": [0.5]})
    row = values(recorded_continuations(), t)[0]
    assert [type(v) for v in row] == [Scored, Scored, Failed, Scored]
    assert [row[0].value, row[1].value, row[3].value] == [0.5, 0.5, 0.0]  # type: ignore[union-attr]
    with pytest.raises(MissingInput, match="turn column 'mc'"):
        values(recorded_continuations("mc"), t)


# ------------------------------------------------------------------------------------------------------------- heads


@pytest.mark.parametrize("waits", [False, True])
def test_a_head_that_sees_the_prefix_cannot_see_the_end(waits: bool) -> None:
    def head(state: Trajectory) -> float:
        assert "reward" not in state.columns
        return float(len(state.turns))

    async def later(state: Trajectory) -> float:
        return head(state)

    potential = learned_potential(later if waits else head)
    assert values(potential, told("a", "b", columns={"reward": 1.0})) == [[Scored(0.0), Scored(1.0), Scored(2.0)]]


@pytest.mark.parametrize("answer", [[1.0, 2.0], 3.0, "123", [[1], [2], [3]]])
def test_a_head_with_another_number_of_values_fails_the_rollout(answer: Any) -> None:
    row = values(learned_potential(lambda t: answer, sees="trajectory"), told("a", "b"))[0]
    assert [type(v) for v in row] == [Failed] * 3


def test_a_head_may_abstain() -> None:
    assert [type(v) for v in values(learned_potential(lambda t: None, sees="trajectory"), told("a"))[0]] == [
        Abstained,
        Abstained,
    ]
    start, after = potential_rewards(learned_potential(lambda t: None if t.n_turns else 1.0))
    assert observe([start, after], [told("a")]) == {
        "value at start": [Scored(1.0)],
        "value": [[Abstained("the head of 'value' returned None")]],
    }


# ------------------------------------------------------------------------------------------------------------ scales


def test_ratios_are_differences_of_logs() -> None:
    p = learned_potential(lambda t: [0.5, 0.25, 0.0, -0.1, None], sees="trajectory", name="p")
    row = values(on_scale(p, "log", floor=1e-3), told("a", "b", "c", "d"))[0]
    assert [v.value for v in row[:3]] == pytest.approx([math.log(0.5), math.log(0.25), math.log(1e-3)])  # type: ignore[union-attr]
    assert [type(v) for v in row[3:]] == [Failed, Abstained]


def test_logits_are_bounded_and_odd() -> None:
    p = learned_potential(lambda t: [0.5, 0.0, 1.0, 1.5], sees="trajectory", name="p")
    row = values(on_scale(p, "logit", floor=0.01), told("a", "b", "c"))[0]
    assert [v.value for v in row[:3]] == pytest.approx([0.0, -math.log(99), math.log(99)])  # type: ignore[union-attr]
    assert isinstance(row[3], Failed)


def test_a_scale_waits_for_what_it_scales() -> None:
    async def head(state: Trajectory) -> float:
        return 0.5

    assert values(on_scale(learned_potential(head), "logit"), told())[0][0].value == 0.0  # type: ignore[union-attr]


def test_bad_arguments_are_named() -> None:
    ok = learned_potential(lambda t: 0.0)
    for call, name in (
        (lambda: monte_carlo_potential(3), "sampler"),  # type: ignore[arg-type]
        (lambda: monte_carlo_potential(print, continuations=0), "continuations"),
        (lambda: monte_carlo_potential(print, states=0), "states"),
        (lambda: learned_potential(3), "head"),  # type: ignore[arg-type]
        (lambda: learned_potential(print, sees="future"), "sees"),  # type: ignore[arg-type]
        (lambda: on_scale(ok, "sqrt"), "scale"),  # type: ignore[arg-type]
        (lambda: on_scale(ok, "log", floor=0.5), "floor"),
        (lambda: on_scale(3, "log"), "potential"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidArgument, match=name):
            call()
