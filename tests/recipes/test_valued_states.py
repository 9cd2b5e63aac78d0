"""Recipes of values of states: shaping, return decomposition, Monte-Carlo values; and the states they share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion import recipes
from apportion.advantages import dr_grpo, grpo, whiten
from apportion.advantages.place import on_last_turn
from apportion.advantages.states import state_values
from apportion.advantages.td import td
from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.quick import rewards_signal
from apportion.recipes.state_inputs import by_policy, carried
from apportion.rewards.potentials import learned_potential, monte_carlo_potential
from apportion.rollouts import Level, Trajectory, Turn
from apportion.signal import Signal
from apportion.verdicts import Scored
from tests.recipes.builders import advantages
from tests.strategies import batches, signals


def rollout(
    name: str, reward: float | None, *values: float | None, column: str = "potential", **fields: Any
) -> Trajectory:
    """Phi_0, then one turn for every further value."""
    turns = [Turn(columns={} if v is None else {column: v}) for v in values[1:]]
    columns = {"reward": reward, **({} if values[0] is None else {f"{column}_start": values[0]})}
    return Trajectory(id=name, group="q", turns=turns, columns=columns, **fields)


# ----------------------------------------------------------------------------------------------------------- shaping


def test_shaped_rewards_pay_back_at_the_end() -> None:
    # F = [.27, -.03, -.3]; their discounted sum is 0.
    settings = {"discount": 0.9, "baseline": "none"}
    made = advantages(recipes.load("pbrs", **settings), [rollout("a", 0.0, 0.0, 0.3, 0.3, 0.9)])
    f = [0.27, -0.03, -0.3]
    assert made == pytest.approx([f[0] + 0.9 * f[1] + 0.81 * f[2], f[1] + 0.9 * f[2], f[2]])
    assert made[0] == pytest.approx(0.0)


def test_the_end_may_be_kept() -> None:
    made = advantages(recipes.load("pbrs", terminal="keep", baseline="none"), [rollout("a", 1.0, 0.25, 0.5, 0.75)])
    assert made == pytest.approx([1.0 + 0.5, 1.0 + 0.25])


def test_the_potential_has_a_weight() -> None:
    row = rollout("a", 1.0, 0.25, 0.5, 0.75)
    assert advantages(recipes.load("pbrs", weight=0.5, baseline="none"), [row]) == pytest.approx([0.875, 0.75])


def test_a_cut_rollout_keeps_the_value_of_its_last_state() -> None:
    cut = rollout("a", 0.0, 0.25, 0.5, 0.75, status="truncated")
    assert advantages(recipes.load("pbrs", baseline="none"), [cut]) == pytest.approx([0.5, 0.25])


def test_without_a_potential_it_is_the_centred_return() -> None:
    rows = [rollout("a", 1.0, 0.0, 0.0), rollout("b", 0.0, 0.0, 0.0), rollout("c", 0.0, 0.0, 0.0)]
    assert advantages(recipes.load("pbrs"), rows) == pytest.approx(
        dr_grpo(rewards_signal([1.0, 0.0, 0.0])).values.tolist()
    )
    kept = [rollout("a", 1.0, 0.5, 0.5), rollout("b", 0.0, 0.5, 0.5), rollout("c", 0.0, 0.5, 0.5)]
    assert advantages(recipes.load("pbrs", terminal="keep"), kept) == advantages(recipes.load("pbrs"), rows)


def test_a_potential_alone_changes_no_return_of_the_whole() -> None:
    rows = [rollout("a", 1.0, 0.0, 0.7, 0.1), rollout("b", 0.0, 0.0, -0.4, 0.9)]
    first = advantages(recipes.load("pbrs", baseline="none"), rows)[::2]
    assert first == pytest.approx([1.0, 0.0])


# ------------------------------------------------------------------------------------------------ return decomposition


def test_worked_decomposition() -> None:
    made = advantages(recipes.load("rudder", max_error=1.0, start_value=0.0), [rollout("a", 1.0, None, 0.2, 0.5, 0.4)])
    assert made == pytest.approx([0.2, 0.3, -0.1 + 0.6])
    spread = recipes.load("rudder", max_error=1.0, start_value=0.0, residual="spread")
    assert advantages(spread, [rollout("a", 1.0, None, 0.2, 0.5, 0.4)]) == pytest.approx([0.4, 0.5, 0.1])


def test_only_good_predictions_are_used() -> None:
    rows = [rollout("a", 1.0, 0.5, 0.75, 0.9), rollout("b", 0.0, 0.5, 0.25, 0.9), rollout("c", 1.0, 0.5, None, 1.0)]
    made = advantages(recipes.load("rudder"), rows)
    base = grpo(rewards_signal([1.0, 0.0, 1.0])).values.tolist()
    assert made == pytest.approx([0.25, 0.15 + 0.1, base[1], base[1], base[2], base[2]])


def test_a_predictor_that_is_always_wrong_leaves_grpo() -> None:
    rows = [rollout("a", 1.0, 0.5, 0.5), rollout("b", 0.0, 0.5, 0.5)]
    assert advantages(recipes.load("rudder", max_error=0.1), rows) == pytest.approx([0.5**0.5, -(0.5**0.5)])


def test_a_missing_outcome_hands_out_nothing() -> None:
    rows = [rollout("a", None, 0.5, 0.5), rollout("b", 0.0, 0.5, 0.0), rollout("c", 1.0, 0.5, 0.0)]
    assert advantages(recipes.load("rudder"), rows)[0] == 0.0


# ------------------------------------------------------------------------------------------------- Monte-Carlo values


def test_worked_values() -> None:
    row = rollout("a", 1.0, 0.5, 0.75, 0.25, None, column="value")
    made = advantages(recipes.load("vineppo", whitening="none"), [row])
    assert made == pytest.approx([0.25, -0.5, 0.75])
    assert sum(made) == pytest.approx(1.0 - 0.5)


def test_states_that_were_not_sampled_are_filled_backwards() -> None:
    recipe = recipes.load("vineppo", whitening="none")
    rows = [
        rollout("late", 1.0, 0.5, 0.75, None, None, None, column="value"),
        rollout("hole", 1.0, 0.5, None, 0.25, None, column="value"),
        rollout("first", 1.0, None, 0.75, None, column="value"),
    ]
    made = advantages(recipe, rows)
    assert made == pytest.approx([0.25, 0.25, 0.0, 0.0, -0.25, 0.0, 0.75, 0.0, 0.25])


def test_a_cut_rollout_is_a_failure() -> None:
    row = rollout("a", 1.0, 0.5, 0.75, 0.9, column="value", status="truncated")
    assert advantages(recipes.load("vineppo", whitening="none"), [row]) == pytest.approx([0.25, -0.75])


def test_whitening_is_over_tokens() -> None:
    b = Batch.of(groups=["q", "q"], turns=[2, 1], tokens=[3, 1, 2])
    made = recipes.load("vineppo")
    seen = {
        "outcome": [Scored(1.0), Scored(0.0)],
        "value at start": [Scored(0.5), Scored(0.5)],
        "value": [[Scored(0.75), Scored(0.0)], [Scored(0.0)]],
    }
    credit, _ = made.assign(b, seen)
    plain = Signal.of(b, Level.TOKEN, [0.25, 0.25, 0.25, 0.25, -0.5, -0.5], name="x")
    assert credit.advantages.values.tolist() == pytest.approx(whiten(plain).values.tolist())
    assert float(credit.advantages.values.sum()) == pytest.approx(0.0)


def test_continuations_and_heads_serve_as_objects_and_from_files(tmp_path: Path) -> None:
    rows = [Trajectory(id="a", group="q", turns=[Turn(text="x"), Turn(text="y")], columns={"reward": 1.0})]
    played = monte_carlo_potential(lambda state, n: [0.25 * (1 + state.n_turns)] * n)
    head = learned_potential(lambda state: 0.25 * (1 + state.n_turns), name="value")
    made = [advantages(recipes.load("vineppo", whitening="none", potential=p), rows) for p in (played, head)]
    file = tmp_path / "mine.py"
    file.write_text(
        "from apportion.rewards.potentials import learned_potential\n"
        "potential = learned_potential(lambda state: 0.25 * (1 + state.n_turns), name='value')\n"
    )
    made.append(advantages(recipes.load("vineppo", whitening="none", potential=str(file)), rows))
    assert made == [[0.25, 0.5]] * 3


# ------------------------------------------------------------------------------------------------------------ shared


def test_an_outcome_sits_on_the_last_turn_with_tokens() -> None:
    b = Batch.of(groups=["q"] * 3, turns=[2, 0, 2], tokens=[1, 1, 2, 0])
    x = Signal.of(b, Level.TRAJECTORY, [1.0, 5.0, 2.0], name="r")
    assert on_last_turn(x).values.tolist() == [0.0, 1.0, 2.0, 0.0]
    with pytest.raises(InvalidArgument, match="TRAJECTORY"):
        on_last_turn(on_last_turn(x))


@given(st.data(), batches(tokens=None))
def test_only_turns_of_the_policy_move_and_what_they_move_telescopes(data: st.DataObject, batch: Batch) -> None:
    start = data.draw(signals(batch, Level.TRAJECTORY, missing=False))
    after = data.draw(signals(batch, Level.TURN, missing=False))
    made = td(by_policy(state_values(start, after))).check()
    wrote = torch.ones_like(made.known) if batch.tokens is None else batch.tokens > 0
    assert torch.equal(made.known, wrote)
    row = batch.owner(Level.TURN, Level.TRAJECTORY).tolist()
    for i in range(len(batch)):
        mine = [k for k, owner in enumerate(row) if owner == i]
        first = next((k for k in mine if wrote[k]), None)
        if first is not None:
            begin = start.values[i] if first == mine[0] else after.values[first - 1]
            rise = float(after.values[mine[-1]] - begin)
            assert float(made.values[mine].sum()) == pytest.approx(rise, abs=1e-9)


@given(st.data(), batches(tokens=None))
def test_steps_in_between_are_passed_over(data: st.DataObject, batch: Batch) -> None:
    start = data.draw(signals(batch, Level.TRAJECTORY, failed=True))
    after = data.draw(signals(batch, Level.TURN, failed=True))
    size = batch.size(Level.TURN)
    chosen = torch.tensor(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=torch.bool)
    values = by_policy(state_values(start, after))
    made = carried(values, chosen)
    wrote = torch.ones_like(chosen) if batch.tokens is None else batch.tokens > 0
    row = batch.owner(Level.TURN, Level.TRAJECTORY).tolist()
    for k in range(size):
        if not (chosen & wrote)[k]:
            assert not made.before.known[k]
            assert not made.after.known[k]
            continue
        earlier = [j for j in range(k) if row[j] == row[k] and bool((chosen & wrote)[j])]
        opening = next(j for j in range(size) if row[j] == row[k] and wrote[j])
        side, at = (values.after, earlier[-1]) if earlier else (values.before, opening)
        assert bool(made.before.known[k]) == bool(side.known[at])
        assert float(made.before.values[k]) == float(side.values[at])


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("pbrs", "discount", 1.5),
        ("pbrs", "terminal", "fill"),
        ("pbrs", "baseline", "group"),
        ("pbrs", "weight", float("nan")),
        ("rudder", "max_error", -1.0),
        ("rudder", "reward_range", 0.0),
        ("rudder", "residual", "first"),
        ("vineppo", "whitening", "turns"),
        ("vineppo", "potential", 3),
        ("vineppo", "potential", "no_such_file.py"),
    ],
)
def test_bad_settings_are_named(name: str, setting: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=setting):
        recipes.load(name, **{setting: value})


@pytest.mark.parametrize("name", ["pbrs", "rudder", "vineppo"])
def test_a_missing_value_is_named(name: str) -> None:
    bare = [Trajectory(id="a", group="q", turns=[Turn()], columns={"reward": 1.0})]
    with pytest.raises(MissingInput, match="turn column"):
        recipes.load(name).score(bare)
