"""Recorded branches: a claim is held against the tokens, and what was copied is counted in the policy's tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards.branches import branch_rewards, tree_key
from apportion.rollouts import Trajectory, Turn
from apportion.verdicts import Abstained, Scored
from tests.branching import rollout, small_tree


def copied(*rows: Trajectory) -> list[float | None]:
    return [getattr(v, "value", None) for v in branch_rewards()[2].observe(rows)]  # type: ignore[union-attr]


def turns(name: str, *texts: str, **columns: Any) -> Trajectory:
    return Trajectory(
        id=name, group="q", turns=[Turn(text=text) for text in texts], columns={"parent": None, **columns}
    )


def test_what_was_copied_is_counted_in_policy_tokens() -> None:
    assert copied(*small_tree()) == [None, 2, 4, 4, 5, None, 1]


def test_turns_copied_are_the_same_claim() -> None:
    rows = small_tree()[:4]
    by_turn = [
        replace(t, columns={**t.columns, "branch_offset": None, "branch_turn": k})
        for t, k in zip(rows, (0, 1, 2, 2), strict=True)
    ]
    assert copied(*by_turn) == copied(*rows)


def test_text_only_rollouts_count_turns() -> None:
    assert copied(turns("a", "x", "y"), turns("b", "x", "z", parent="a", branch_turn=1)) == [None, 1]
    with pytest.raises(InvalidArgument, match="differs from 'a' at 1 of 2 copied"):
        copied(turns("a", "x", "y"), turns("b", "x", "z", parent="a", branch_turn=2))
    with pytest.raises(MissingInput, match="'branch_turn'"):
        copied(turns("a", "x"), turns("b", "x", parent="a", branch_offset=1))


def test_a_parent_whose_beginning_differs_is_an_error_with_the_place() -> None:
    rows = [rollout("a", [1, 2, 3], 1), rollout("b", [1, 5, 4], 0, parent="a", copied=2)]
    with pytest.raises(InvalidArgument, match="b: differs from 'a' at 1 of 2 copied"):
        copied(*rows)
    other = rollout("b", [1, 2, 4], 0, parent="a", copied=2, prompt_ids=[7])
    with pytest.raises(InvalidArgument, match="another prompt than 'a'"):
        copied(rows[0], other)


def test_every_wrong_claim_is_listed() -> None:
    rows = [
        rollout("a", [1, 2], 1),
        rollout("b", [1, 3], 0, parent="x", copied=1),
        rollout("c", [1, 3], 0, parent="c", copied=1),
        rollout("d", [1, 3], 0, parent="a", copied=1, group="p"),
    ]
    with pytest.raises(InvalidArgument) as caught:
        copied(*rows)
    assert caught.value.value == [
        "b: no rollout 'x' here",
        "c: 'c' is the rollout itself",
        "d: 'a' is of another group",
    ]


def test_copied_tokens_must_not_be_owned() -> None:
    mine = Trajectory(id="b", group="q", response_ids=[1, 3], columns={"parent": "a", "branch_offset": 1})
    with pytest.raises(InvalidArgument, match="own is True at 0 of 1 copied"):
        copied(rollout("a", [1, 2], 1), mine)


@pytest.mark.parametrize("offset", [-1, 3, 0.5, "1", True])
def test_an_amount_that_is_none_is_refused(offset: object) -> None:
    branch = Trajectory(
        id="b", group="q", response_ids=[1, 3], own=[0, 0], columns={"parent": "a", "branch_offset": offset}
    )
    with pytest.raises(InvalidArgument, match=r"whole number in \[0, 2\]"):
        copied(rollout("a", [1, 3], 1), branch)


def test_a_parent_that_is_no_id_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="the id of a rollout"):
        copied(Trajectory(id="b", group="q", response_ids=[1], columns={"parent": ["a"]}))


def test_what_is_absent_is_said() -> None:
    with pytest.raises(MissingInput, match=r"'parent', which is absent; record for every branch"):
        copied(Trajectory(id="b", group="q", response_ids=[1]))
    with pytest.raises(MissingInput, match="'branch_offset' or 'branch_turn'"):
        copied(rollout("a", [1], 1), Trajectory(id="b", group="q", response_ids=[1], columns={"parent": "a"}))


def test_what_the_infrastructure_broke_is_no_wrong_claim() -> None:
    lost = Trajectory(id="a", group="q", status="aborted")
    cut = Trajectory(id="c", group="q", status="aborted", columns={"parent": "a", "branch_offset": 9})
    assert copied(lost, rollout("b", [1, 2], 0, parent="a", copied=1), cut) == [None, 1, None]


def test_ids_become_numbers_that_match() -> None:
    mine, parent, _ = (reward.observe(small_tree()) for reward in branch_rewards())
    assert isinstance(parent[0], Abstained)
    assert parent[1] == mine[0] == Scored(mine[0].value, "p-a")  # type: ignore[union-attr]
    assert len({v.value for v in mine}) == 7  # type: ignore[union-attr]


def test_trees_have_names_or_the_rollout_they_lead_back_to() -> None:
    found = [v.evidence for v in tree_key().observe(small_tree())]  # type: ignore[union-attr]
    assert found == ["rollout p-a"] * 5 + ["rollout q-a"] * 2
    named = [
        Trajectory(id="a", group="q", columns={"tree": 3}),
        Trajectory(id="b", group="q", columns={"parent": "a"}),
        Trajectory(id="c", group="p", columns={"tree": "3"}),
    ]
    a, b, c = tree_key().observe(named)
    assert a == b
    assert a.value != c.value  # type: ignore[union-attr]


def test_trees_need_a_column_and_no_circle() -> None:
    with pytest.raises(MissingInput, match="'tree' or 'parent'"):
        tree_key().observe([Trajectory(id="a", group="q")])
    with pytest.raises(InvalidArgument, match="circle"):
        tree_key().observe([Trajectory(id=a, group="q", columns={"parent": b}) for a, b in ("ab", "ba")])
