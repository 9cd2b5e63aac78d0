"""What an environment pays call by call drives MT-GRPO and GiGPO, by name and through TRL's own tool loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from apportion.rollouts import Level
from tests.integrations.trl_adapter.scripted import Scripted, call
from tests.integrations.trl_adapter.test_tools import shop

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'environment_factory'")

SLOW, ADD = [call("slow", item="a"), call("add", item="b"), "ok"], [call("add", item="a"), call("add", item="b"), "ok"]


def by_turn(made: Scripted) -> list[float]:
    credit = made.last_credit
    assert credit is not None
    found: list[float] = credit.batch.pool(credit.advantages.values, Level.TOKEN, Level.TURN, "mean").tolist()
    return found


def test_mt_grpo_credits_the_first_turn_for_its_call(tmp_path: Path) -> None:
    """Both rollouts earn 2 by `get_reward`; the first calls were paid 10 and 1."""
    made = shop(tmp_path, SLOW, ADD, recipe="mt_grpo", recipe_args={"eps": 0.0})
    assert by_turn(made) == pytest.approx([0.7071, 0.0, 0.0, -0.7071, 0.0, 0.0], abs=1e-4)


def test_a_batch_that_nobody_was_paid_in_goes_on_where_that_is_worth_zero(tmp_path: Path) -> None:
    made = shop(tmp_path, ["a"], ["b"], recipe="mt_grpo", recipe_args={"unpaid": "zero"})
    assert by_turn(made) == [0.0, 0.0]


def test_gigpo_meets_states_by_what_the_tools_answered(tmp_path: Path) -> None:
    """All first turns start alike, all second ones after "added a": returns 11 and 2, then 1 and 1; 0 at the end."""
    made = shop(tmp_path, SLOW, ADD, recipe="gigpo", recipe_args={"paid": "turns", "unpaid": "zero", "discount": 1.0})
    assert by_turn(made) == pytest.approx([4.5, 0.0, 0.0, -4.5, 0.0, 0.0])
