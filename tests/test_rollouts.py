"""Trajectories refuse what would train the wrong token; the reasons are failures seen in real trainers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level, Trajectory, Turn


def rollout(**fields: object) -> Trajectory:
    return Trajectory(**{"id": "r", "group": "q", **fields})  # type: ignore[arg-type]


def test_sampled_ids_are_kept_as_sampled() -> None:
    """Two sampled pieces that would encode back as one stay two: nothing in a trajectory is decoded."""
    t = rollout(prompt_ids=[7], response_ids=[1, 2, 9], policy=[1, 1, 0], behaviour_logps=[-0.5, -0.7, np.nan])
    assert t.response_ids is not None
    assert t.response_ids.tolist() == [1, 2, 9]
    assert t.layout().turn_lengths.tolist() == [2]


def test_a_mask_longer_than_the_tokens_is_refused_with_both_lengths() -> None:
    with pytest.raises(InvalidArgument, match="response_ids 6, policy 7, own 7, behaviour_logps 7"):
        rollout(response_ids=range(6), policy=[1, 1, 1, 1, 1, 0, 0], behaviour_logps=[-0.1] * 7)


def test_every_turn_of_the_policy_is_found_not_a_tail_block() -> None:
    """user 2, assistant 2, user 1, assistant 2 tokens: the mask has two runs, and neither covers the user's token."""
    t = rollout(prompt_ids=[1, 2], response_ids=[3, 4, 5, 6, 7], policy=[1, 1, 0, 1, 1])
    b = Batch.pack([t])
    assert b.turns.tolist() == [2]
    assert b.offsets.tolist() == [0, 1, 3, 4]


def test_provenance_decides_not_the_role_of_a_token() -> None:
    """A role token that the policy sampled in order to stop is trained although it opens the tool's turn."""
    t = rollout(response_ids=[50, 60, 61, 62], policy=[0, 1, 1, 0])
    assert Batch.pack([t]).offsets.tolist() == [1, 2]


def test_an_end_token_appended_by_hand_is_not_own() -> None:
    """Its placeholder log-probability means probability 1; it may hold anything, and gets no credit."""
    t = rollout(response_ids=[10, 11, 2], own=[1, 1, 0], behaviour_logps=[-1.0, -0.5, 0.0])
    assert Batch.pack([t]).own is not None
    assert Batch.pack([t]).own.tolist() == [True, True, False]  # type: ignore[union-attr]


def test_completeness_comes_from_the_status_not_from_an_end_id() -> None:
    """A model that stops with another end token finished all the same."""
    assert rollout(response_ids=[8, 9, 7], status="terminated").status == "terminated"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_log_probability_that_is_not_finite_is_refused_only_where_the_policy_sampled(bad: float) -> None:
    rollout(response_ids=[1, 2], policy=[1, 0], behaviour_logps=[-1.0, bad])
    with pytest.raises(InvalidArgument, match="index 0 of 'r'"):
        rollout(response_ids=[1, 2], policy=[1, 0], behaviour_logps=[bad, -1.0])


def test_a_label_that_a_loss_ignores_is_no_token_of_the_policy() -> None:
    rollout(response_ids=[5, -100, 6], policy=[1, 0, 1])
    with pytest.raises(InvalidArgument, match=r"-100.*index 1 of 'r'"):
        rollout(response_ids=[5, -100, 6])


def test_the_prompt_of_a_text_only_rollout_is_checked_too() -> None:
    t = rollout(prompt_ids=[1, 2], turns=(Turn(text="hi"),))
    assert isinstance(t.prompt_ids, np.ndarray)
    assert not t.has_tokens
    with pytest.raises(InvalidArgument, match="prompt_ids"):
        rollout(prompt_ids=["a"], turns=(Turn(text="hi"),))


def test_own_outside_policy_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="index 1 of 'r'"):
        rollout(response_ids=[1, 2], policy=[1, 0], own=[1, 1])


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"id": ""}, "id"),
        ({"group": 3}, "group"),
        ({"status": "done"}, "status"),
        ({"error": "sandbox died"}, "status"),
        ({"response_ids": [1.5]}, "response_ids"),
        ({"response_ids": ["a"]}, "response_ids"),
        ({"response_ids": [[1]]}, "response_ids"),
        ({"response_ids": [1, 2], "policy": [0.5, 1]}, "policy"),
        ({"response_ids": [1, 2], "policy": [2, 1]}, "policy"),
        ({"policy": [1]}, "response_ids"),
        ({"response_ids": [1, 2], "turns": [Turn(), Turn()]}, "turns"),
        ({"response_ids": [1, 2], "turns": [Turn(span=(0, 1))]}, "span"),
        ({"response_ids": [1, 2], "turns": [Turn(span=(0, 3))]}, "span"),
        ({"response_ids": [1, 2], "turns": [Turn(span=(1, 2)), Turn(span=(0, 1))]}, "span"),
        ({"response_ids": [1, 2], "turns": [Turn(span=(0, 2)), Turn(span=(1, 2))]}, "span"),
        ({"response_ids": [1, 2], "turns": [Turn(span=(0, 1)), Turn()]}, "turns"),
        ({"step": 1.5}, "step"),
        ({"step": True}, "step"),
        ({"step": 2**63}, "step"),
        ({"turns": [{"text": "look"}]}, "turns"),
        ({"turns": None}, "turns"),
        ({"turns": "look"}, "turns"),
        ({"messages": "hello"}, "messages"),
        ({"messages": ["hello"]}, "messages"),
        ({"columns": [1]}, "columns"),
        ({"error": 5, "status": "aborted"}, "error"),
    ],
)
def test_what_cannot_be_is_refused_by_name(fields: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        rollout(**fields)
    assert caught.value.argument == named


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"text": 5}, "text"),
        ({"observation": None}, "observation"),
        ({"actions": "ls"}, "actions"),
        ({"actions": [{"name": "ls"}]}, "actions"),
        ({"span": (0, 1, 2)}, "span"),
        ({"span": (0, 1.0)}, "span"),
        ({"reward": "high"}, "reward"),
        ({"columns": None}, "columns"),
    ],
)
def test_what_no_turn_can_be_is_refused_by_name(fields: dict[str, object], named: str) -> None:
    """Here and not when the file that was written is read: by then the rollouts are gone."""
    with pytest.raises(InvalidArgument) as caught:
        Turn(**fields)  # type: ignore[arg-type]
    assert caught.value.argument == named


def test_steps_from_arrays_are_numbers() -> None:
    assert type(rollout(step=np.int64(3)).step) is int


def test_two_turns_without_an_observation_between_them_need_the_turn_table() -> None:
    """Runs of the mask merge neighbouring moves; spans keep them apart."""
    merged = rollout(response_ids=[1, 2, 3], policy=[1, 1, 1])
    apart = rollout(response_ids=[1, 2, 3], policy=[1, 1, 1], turns=[Turn(span=(0, 2)), Turn(span=(2, 3))])
    assert merged.layout().turn_lengths.tolist() == [3]
    assert apart.layout().turn_lengths.tolist() == [2, 1]


def test_template_tokens_inside_a_turn_are_a_hole_not_a_new_turn() -> None:
    t = rollout(response_ids=[50, 51, 60, 61, 99, 7], policy=[0, 0, 1, 0, 1, 0], turns=[Turn(span=(0, 6))])
    b = Batch.pack([t])
    assert b.turns.tolist() == [1]
    assert b.offsets.tolist() == [2, 4]


def test_a_turn_without_tokens_keeps_its_place() -> None:
    t = rollout(response_ids=[1, 2], policy=[1, 1], turns=[Turn(span=(0, 1)), Turn(span=(1, 1)), Turn(span=(1, 2))])
    assert t.layout().turn_lengths.tolist() == [1, 0, 1]


def test_text_only_trajectories_have_turns_and_no_tokens() -> None:
    b = Batch.pack([rollout(turns=[Turn(text="look"), Turn(text="done")])])
    assert not b.has_tokens
    assert b.finest is Level.TURN
    assert b.size(Level.TURN) == 2
    with pytest.raises(InvalidArgument, match="text only"):
        b.size(Level.TOKEN)


def test_token_and_text_rollouts_do_not_mix() -> None:
    with pytest.raises(InvalidArgument, match="these lack them"):
        Batch.pack([rollout(id="a", response_ids=[1]), rollout(id="b", turns=[Turn()])])


def test_arrays_are_frozen() -> None:
    t = rollout(response_ids=[1, 2])
    assert t.response_ids is not None
    with pytest.raises(ValueError, match="read-only"):
        t.response_ids[0] = 5


@given(st.lists(st.booleans(), max_size=40), st.data())
def test_layout_puts_every_policy_token_where_the_mask_has_it(mask: list[bool], data: st.DataObject) -> None:
    """From runs, and from any spans cut into the response, offsets are exactly the positions of the mask."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(mask)), max_size=6)))
    bounds = [0, *cuts, len(mask)]
    spans = [Turn(span=pair) for pair in itertools.pairwise(bounds)]
    for turns in ([], spans):
        t = rollout(response_ids=range(len(mask)), policy=mask, turns=turns)
        b = Batch.pack([t, rollout(id="other", response_ids=[1, 2, 3], policy=[0, 1, 1])])
        expected = [i for i, written in enumerate(mask) if written]
        assert b.offsets.tolist() == [*expected, 1, 2]
        assert int(b.response_lengths[0]) == len(mask)
        assert sum(t.layout().turn_lengths.tolist()) == len(expected)


@pytest.mark.parametrize(
    "columns", [{"values": [0.5]}, {"values": [[0.5, 0.1]]}, {"values": ["x", "y"]}, {"behaviour_logps": [0.1, 0.2]}]
)
def test_token_columns_are_one_number_per_token_under_a_name_of_their_own(columns: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        Trajectory(id="r", group="q", response_ids=[1, 2], token_columns=columns)
    with pytest.raises(InvalidArgument, match="token ids"):
        Trajectory(id="r", group="q", token_columns={"values": [0.5]})
