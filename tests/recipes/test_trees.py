"""The recipes that see trees: the numbers of their papers, what they are where nothing branches, and the program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from apportion.cli._app import app
from apportion.errors import InvalidArgument, MissingInput
from apportion.integrations.files import read, write
from apportion.recipe import Credit
from apportion.recipes import load
from apportion.rollouts import Level, Trajectory, Turn
from tests.branching import rollout, small_tree

SMALL = 1e-4
SETTINGS: dict[str, dict[str, Any]] = {
    "cbpo": {},
    "hdl": {},
    "spo": {"form": "tree", "mask_above": 1.0},
    "trace_tree": {},
    "tree_grpo": {},
    "treerl": {},
}


def score(name: str, rows: Sequence[Trajectory], **settings: Any) -> Credit:
    return load(name, **settings).score(rows)[0]


def silenced(rows: Sequence[Trajectory], lost: str) -> list[Trajectory]:
    """The same rollouts, one without its outcome."""
    return [replace(t, columns={**t.columns, "reward": None}) if t.id == lost else t for t in rows]


def by_rollout(credit: Credit) -> list[list[float]]:
    parts = torch.split(credit.advantages.values, credit.batch.tokens_per_trajectory.tolist())
    return [part.tolist() for part in parts]


def roots(rewards: Sequence[float | None], group: str = "q") -> list[Trajectory]:
    return [rollout(f"{group}{i}", [i + 1, 7], r, group=group) for i, r in enumerate(rewards)]


# ------------------------------------------------------------------------------------------------------ worked numbers


def forked() -> list[Trajectory]:
    return [
        rollout("p", [1, 2, 3, 4, 5, 6], 1),
        rollout("a", [1, 2, 7], 0, parent="p", copied=2),
        rollout("b", [1, 2, 8], 0, parent="p", copied=2),
        rollout("c", [1, 2, 3, 4, 9], 1, parent="p", copied=4),
        rollout("d", [1, 2, 3, 4, 10], 1, parent="p", copied=4),
    ]


def test_cbpo_strengthens_credit_where_outcomes_behind_a_place_differ() -> None:
    parent, a, b, c, d = by_rollout(score("cbpo", forked()))
    assert parent == pytest.approx([-0.5443, -0.5443, 0.8573, 0.8573, 0.7348, 0.7348], abs=SMALL)
    assert a == b == pytest.approx([0, 0, -1.3472], abs=SMALL)
    assert c == d == pytest.approx([0, 0, 0, 0, 0.7348], abs=SMALL)


def test_cbpo_without_strength_shares_the_group_advantage_before_a_node() -> None:
    parent, *_ = by_rollout(score("cbpo", forked(), strength=0.0))
    base, shared = 0.8165, (0.8165 - 2 * 1.2247) / 3
    assert parent == pytest.approx([shared] * 2 + [base] * 4, abs=SMALL)


def test_cbpo_measures_contrast_over_the_batch_and_never_turns_a_sign() -> None:
    other = renamed(forked(), "p", [0, 1, 0, 1, 0])
    alone, together = by_rollout(score("cbpo", forked())), by_rollout(score("cbpo", forked() + other))[:5]
    assert alone[1][-1] != pytest.approx(together[1][-1])
    strong, plain = by_rollout(score("cbpo", forked(), strength=1.9)), by_rollout(score("cbpo", forked(), strength=0.0))
    for mine, other in zip(strong[1:], plain[1:], strict=True):
        assert all(x * y > 0 or x == y == 0 for x, y in zip(mine, other, strict=True))
        assert all(abs(x) <= abs(y) * (1 + 1.9 / 2) + 1e-12 for x, y in zip(mine, other, strict=True))


def renamed(rows: Sequence[Trajectory], group: str, rewards: Sequence[float | None]) -> list[Trajectory]:
    """The same rollouts for another prompt, with other outcomes."""
    made = []
    for t, reward in zip(rows, rewards, strict=True):
        parent = t.columns["parent"]
        columns = {**t.columns, "reward": reward, "parent": parent and f"{group}-{parent}"}
        made.append(replace(t, id=f"{group}-{t.id}", group=group, columns=columns))
    return made


def test_cbpo_nodes_that_differ_alike_have_no_contrast() -> None:
    rows = [*forked(), rollout("e", [1, 2, 3, 4, 11], 0, parent="p", copied=4)]
    # node 1: 1, 0, 0 and node 2: 1, 1, 1, 0; made alike: 1, 0, 0 and 1, 0, 0
    alike = renamed(rows[:5], "p", [1, 0, 0, 0, 0])
    assert by_rollout(score("cbpo", alike)) == by_rollout(score("cbpo", alike, strength=0.0))
    assert by_rollout(score("cbpo", rows)) != by_rollout(score("cbpo", rows, strength=0.0))


def test_cbpo_a_node_with_one_known_outcome_is_no_node_of_the_batch() -> None:
    lone = renamed([forked()[0], forked()[1], *roots([0.0])], "p", [None, 1.0, 0.0])
    loose = {"bound": 0.25}
    assert by_rollout(score("cbpo", [*forked(), *lone], **loose))[:5] == by_rollout(score("cbpo", forked(), **loose))


def test_cbpo_has_no_second_floor() -> None:
    rows = [*forked(), rollout("e", [1, 2, 7, 8], 1, parent="a", copied=3)]
    with pytest.raises(InvalidArgument, match="second floor"):
        score("cbpo", rows)
    for wrong in ({"strength": 2.0}, {"strength": -1.0}, {"flat": -1.0}):
        with pytest.raises(InvalidArgument):
            load("cbpo", **wrong)


def test_hdl_centres_roots_and_continuations_together() -> None:
    rows = [
        rollout("r0", [1, 2, 3], 0),
        rollout("r1", [4, 5, 6], 1),
        rollout("c0", [1, 7, 8], 1, parent="r0", copied=1),
        rollout("c1", [4, 7, 8], 0, parent="r1", copied=1),
    ]
    credit = score("hdl", rows)
    assert by_rollout(credit) == [[-0.5] * 3, [0.5] * 3, [0, 0.5, 0.5], [0, -0.5, -0.5]]
    assert credit.in_loss.tolist() == [True] * 6 + [False, True, True] * 2


def test_trace_tree_is_grpo_on_what_was_written() -> None:
    found = by_rollout(score("trace_tree", forked()))
    assert found[0] == pytest.approx([0.8165] * 6, abs=SMALL)
    assert found[1] == pytest.approx([0, 0, -1.2247], abs=SMALL)


def test_tree_grpo_compares_inside_the_prompt_and_inside_the_tree() -> None:
    rows = [
        rollout("a", [1, 2], 1),
        rollout("b", [1, 3], 0, parent="a", copied=1),
        rollout("c", [4, 2], 1),
        rollout("d", [4, 3], 1, parent="c", copied=1),
    ]
    credit = score("tree_grpo", rows)
    assert [row[-1] for row in by_rollout(credit)] == pytest.approx([1.2071, -2.2071, 0.5, 0.5], abs=SMALL)
    assert by_rollout(credit)[1][0] == 0
    assert set(credit.ledger()) == {"outcome", "outcome in tree"}


def test_treerl_weighs_a_node_by_what_it_adds() -> None:
    rows = [
        rollout("a", [1, 2, 3], 1),
        rollout("b", [1, 2, 4], 1, parent="a", copied=2),
        rollout("c", [5, 6, 7], 0),
        rollout("d", [5, 6, 8], 0, parent="c", copied=2),
    ]
    a, b, c, d = by_rollout(score("treerl", rows))
    assert a == pytest.approx([0.9428, 0.9428, 0.6667], abs=SMALL)
    assert b == pytest.approx([0, 0, 0.6667], abs=SMALL)
    assert c == pytest.approx([-0.9428, -0.9428, -0.6667], abs=SMALL)
    assert d == pytest.approx([0, 0, -0.6667], abs=SMALL)


def chain(values: Sequence[float | None], probabilities: Sequence[float], reward: float | None = 1.0) -> Trajectory:
    column = [math.nan if v is None else v for v in values]
    logps = [math.log(p) for p in probabilities]
    fields: dict[str, Any] = {"behaviour_logps": logps, "token_columns": {"segment_values": column}}
    return rollout("a", list(range(len(values))), reward, **fields)


def test_spo_credits_a_segment_with_what_it_changes() -> None:
    row = chain([0.5, None, 0.75, 0.25], [0.5, 0.95, 0.5, 0.5])
    assert by_rollout(score("spo", [row])) == [[0.25, 0.0, -0.5, 0.75]]
    assert by_rollout(score("spo", [row], mask_above=1.0)) == [[0.25, 0.25, -0.5, 0.75]]
    late = chain([None, 0.5, None], [0.5, 0.5, 0.5])
    assert by_rollout(score("spo", [late])) == [[0.0, 0.5, 0.5]]


def test_spo_sums_over_segments_to_the_outcome_minus_the_first_value() -> None:
    found = score("spo", [chain([0.3, 0.9, 0.2, 0.6], [0.1] * 4, reward=0.0)])
    assert float(found.advantages.values.sum()) == pytest.approx(0.0 - 0.3)


def test_spo_values_a_cut_by_the_continuations_sampled_there() -> None:
    rows = [
        rollout("a", [1, 2, 3, 4], 1),
        rollout("b", [1, 5], 0, parent="a", copied=1),
        rollout("c", [1, 6], 1, parent="a", copied=1),
        rollout("d", [1, 2, 3, 7], 1, parent="a", copied=3),
        rollout("e", [1, 2, 3, 8], 0, parent="d", copied=3),
        rollout("f", [1, 9], None, parent="b", copied=1),
    ]
    credit = score("spo", rows, form="continuations", mask_above=1.0)
    # V = 1/2 behind 1 (b, c; f has no outcome), and 1/2 behind 3 (d, e)
    a, *others = by_rollout(credit)
    assert a == pytest.approx([0, 0, 0, 0.5])
    assert credit.in_loss.tolist() == [False, True, True, True] + [False] * 14
    assert not any(a for row in others for a in row)
    assert set(credit.ledger()) == {"continuations", "outcome"}


def test_spo_continuations_work_on_turns() -> None:
    def told(name: str, reward: float, *texts: str, **columns: Any) -> Trajectory:
        turns = [Turn(text=text) for text in texts]
        return Trajectory(id=name, group="q", turns=turns, columns={"reward": reward, "parent": None, **columns})

    rows = [told("a", 1, "x", "y", "z"), told("b", 0, "x", "w", parent="a", branch_turn=1)]
    credit = score("spo", rows, form="continuations", mask_above=1.0)
    assert credit.advantages.values.tolist() == pytest.approx([0, 1, 1, 0, 0])


def test_spo_tree_takes_means_over_children_and_drops_what_changes_nothing() -> None:
    rows = [
        rollout("a", [1, 2], 1),
        rollout("b", [1, 3], 0, parent="a", copied=1),
        rollout("c", [1, 4], 1, parent="a", copied=1),
        rollout("d", [5, 6], 1),
        rollout("e", [5, 7], 1, parent="d", copied=1),
    ]
    credit = score("spo", rows, **SETTINGS["spo"])
    # V: 2/3 behind 1, 1 behind 5, 5/6 at the prompt
    a, b, c, d, e = by_rollout(credit)
    assert a == pytest.approx([-1 / 6, 1 / 3])
    assert b == pytest.approx([0, -2 / 3])
    assert c == pytest.approx([0, 1 / 3])
    assert d == pytest.approx([1 / 6, 0])
    assert e == [0, 0]
    assert credit.in_loss.tolist() == [True, True, False, True, False, True, True, False, False, False]
    scaled = by_rollout(score("spo", rows, **SETTINGS["spo"], scale="parent_std"))
    assert scaled[0] == pytest.approx([-1, (1 / 3) / math.sqrt(2 / 9)])


def test_spo_settings_are_checked() -> None:
    for wrong in ({"form": "ring"}, {"scale": "std"}, {"mask_above": 0.0}, {"branches": "guessed", "form": "tree"}):
        with pytest.raises(InvalidArgument):
            load("spo", **wrong)


# ------------------------------------------------------------------------------------------------ what reduces to what


@pytest.mark.parametrize(
    ("name", "like", "factor"),
    [
        ("cbpo", "trace_tree", 1.0),
        ("hdl", "dr_grpo", 1.0),
        ("trace_tree", "cbpo", 1.0),
        ("tree_grpo", "grpo", 1.0),
        ("treerl", "rloo", 2.0),
        ("spo", "dr_grpo", 1.0),
    ],
)
def test_where_nothing_branches_it_is_a_group_estimator(name: str, like: str, factor: float) -> None:
    rows = [*roots([1, 0, 0, 1, 0.5]), *roots([0, 1, None], "p"), *roots([1, 1], "o")]
    found = score(name, rows, **SETTINGS[name]).advantages.values
    other = score(like, rows, **SETTINGS.get(like, {})).advantages.values
    assert found.tolist() == pytest.approx((factor * other).tolist())


def test_population_std_without_branches() -> None:
    found = score("trace_tree", roots([1, 0, 0, 0])).advantages.values[::2].tolist()
    assert found == pytest.approx([math.sqrt(3), *[-1 / math.sqrt(3)] * 3])
    by_std = score("spo", roots([1, 0, 0, 0]), **SETTINGS["spo"], scale="parent_std").advantages.values[::2].tolist()
    assert by_std == pytest.approx(found)


@pytest.mark.parametrize("name", list(SETTINGS))
def test_what_was_copied_gets_nothing_and_leaves_the_loss(name: str) -> None:
    rows = [t for t in small_tree() if t.id != "p-e"]
    credit = score(name, rows, **SETTINGS[name])
    copied = ~torch.tensor([bool(o) for t in rows for o in t.own[t.policy]])  # type: ignore[index]
    assert not credit.advantages.values[copied].any()
    assert not credit.in_loss[copied].any()
    assert credit.advantages.residual() <= 1e-12
    assert any(credit.advantages.values[~copied])


@pytest.mark.parametrize("name", list(SETTINGS))
@pytest.mark.parametrize("lost", ["p-b", "p-c"])
def test_a_rollout_without_an_outcome_changes_nothing_for_the_others(name: str, lost: str) -> None:
    rows = [t for t in small_tree() if t.id != "p-e"]
    without = by_rollout(score(name, [t for t in rows if t.id != lost], **SETTINGS[name]))
    found = by_rollout(score(name, silenced(rows, lost), **SETTINGS[name]))
    assert [row for t, row in zip(rows, found, strict=True) if t.id != lost] == without
    assert not any(a for t, row in zip(rows, found, strict=True) if t.id == lost for a in row)


@pytest.mark.parametrize("name", [*SETTINGS, "spo, continuations"])
def test_a_parent_without_an_outcome_has_no_credit_itself(name: str) -> None:
    rows = [t for t in small_tree() if t.id != "p-e"]
    settings = SETTINGS.get(name, {"form": "continuations", "mask_above": 1.0})
    credit = score(name.partition(",")[0], silenced(rows, "p-a"), **settings)
    assert not any(by_rollout(credit)[0])
    assert not credit.in_loss[:5].any()
    assert credit.advantages.values.any()


def test_the_only_branch_off_a_parent_without_an_outcome_is_a_rollout_like_others() -> None:
    """RLOO is -1 twice over, and V(a) - V(root) is -1/2; half of it, or none, would come of a point with one child."""
    rows = [rollout("p", [1, 2, 3], None), rollout("a", [1, 2, 7], 0, parent="p", copied=2), rollout("r", [9], 1)]
    assert by_rollout(score("treerl", rows))[1:] == [[0.0, 0.0, -2.0], [2.0]]
    assert by_rollout(score("spo", rows, **SETTINGS["spo"]))[1:] == [[0.0, 0.0, -0.5], [0.5]]


def test_a_branch_off_a_branch_without_an_outcome_still_shares_what_that_one_had_copied() -> None:
    """r and c share two tokens of value 1/2; the prompt is worth 3/4."""
    rows = [
        rollout("r", [1, 2, 3], 1),
        rollout("b", [1, 2, 4, 5], None, parent="r", copied=2),
        rollout("c", [1, 2, 4, 6], 0, parent="b", copied=3),
        rollout("o", [9], 1),
    ]
    made = by_rollout(score("spo", rows, **SETTINGS["spo"]))
    assert made == [[-0.25, -0.25, 0.5], [0.0] * 4, [0.0, 0.0, 0.0, -0.5], [0.25]]


def test_equal_turns_of_a_rollout_without_an_outcome_share_nothing() -> None:
    rows = [t for t in small_tree() if t.id in ("p-a", "p-b")]
    other = rollout("p-x", [5], 0.0, group="p", prompt_ids=[99])
    found = by_rollout(score("spo", [*silenced(rows, "p-b"), other], **SETTINGS["spo"], branches="prefixes"))
    assert found == [[0.5] * 5, [0.0] * 3, [-0.5]]


@pytest.mark.parametrize("name", list(SETTINGS))
def test_the_order_of_rollouts_means_nothing(name: str) -> None:
    rows = [t for t in small_tree() if t.id != "p-e"]
    found, turned = (by_rollout(score(name, order, **SETTINGS[name])) for order in (rows, rows[::-1]))
    for one, other in zip(found, turned[::-1], strict=True):
        assert one == pytest.approx(other)


def test_equal_turns_find_the_tree_that_was_recorded() -> None:
    rows = [t for t in small_tree() if t.group == "p" and t.id != "p-e"]
    for name in ("treerl", "spo"):
        recorded = by_rollout(score(name, rows, **SETTINGS[name]))
        equal = by_rollout(score(name, rows, **SETTINGS[name], branches="prefixes"))
        assert recorded == [pytest.approx(row) for row in equal]


def test_text_only_rollouts_branch_at_turns() -> None:
    def told(name: str, reward: float, *texts: str, **columns: Any) -> Trajectory:
        turns = [Turn(text=text) for text in texts]
        return Trajectory(id=name, group="q", turns=turns, columns={"reward": reward, "parent": None, **columns})

    rows = [told("a", 1, "x", "y"), told("b", 0, "x", "z", parent="a", branch_turn=1), told("c", 0, "w")]
    credit = score("treerl", rows)
    assert credit.advantages.level == Level.TURN
    # leaf scores 1, -1/2, -1/2; V(x) = 1/4 shared by two
    expected = [(0.25 + 0.25) / math.sqrt(2), 1 + 0.75, 0.0, -0.5 - 0.75, -1.0]
    assert credit.advantages.values.tolist() == pytest.approx(expected)
    assert credit.in_loss.tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("name", list(SETTINGS))
def test_rollouts_without_a_turn_get_credit_as_a_whole(name: str) -> None:
    rows = [Trajectory(id=str(i), group="q", columns={"reward": r, "parent": None}) for i, r in enumerate((1, 0))]
    for settings in ({}, {"branches": "prefixes"}) if name in ("spo", "treerl") else ({},):
        credit = score(name, rows, **SETTINGS[name], **settings)
        assert credit.advantages.level == Level.TRAJECTORY
        assert credit.advantages.values[0] > 0 > credit.advantages.values[1]


def test_a_huge_reward_elsewhere_drops_no_edge() -> None:
    rows = [*roots([1e12, 0.0], "p"), *roots([1.0, 0.0])]
    credit = score("spo", rows, **SETTINGS["spo"])
    assert credit.in_loss.all()


# --------------------------------------------------------------------------------------------------------- the program


@pytest.mark.parametrize("name", list(SETTINGS))
def test_it_runs_by_name_on_a_file(name: str, tmp_path: Path) -> None:
    path, out = tmp_path / "tree.jsonl", tmp_path / "credit.jsonl"
    write([t for t in small_tree() if t.id != "p-e"], path)
    given = [part for key, value in SETTINGS[name].items() for part in ("-p", f"{key}={value}")]
    result = CliRunner().invoke(app, ["score", str(path), "-r", name, "-o", str(out), *given])
    assert result.exit_code == 0, result.output
    assert len(out.read_text(encoding="utf-8").splitlines()) == 1 + 6
    assert ("reconstruction" in result.output) == bool(load(name, **SETTINGS[name]).reconstruction)
    assert [t.id for t in read(path)][:2] == ["p-a", "p-b"]


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("cbpo", "'parent'"),
        ("hdl", "'parent'"),
        ("trace_tree", "'parent'"),
        ("treerl", "'parent'"),
        ("tree_grpo", "'tree' or 'parent'"),
        ("spo", "'segment_values'"),
    ],
)
def test_what_is_missing_is_said(name: str, missing: str) -> None:
    plain = [Trajectory(id=str(i), group="q", response_ids=[1], columns={"reward": i}) for i in range(2)]
    with pytest.raises(MissingInput, match=missing):
        score(name, plain)
    with pytest.raises(MissingInput, match="behaviour_logps"):
        score("spo", roots([0, 1]), form="tree")
