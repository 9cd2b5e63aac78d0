"""One completion of TRL as a trajectory: whose text is whose, where it ended, and what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apportion.errors import InvalidArgument
from apportion.integrations.trl.rollouts import Completion, to_trajectory, turns_of
from apportion.integrations.trl.steps import Recorded
from apportion.rewards import outcome
from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Failed


def completion(written: list[int], text: Any = "", **fields: Any) -> Completion:
    values: dict[str, Any] = {
        "id": "0.0",
        "group": "0.0",
        "prompt": "ask",
        "prompt_ids": np.array([7]),
        "response_ids": np.arange(len(written)) + 10,
        "written": np.array(written, bool),
        "in_loss": np.array(written, bool),
        "logps": None,
        "completion": text,
        "row": {},
        "rewards": {},
        "reward": 1.0,
        "ended": True,
        **fields,
    }
    return Completion(**values)


def made(*args: Any, **fields: Any) -> Trajectory:
    return to_trajectory(completion(*args, **fields), step=3, decode=lambda ids: " ".join(map(str, ids)))


def shown(trajectory: Trajectory) -> list[tuple[str, str, Any]]:
    return [(turn.text, turn.observation, turn.span) for turn in trajectory.turns]


def test_a_plain_text_is_one_turn() -> None:
    t = made([1, 1, 1], "hello")
    assert shown(t) == [("hello", "", (0, 3))]
    assert (t.step, t.columns["prompt"], t.columns["reward"]) == (3, "ask", 1.0)


@pytest.mark.parametrize(
    "text", ["all of it", [{"role": "assistant", "content": "all of it"}]], ids=["text", "message"]
)
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([1, 1, 0, 1], [("10 11", "12", (0, 3)), ("13", "", (3, 4))]),
        ([1, 1, 0, 0], [("10 11", "12 13", (0, 4))]),
        ([0, 1, 1, 1], [("11 12 13", "", (1, 4))]),
    ],
)
def test_the_environments_text_is_never_the_policys(text: Any, written: list[int], expected: Any) -> None:
    """A rollout_func's one message holds everything; the mask says what the policy wrote."""
    t = made(written, text)
    assert shown(t) == expected
    assert t.layout().turn_lengths.sum() == sum(written)


def test_messages_of_a_tool_loop_are_the_runs_of_the_mask() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {}}}
    messages = [
        {"role": "assistant", "content": "a", "tool_calls": [call]},
        {"role": "tool", "name": "f", "content": [{"type": "text", "text": "see"}, {"type": "image"}]},
        {"role": "assistant", "content": None},
    ]
    t = made([1, 0, 1, 1], messages)
    assert shown(t) == [("a", "see[image]", (0, 2)), ("", "", (2, 4))]
    assert t.status == "terminated"
    assert made([1, 0, 1, 1], messages[:1]).status == "truncated"
    assert made([1, 0, 1, 1], messages, ended=False).status == "truncated"


def test_a_row_that_left_the_loss_keeps_its_turns_and_tokens() -> None:
    records = Recorded(columns=[{"violations": 1}, {"violations": 0}])
    t = made([1, 0, 1], "a b c", per_turn=records, ended=False, in_loss=np.zeros(3, bool), logps=np.full(3, np.nan))
    assert [turn.columns["violations"] for turn in t.turns] == [1, 0]
    assert t.layout().turn_lengths.tolist() == [1, 1]
    assert t.own is not None
    assert not t.own.any()


def test_a_response_in_which_the_policy_wrote_nothing_has_no_turns() -> None:
    assert made([0, 0, 0], "a b c").turns == ()


def test_a_rollout_func_that_counts_turns_otherwise_is_told() -> None:
    with pytest.raises(InvalidArgument, match="1 runs of ones"):
        made([1, 1, 0], "a", per_turn=Recorded(rewards=[1.0, 1.0]))


def test_what_a_rollout_func_says_about_the_end_counts() -> None:
    assert made([1], "a", ended=False, status="terminated").status == "terminated"
    broken = made([1], "a", status="aborted", error="sandbox lost")
    assert isinstance(outcome().observe([broken])[0], Failed)


def test_rewards_that_gave_nothing_are_missing() -> None:
    t = made([1], "a", rewards={"f": None, "g": 2.0}, reward=None, row={"reference": "4", "f": "a column"})
    assert isinstance(t.columns["reward"], Failed)
    assert isinstance(t.columns["f"], Abstained)
    assert (t.columns["g"], t.reference) == (2.0, "4")


def test_log_probabilities_are_all_known_or_none() -> None:
    logps = np.array([-1.0, np.nan, -2.0])
    known = made([1, 0, 1], "a", logps=logps).behaviour_logps
    assert known is not None
    assert known[[0, 2]].tolist() == [-1.0, -2.0]
    assert made([1, 1, 1], "a", logps=logps).behaviour_logps is None


def test_what_comes_before_the_first_message_answers_nothing() -> None:
    assert turns_of([{"role": "tool", "content": "x"}]) == []
