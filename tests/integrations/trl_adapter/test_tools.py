"""Tools and environments through TRL's own tool loop: every record lands on the turn that caused it, or nowhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch

from apportion.advantages import group_center, return_to_go
from apportion.environments import Terminal
from apportion.environments.trl import TerminalTools
from apportion.errors import MissingInput
from apportion.integrations.trl.rollouts import UNJOINED
from apportion.recipe import Recipe
from apportion.rewards import step_reward
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained
from tests.integrations.trl_adapter.scripted import CUT, Scripted, call, scripted

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'environment_factory'")

BROKEN = Terminal().start(0)[0].broken
HONEST = [call("cat", path=BROKEN), call("edit", path=BROKEN), call("wait"), call("wait"), call("submit"), "done"]
SHORTCUT = [f"{call('edit', path='tests.py')}\n{call('rm', path='lock')}", call("submit"), "done"]


class Shop:
    """Pays for every call that arrives: 1 for `add`, 10 for `slow`, nothing for `look`."""

    def __init__(self) -> None:
        self.rewards: list[float | None] = []
        self.turn_columns: list[dict[str, Any]] = []

    def reset(self, **row: Any) -> str:
        self.rewards.clear()
        self.turn_columns.clear()
        return ""

    def add(self, item: str) -> str:
        """Adds an item.

        Args:
            item: What to add.
        """
        self._note("add", 1.0)
        return f"added {item}"

    async def slow(self, item: str) -> str:
        """Adds an item slowly.

        Args:
            item: What to add.
        """
        await asyncio.sleep(0.01)
        self._note("slow", 10.0)
        return f"added {item}"

    def look(self, page: int) -> str:
        """Looks at a page.

        Args:
            page: Which one.
        """
        self._note("look", None)
        return "x" * page

    def get_reward(self) -> float:
        return float(len(self.rewards))

    def _note(self, name: str, reward: float | None) -> None:
        self.rewards.append(reward)
        self.turn_columns.append({"violations": 1, "fulfilments": 0, "last": name})


class NamedShop(Shop):
    """The same, and it keeps the names of the calls."""

    @property
    def calls(self) -> list[str]:
        return [column["last"] for column in self.turn_columns]


def shop(folder: Path, *script: list[str], kind: type[Shop] = Shop, **settings: Any) -> Scripted:
    """Rollouts of the script in a shop, two per prompt; a second row is filled in where one is given."""
    rows = list(script) if len(script) > 1 else [script[0], [call("add", item="a"), "ok"]]
    return scripted(folder, rows, **{"environment_factory": kind, "reward_funcs": [], **settings})


def counted(rollout: Trajectory) -> list[int | None]:
    return [turn.columns.get("violations") for turn in rollout.turns]


def test_terminal_episodes_through_the_tool_loop(tmp_path: Path) -> None:
    made = scripted(
        tmp_path, [HONEST, SHORTCUT], environment_factory=TerminalTools, reward_funcs=[], max_completion_length=400
    )
    honest, shortcut = made.last_rollouts
    assert [turn.columns["violations"] for turn in honest.turns] == [0] * 6
    assert [turn.columns["fulfilments"] for turn in honest.turns] == [1, 1, 0, 1, 0, 0]
    assert [turn.columns["violations"] for turn in shortcut.turns] == [2, 0, 0]
    assert [[action.name for action in turn.actions] for turn in shortcut.turns] == [["edit", "rm"], ["submit"], []]
    assert [turn.observation for turn in shortcut.turns] == ["edited\nremoved", "accepted", ""]
    assert {rollout.columns["reward"] for rollout in made.last_rollouts} == {1.0}
    assert {rollout.status for rollout in made.last_rollouts} == {"terminated"}
    text = honest.columns["prompt"][-1]["content"]
    assert text.startswith("q0 The tests fail because of")


def test_tool_results_get_no_credit_and_the_loss_is_ours(tmp_path: Path) -> None:
    made = scripted(
        tmp_path,
        [HONEST, SHORTCUT],
        environment_factory=TerminalTools,
        reward_funcs=[],
        max_completion_length=400,
        on_aggregation="trainer",
    )
    seen, credit = made.seen[0], made.last_credit
    assert credit is not None
    ours = credit.padded(width=seen["mask"].shape[1])
    order = [int((ours - row).abs().sum(1).argmin()) for row in seen["advantages"]]
    assert torch.equal(ours[order], seen["advantages"])
    assert bool((seen["advantages"][seen["mask"] == 0] == 0).all())
    assert int((seen["mask"] == 0).sum()) > 100
    total = int(seen["mask"].sum())
    expected = -(seen["advantages"] * seen["mask"]) / total
    assert float((seen["logps"].grad - expected).abs().max()) <= 1e-6
    assert float(seen["loss"].detach()) == pytest.approx(float(expected.sum()), abs=1e-6)


def test_sync_tools_run_before_async_ones_of_the_same_message(tmp_path: Path) -> None:
    """The tool messages and the records come in another order than the calls; the turn is the same."""
    moves = [f"{call('slow', item='a')}\n{call('add', item='b')}", call("slow", item="c"), "ok"]
    for kind in (Shop, NamedShop):
        first = shop(tmp_path, moves, kind=kind).last_rollouts[0]
        assert [turn.reward for turn in first.turns] == [11.0, 10.0, None]
        assert counted(first) == [2, 1, None]
        assert first.turns[0].columns["last"] == "slow"


def test_a_result_that_is_too_long_was_run_all_the_same(tmp_path: Path) -> None:
    made = shop(tmp_path, [call("add", item="a"), call("look", page=5000)])
    first = made.last_rollouts[0]
    assert [message["role"] for message in first.messages] == ["assistant", "tool", "assistant"]
    assert [turn.reward for turn in first.turns] == [1.0, None]
    assert counted(first) == [1, 1]
    assert (first.status, first.turns[-1].executed) == ("truncated", True)


def test_calls_at_the_limit_of_rounds_are_not_run(tmp_path: Path) -> None:
    made = shop(tmp_path, [call("add", item="a"), call("add", item="b")], max_tool_calling_iterations=1)
    first = made.last_rollouts[0]
    assert counted(first) == [1, None]
    assert [turn.executed for turn in first.turns] == [True, False]
    assert [rollout.status for rollout in made.last_rollouts] == ["truncated", "terminated"]


@pytest.mark.parametrize(
    "lost",
    [call("fly", item="a"), call("add", thing="a"), call("look", page="many")],
    ids=["unknown", "wrong argument", "raises inside"],
)
@pytest.mark.parametrize("kind", [Shop, NamedShop])
def test_a_call_that_did_not_work_shifts_nothing(tmp_path: Path, lost: str, kind: type[Shop]) -> None:
    first = shop(tmp_path, [lost, call("add", item="b"), "ok"], kind=kind).last_rollouts[0]
    arrived = 1 if "look" in lost else None
    assert counted(first) == [arrived, 1, None]
    assert [turn.reward for turn in first.turns] == [None, 1.0, None]


def test_as_many_records_as_turns_are_still_records_of_calls(tmp_path: Path) -> None:
    """Two calls in one message, then an answer: two records, two turns, and both records belong to the first."""
    both = f"{call('add', item='a')}\n{call('add', item='b')}"
    first = shop(tmp_path, [both, "ok"]).last_rollouts[0]
    assert counted(first) == [2, None]


def test_records_that_fit_in_two_ways_are_left_out_and_counted(tmp_path: Path) -> None:
    """Two calls failed, one of them had arrived: without names nobody knows which."""
    moves = [call("look", page="many"), call("fly", item="a"), call("add", item="a"), "ok"]
    made = shop(tmp_path, moves, logging_strategy="steps", logging_steps=1)
    first = made.last_rollouts[0]
    assert counted(first) == [None] * 4
    assert "cannot be told apart" in first.columns[UNJOINED]
    assert made.state.log_history[0]["apportion/environment/unjoined_share"] == 0.5
    assert counted(shop(tmp_path, moves, kind=NamedShop).last_rollouts[0]) == [1, None, 1, None]


def test_what_the_environment_pays_per_call_can_drive_alone(tmp_path: Path) -> None:
    recipe = Recipe(
        name="returns",
        observers=[step_reward(unpaid="zero")],
        assign_signals=lambda batch, signals, *, step, state: group_center(return_to_go(signals["step_reward"])),
        aggregation="token-mean",
    )
    made = shop(tmp_path, [call("add", item="a"), call("slow", item="b"), "ok"], recipe=recipe)
    credit = made.last_credit
    assert credit is not None
    assert credit.rewards["step_reward"].values.tolist() == [1.0, 10.0, 0.0, 1.0, 0.0]
    by_turn = credit.batch.pool(credit.advantages.values, Level.TOKEN, Level.TURN, "mean").tolist()
    assert by_turn == pytest.approx([11 - 4.4, 10 - 4.4, -4.4, 1 - 4.4, -4.4])


def test_environments_by_name_are_each_joined_to_their_own_rollouts(tmp_path: Path) -> None:
    """TRL gives every environment class a reward column; what another class did not score is absent, not 0."""
    rows = [
        {"prompt": [{"role": "user", "content": "q "}], "environment": name, "seed": 0} for name in ("shop", "terminal")
    ]
    buys, edits = [call("add", item="a"), "ok"], [call("edit", path="tests.py"), "ok"]
    made = scripted(
        tmp_path,
        [buys, buys, edits, edits],
        rows=rows,
        environment_factory={"shop": Shop, "terminal": TerminalTools},
        reward_funcs=[],
    )
    assert [counted(rollout) for rollout in made.last_rollouts] == [[1, None]] * 2 + [[1, 0]] * 2
    assert [rollout.columns["reward"] for rollout in made.last_rollouts] == [1.0, 1.0, 0.0, 0.0]
    assert isinstance(made.last_rollouts[0].columns["TerminalTools"], Abstained)


def test_rules_see_every_tool_call(tmp_path: Path) -> None:
    """The environment records nothing for them; a call at the limit of rounds did not happen."""
    rules = tmp_path / "rules.py"
    rules.write_text(
        "from apportion.rewards import before, called\n"
        'rules = [before(called("cat"), called("edit"), same="path", name="read_first")]\n'
    )
    made = scripted(
        tmp_path,
        [
            [call("edit", path="a.py"), call("cat", path="b.py"), call("edit", path="b.py"), call("edit", path="c.py")],
            ["x"],
        ],
        environment_factory=TerminalTools,
        reward_funcs=[],
        recipe_args={"rules": str(rules)},
        max_tool_calling_iterations=3,
    )
    credit = made.last_credit
    assert credit is not None
    violations, fulfilments = credit.rewards["violations"], credit.rewards["fulfilments"]
    assert violations.values.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert violations.known.tolist() == [True, True, True, False, True]
    assert fulfilments.values.tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_a_batch_in_which_nobody_calls(tmp_path: Path) -> None:
    """An environment that says what a turn without a call counts goes on; another is told how to."""
    quiet = scripted(tmp_path, [["a"], ["b"]], environment_factory=TerminalTools, reward_funcs=[])
    assert [counted(rollout) for rollout in quiet.last_rollouts] == [[0], [0]]
    with pytest.raises(MissingInput, match="turn_defaults"):
        shop(tmp_path, ["a"], ["b"])


def test_plain_tools(tmp_path: Path) -> None:
    def add(a: int, b: int) -> int:
        """Adds.

        Args:
            a: One.
            b: The other.

        Returns:
            The sum.
        """
        return a + b

    def right(completions: Any, **_: Any) -> list[float]:
        return [float("3" in completion[-1]["content"]) for completion in completions]

    script = [[f"hm {call('add', a=1, b=2)}", "it is 3"], [f"it is 4{CUT}"]]
    made = scripted(tmp_path, script, tools=[add], reward_funcs=right, recipe="grpo")
    first, second = made.last_rollouts
    assert [(turn.text.strip(), turn.observation) for turn in first.turns] == [("hm", "3"), ("it is 3", "")]
    assert first.turns[0].actions[0].arguments == {"a": 1, "b": 2}
    assert [first.status, second.status] == ["terminated", "truncated"]
    assert made.last_credit is not None
    assert made.last_credit.advantages.values.abs().sum() > 0


def test_a_move_that_is_cut_inside_its_call_is_an_action_with_an_error(tmp_path: Path) -> None:
    made = shop(tmp_path, [f"{call('add', item='a')[:30]}{CUT}"])
    (turn,) = made.last_rollouts[0].turns
    assert made.last_rollouts[0].status == "truncated"
    assert counted(made.last_rollouts[0]) == [None]
    (action,) = turn.actions
    assert (action.name, action.syntax) == (None, "hermes")
    assert action.error
