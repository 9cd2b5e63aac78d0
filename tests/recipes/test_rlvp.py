"""RLVP: the paper's worked numbers, its variants, and what happens where something is missing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.recipes import load
from apportion.recipes.rlvp import rlvp
from apportion.rollouts import Level, Trajectory, Turn
from apportion.verdicts import Abstained, Failed, Scored, Verdict


def turns_of_ten(*turns: int, groups: str | None = None) -> Batch:
    return Batch.of(groups=list(groups or "q" * len(turns)), turns=list(turns), tokens=[10] * sum(turns))


def seen(outcome: list[Any], broken: list[list[Any]], honoured: list[list[Any]] | None = None) -> dict[str, Any]:
    def verdicts(values: list[Any]) -> list[Verdict]:
        return [v if isinstance(v, (Abstained, Failed)) else Scored(v) for v in values]

    honoured = [[0] * len(row) for row in broken] if honoured is None else honoured
    return {
        "outcome": verdicts(outcome),
        "violations": [verdicts(row) for row in broken],
        "fulfilments": [verdicts(row) for row in honoured],
    }


def per_turn(batch: Batch, verdicts: dict[str, Any], **settings: Any) -> list[float]:
    """The advantage of one token of every turn, times 40, so that N_out = 40 shows the scalar as it is."""
    credit, _ = rlvp(**settings).assign(batch, verdicts)
    first = batch.pool(credit.advantages.values, Level.TOKEN, Level.TURN, "mean")
    return [round(v * 40, 6) for v in first.tolist()]


def test_c2_of_the_worked_example() -> None:
    """One success with a violation on its second turn, one clean failure; 20 tokens each, N_out 40 and N_path 10."""
    got = per_turn(turns_of_ten(2, 2), seen([1, 0], [[0, 1], [0, 0]]), variant="c2")
    assert got == [0.5, 0.5 - 1.0, -0.5, -0.5]


def test_c3_moves_the_baseline_too() -> None:
    got = per_turn(turns_of_ten(2, 2), seen([1, 0], [[0, 1], [0, 0]]), variant="c3")
    assert got == [0.375, 0.375 - 1.0, -0.375, -0.375]


def test_c1_is_the_scalar_alone() -> None:
    assert per_turn(turns_of_ten(2, 2), seen([1, 0], [[0, 1], [0, 0]]), variant="c1") == [0.375, 0.375, -0.375, -0.375]


def test_episode_totals_count_up_to_two_and_the_channel_counts_all() -> None:
    verdicts = seen([1, 1], [[5, 0], [0, 0]])
    assert per_turn(turns_of_ten(2, 2), verdicts, variant="c1") == [-0.25, -0.25, 0.25, 0.25]
    assert per_turn(turns_of_ten(2, 2), verdicts, variant="c2") == [-5.0, 0.0, 0.0, 0.0]


def test_c4_pays_credit_only_on_success() -> None:
    verdicts = seen([1, 0], [[0, 0], [0, 0]], [[1, 0], [1, 0]])
    assert per_turn(turns_of_ten(2, 2), verdicts, variant="c4") == [0.625 + 1.0, 0.625, -0.625, -0.625]
    assert per_turn(turns_of_ten(2, 2), verdicts, variant="c3")[2] == -0.5 + 0.5


def test_a_group_that_violates_alike_is_pushed_away_by_the_paper_and_left_alone_when_centred() -> None:
    verdicts = seen([0, 0], [[1, 1], [1, 1]])
    assert per_turn(turns_of_ten(2, 2), verdicts) == [-0.25] * 4
    assert per_turn(turns_of_ten(2, 2), verdicts, path_center="group") == [0.0] * 4
    assert load("rlvp_centred").name == "rlvp_centred"


def test_violation_and_fulfilment_on_one_turn_add() -> None:
    got = per_turn(turns_of_ten(1, 1), seen([0, 0], [[2], [0]], [[1], [0]]), variant="c2", penalty=0.5, credit=0.25)
    assert got == [(-1.0 + 0.25) * 4, 0.0]


def test_the_channel_has_its_own_denominator_whatever_the_batch() -> None:
    """N_path = 10 with two episodes and with four; N_out follows the batch."""
    two, _ = rlvp(variant="c2").assign(turns_of_ten(2, 2), seen([0, 0], [[0, 1], [0, 0]]))
    four, _ = rlvp(variant="c2").assign(turns_of_ten(2, 2, 2, 2), seen([0] * 4, [[0, 1], [0, 0], [0, 0], [0, 0]]))
    assert two.advantages.values[10].item() == four.advantages.values[10].item() == -0.025
    assert two.aggregation == "token-sum"


def test_a_channel_without_a_token_adds_nothing() -> None:
    assert per_turn(turns_of_ten(1, 1), seen([1, 0], [[0], [0]])) == [1.0, -1.0]


def test_annealing_switches_the_channel_off_and_needs_the_step() -> None:
    recipe = rlvp(variant="c2", anneal_after=40)
    batch, verdicts = turns_of_ten(1, 1), seen([0, 0], [[1], [0]])
    on, _ = recipe.assign(batch, verdicts, step=39)
    off, _ = recipe.assign(batch, verdicts, step=40)
    assert on.advantages.values.abs().sum() > 0
    assert off.advantages.values.abs().sum() == 0
    with pytest.raises(MissingInput, match="step"):
        recipe.assign(batch, verdicts)


def test_the_gate_decides_once_and_spares_penalties() -> None:
    recipe = rlvp(variant="c2", gate="reachable", gate_share=0.5)
    batch = turns_of_ten(1, 1, 1, 1, groups="aabb")
    same = seen([0] * 4, [[1], [0], [0], [0]], [[1], [1], [0], [0]])
    differ = seen([0] * 4, [[0], [0], [0], [0]], [[1], [0], [1], [0]])
    closed, state = recipe.assign(batch, same)
    assert state == {"reachable_share": 0.0}
    assert closed.advantages.values[::10].tolist() == [-0.025, 0.0, 0.0, 0.0]
    still, after = recipe.assign(batch, differ, state=state)
    assert after == state
    assert still.advantages.values.abs().sum() == 0
    opened, state = recipe.assign(batch, differ)
    assert state == {"reachable_share": 1.0}
    assert opened.advantages.values[::10].tolist() == [0.0125, 0.0, 0.0125, 0.0]
    assert recipe.reconstruction


def test_an_unknown_outcome_leaves_the_group_and_keeps_its_path() -> None:
    batch = turns_of_ten(1, 1, 1)
    credit, _ = rlvp(variant="c2").assign(batch, seen([1, 0, Failed("sandbox lost")], [[0], [0], [1]]))
    assert credit.advantages.values[::10].tolist() == [0.5 / 20, -0.5 / 20, -0.25 / 10]


def test_rules_that_do_not_apply_add_nothing_and_a_failed_count_spoils_the_scalar_only() -> None:
    silent = Abstained("no rule")
    assert per_turn(turns_of_ten(1, 1), seen([1, 0], [[silent], [silent]], [[silent], [silent]])) == [1.0, -1.0]
    credit, _ = rlvp(variant="c3").assign(turns_of_ten(2, 2, 2), seen([1, 0, 1], [[0, 0], [0, 0], [Failed("-"), 1]]))
    ledger = credit.ledger()
    assert ledger["outcome"][40:].abs().sum() == 0
    assert ledger["violations"][50].item() == -0.25 / 10


def test_the_ledger_tells_outcome_scalar_and_channel_apart() -> None:
    credit, _ = rlvp().assign(turns_of_ten(2, 2), seen([1, 0], [[0, 1], [0, 0]]))
    assert sorted(credit.ledger()) == [
        "fulfilments",
        "fulfilments in episode",
        "outcome",
        "violations",
        "violations in episode",
    ]
    assert credit.ledger()["violations in episode"][0].item() == pytest.approx(-0.125 / 40)
    assert credit.advantages.residual() <= 1e-12


def test_text_only_rollouts_count_turns_instead_of_tokens() -> None:
    batch = Batch.of(groups=["q", "q"], turns=[2, 2])
    credit, _ = rlvp(variant="c2").assign(batch, seen([1, 0], [[0, 1], [0, 0]]))
    assert credit.advantages.values.tolist() == [0.125, 0.125 - 0.25, -0.125, -0.125]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"variant": "c5"}, "variant"),
        ({"gate": "maybe"}, "gate"),
        ({"penalty": -1.0}, "penalty"),
        ({"credit": float("nan")}, "credit"),
        ({"credit": 0.0}, "credit"),
        ({"path_center": "batch"}, "path_center"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        rlvp(**settings)
    assert caught.value.argument == named


def test_an_unpaired_penalty_needs_a_reason() -> None:
    assert rlvp(credit=0.0, force="ablation: no paired credit").force


def test_counts_come_from_turn_columns_or_from_a_rule_file(tmp_path: Any) -> None:
    recorded = [
        Trajectory(id="a", group="q", turns=[Turn(columns={"broke": 1})], columns={"reward": 1}),
        Trajectory(id="b", group="q", turns=[Turn(columns={"broke": 0, "kept": 1})], columns={"reward": 0}),
    ]
    credit, _ = rlvp(violations="broke", fulfilments="kept").score(recorded)
    assert credit.rewards["violations"].values.tolist() == [1.0, 0.0]
    assert credit.rewards["fulfilments"].known.tolist() == [False, True]
    with pytest.raises(MissingInput, match="turn column 'violations'"):
        rlvp().score(recorded)

    file = tmp_path / "house_rules.py"
    file.write_text(
        "from apportion.rewards import before, called\n"
        "rules = [before(called('read'), called('edit'), same='path', name='read_first')]\n"
    )
    credit, _ = load("rlvp", rules=str(file)).score(edits())
    assert credit.rewards["violations"].values.tolist() == [0.0, 0.0, 1.0]
    assert credit.rewards["fulfilments"].values.tolist() == [0.0, 1.0, 0.0]
    file.write_text("rules = ['no']\n")
    with pytest.raises(InvalidArgument, match=r"list of apportion\.rewards\.Rule"):
        load("rlvp", rules=str(file))


def edits() -> list[Trajectory]:
    from apportion.rollouts import Action

    read, edit = Action("read", {"path": "a"}), Action("edit", {"path": "a"})
    careful = Trajectory(id="a", group="q", turns=[Turn(actions=(read,)), Turn(actions=(edit,))], columns={"reward": 1})
    hasty = Trajectory(id="b", group="q", turns=[Turn(actions=(edit,))], columns={"reward": 1})
    return [careful, hasty]


def test_gradients_do_not_depend_on_the_order_of_trajectories() -> None:
    batch, verdicts = turns_of_ten(2, 2), seen([1, 0], [[0, 1], [0, 0]])
    turned = turns_of_ten(2, 2)
    one, _ = rlvp().assign(batch, verdicts)
    two, _ = rlvp().assign(turned, {name: rows[::-1] for name, rows in verdicts.items()})
    assert torch.equal(one.advantages.values, two.advantages.values.roll(20))


@pytest.mark.parametrize("unknown", [Abstained("no checker for this task"), Failed("judge down")])
@pytest.mark.parametrize("variant", ["c1", "c2", "c3"])
def test_an_unknown_outcome_is_in_no_baseline(unknown: Verdict, variant: str) -> None:
    """Were it 0 beside an outcome of 3 and one of 1, the mean of the group would be 4/3 instead of 2."""
    credit, _ = rlvp(variant=variant).assign(turns_of_ten(1, 1, 1), seen([3, 1, unknown], [[0], [0], [0]]))  # type: ignore[arg-type]
    assert [round(v * 20, 6) for v in credit.advantages.values[::10].tolist()] == [1.0, -1.0, 0.0]


def test_settings_of_a_users_recipe_are_recorded(tmp_path: Any) -> None:
    """Two runs with different settings must be told apart by their credit files."""
    file = tmp_path / "mine.py"
    file.write_text(
        "import apportion as ap\n"
        "def recipe(*, beta=0.1, column='reward'):\n"
        "    def assign(batch, signals, *, step, state):\n"
        "        return ap.grpo(signals['outcome']) * beta\n"
        "    return ap.Recipe(name='mine', observers=[ap.outcome(column)], assign_signals=assign,\n"
        "                     aggregation='token-mean')\n"
    )
    assert load(str(file), beta=0.5).parameters == {"beta": 0.5, "column": "reward"}
    assert load("grpo").parameters["dialect"] == "apportion"
