"""Exact-prefix ids: equal exactly when everything before is, whatever was cut into turns, never across prompts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages.branch_plan import Candidate, branch_plan
from apportion.errors import InvalidArgument
from apportion.rewards.codes import code_of
from apportion.rewards.prefixes import common_prefix, identified, prefix_at, prefixes, same_prompt
from apportion.rollouts import Action, Trajectory, Turn
from apportion.verdicts import Abstained
from tests.branching import small_tree


def codes(*rows: Trajectory) -> list[list[float | None]]:
    return [[getattr(v, "value", None) for v in row] for row in prefixes().observe(rows)]  # type: ignore[union-attr]


def tokens(ids: Sequence[int], **fields: Any) -> Trajectory:
    return Trajectory(**{"id": "r", "group": "q", "response_ids": ids, **fields})


def told(*turns: Turn, group: str = "q") -> Trajectory:
    return Trajectory(id="r", group=group, turns=turns)


def test_rollouts_share_the_turns_that_are_equal() -> None:
    a, b, c, d, _, other, _ = codes(*small_tree())
    assert a[0] == b[0] == c[0] == d[0] != other[0]
    assert a[1] == c[1] == d[1] != b[1]
    assert len({a[2], c[2], d[2]}) == 3


def test_the_observation_belongs_to_the_state() -> None:
    one, other = tokens([1, 90], policy=[1, 0]), tokens([1, 91], policy=[1, 0])
    assert codes(one) != codes(other)


def test_prompt_and_group_belong_to_it() -> None:
    one = codes(tokens([1], prompt_ids=[5]))
    assert one == codes(tokens([1], prompt_ids=[5], id="s"))
    assert one != codes(tokens([1], prompt_ids=[6]))
    assert one != codes(tokens([1], prompt_ids=[5], group="p"))
    assert codes(tokens([5, 1], prompt_ids=[])) != codes(tokens([1], prompt_ids=[5]))


def test_how_the_same_tokens_are_cut_does_not_matter() -> None:
    whole, cut = tokens([1, 2], turns=[Turn(span=(0, 2))]), tokens([1, 2], turns=[Turn(span=(0, 1)), Turn(span=(1, 2))])
    assert codes(whole)[0][0] == codes(cut)[0][1] == prefix_at(whole, 2)


def test_an_id_is_a_whole_number_that_a_float_holds() -> None:
    found = [code for row in codes(*small_tree()) for code in row if code is not None]
    assert all(code.is_integer() and 0 <= code < 2**52 for code in found)


def test_another_process_says_the_same() -> None:
    script = "from apportion.rewards.codes import code_of; print(code_of('q', 'r0'))"
    assert int(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout) == code_of(
        "q", "r0"
    )


def test_text_is_compared_where_there_are_no_tokens() -> None:
    look = Turn(text="look", actions=(Action("ls", {"path": "."}, raw="ls ."),), observation="a.py")
    assert codes(told(look))[0] == codes(told(look, Turn(text="x")))[0][:1]
    assert codes(told(look)) != codes(told(Turn(text="look", observation="a.py")))
    assert codes(told(look)) != codes(told(Turn(text="look", actions=look.actions, observation="b.py")))
    assert codes(told(look)) != codes(told(look, group="p"))
    assert codes(told(Turn(text="ab"), Turn(text="c"))) != codes(told(Turn(text="a"), Turn(text="bc")))


def test_a_turn_of_which_nothing_was_recorded_is_shared_with_nobody() -> None:
    (row,) = prefixes().observe([told(Turn(text="a"), Turn(columns={"x": 1}), Turn(text="b"))])
    assert [isinstance(v, Abstained) for v in row] == [False, True, True]  # type: ignore[union-attr]


def test_hostile_arguments_make_no_crash() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"a": deep}
    (row,) = prefixes().observe([told(Turn(text="\ud800", actions=(Action("f", deep),)), Turn(text="\ud800"))])
    assert isinstance(row[0], Abstained)  # type: ignore[index]
    assert codes(told(Turn(text="\ud800")))[0][0] is not None


@given(st.lists(st.integers(0, 2), max_size=6), st.lists(st.integers(0, 2), max_size=6))
def test_the_first_difference_is_found(one: list[int], other: list[int]) -> None:
    a, b = tokens(one), tokens(other, id="s")
    shared = common_prefix(a, b)
    assert one[:shared] == other[:shared]
    assert shared in (len(one), len(other)) or one[shared] != other[shared]
    for offset in range(min(len(one), len(other)) + 1):
        assert (prefix_at(a, offset) == prefix_at(b, offset)) == (offset <= shared)


def test_text_is_compared_turn_by_turn() -> None:
    assert common_prefix(told(Turn(text="a"), Turn(text="b")), told(Turn(text="a"), Turn(text="c"))) == 1
    assert common_prefix(told(Turn()), told(Turn())) == 0
    with pytest.raises(InvalidArgument, match="token ids"):
        common_prefix(told(Turn(text="a")), tokens([1]))


def test_prompts_are_compared() -> None:
    assert same_prompt(tokens([1], prompt_ids=[2]), tokens([3], prompt_ids=np.array([2])))
    assert not same_prompt(tokens([1], prompt_ids=[2]), tokens([1], prompt_ids=[3]))
    assert not same_prompt(tokens([1]), tokens([1], group="p"))
    assert same_prompt(told(), told())


def test_an_offset_outside_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="offset"):
        prefix_at(tokens([1]), 2)
    with pytest.raises(InvalidArgument, match="offset"):
        prefix_at(told(Turn(text="a")), 0)


def test_a_plan_names_what_it_copies() -> None:
    a, b, *_ = small_tree()
    places = [Candidate(parent=row.id, offset=3, priority=1.0) for row in (a, b)]
    plan = identified(branch_plan(places, budget=2, per_node=1), [a, b])
    assert len({branch.prefix for branch in plan.branches}) == 1
    with pytest.raises(InvalidArgument, match="p-b"):
        identified(branch_plan(places, budget=2, per_node=1), [a])
