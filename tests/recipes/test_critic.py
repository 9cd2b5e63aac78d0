"""Recipes with a critic: its values come from a token column, a cut state's from a trajectory column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from apportion import advantages as adv
from apportion import recipes
from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.recipe import Credit
from apportion.rollouts import Level, Status, Trajectory
from apportion.signal import Signal

NAMES = ["ppo", "vapo", "turn_gae", "bilevel_gae"]


def rollout(
    values: Sequence[float],
    *,
    name: str = "r",
    mask: Sequence[int] | None = None,
    own: Sequence[int] | None = None,
    status: Status = "terminated",
    **columns: float | None,
) -> Trajectory:
    policy = np.array([1] * len(values) if mask is None else mask, dtype=bool)
    return Trajectory(
        id=name,
        group="q",
        response_ids=np.arange(len(values)),
        policy=policy,
        own=None if own is None else np.array(own, dtype=bool),
        status=status,
        token_columns={"values": np.array(values)},
        columns=columns,
    )


def credit(recipe: str, *rollouts: Trajectory, **settings: object) -> Credit:
    made, _ = recipes.load(recipe, **settings).score(rollouts)
    return made


WORKED = rollout([0.5, 0.6, 9.0, -9.0, 0.7, 0.8], mask=[1, 1, 0, 0, 1, 1], reward=1.0)


def test_ppo_on_a_rollout_with_a_tool_result() -> None:
    made = credit("ppo", WORKED, whitening="none")
    assert made.advantages.values.tolist() == pytest.approx([0.456725, 0.3755, 0.29, 0.2])
    assert made.returns is not None
    assert made.returns.values.tolist() == pytest.approx([0.956725, 0.9755, 0.99, 1.0])
    assert sorted(made.ledger()) == ["outcome", "values"]
    assert made.padded().tolist()[0][2:4] == [0.0, 0.0]


def test_ppo_whitens_what_the_current_policy_wrote() -> None:
    mixed = rollout([0.0, 0.5, 0.25, 9.0], own=[1, 1, 1, 0], reward=1.0)
    made = credit("ppo", mixed, lam=1.0)
    raw = credit("ppo", mixed, lam=1.0, whitening="none").advantages
    assert raw.known.tolist() == [True, True, True, False]
    own = raw.values[:3]
    assert made.advantages.values.tolist() == pytest.approx([*((own - own.mean()) / own.std()).tolist(), 0.0])


def test_a_cut_rollout_bootstraps_or_says_that_it_cannot() -> None:
    cut = rollout([0.4, 0.6], status="truncated", reward=0.0, bootstrap_value=0.7)
    assert credit("ppo", cut, lam=1.0, whitening="none").advantages.values.tolist() == pytest.approx([0.3, 0.1])
    bare = rollout([0.4, 0.6], status="truncated", reward=0.0)
    with pytest.raises(MissingInput, match=r"cut, which is absent in r; record it, or declare on_truncated='zero'"):
        credit("ppo", bare)
    declared = credit("ppo", bare, lam=1.0, whitening="none", on_truncated="zero")
    assert declared.advantages.values.tolist() == pytest.approx([-0.4, -0.6])
    left_out = credit("ppo", bare, rollout([0.5], name="s", reward=1.0), truncated="exclude", whitening="none")
    assert left_out.advantages.known.tolist() == [False, False, True]


@pytest.mark.parametrize(("length", "lam"), [(5, 0.0), (20, 0.0), (40, 0.5), (100, 0.8), (1000, 0.98)])
def test_vapo_trusts_long_rollouts(length: int, lam: float) -> None:
    made = credit("vapo", rollout([0.5] * length, reward=1.0), whitening="none")
    # A constant critic leaves one difference, at the end: 0.5, seen from the first token through lambda.
    assert float(made.advantages.values[0]) == pytest.approx(0.5 * lam ** (length - 1), abs=1e-12)
    assert made.returns is not None
    assert made.returns.values.tolist() == pytest.approx([1.0] * length)


def test_vapo_counts_policy_tokens() -> None:
    mask = [1] * 20 + [0] * 20 + [1] * 20
    made = credit("vapo", rollout([0.5] * 60, mask=mask, reward=1.0), whitening="none")
    assert float(made.advantages.values[-2]) == pytest.approx(0.25)


def test_turns_as_steps() -> None:
    two = rollout([0.3, 0.4, 0.0, 0.5, 0.6], mask=[1, 1, 0, 1, 1], reward=1.0)
    made = credit("turn_gae", two, whitening="none")
    assert made.advantages.values.tolist() == pytest.approx([0.55, 0.55, 0.4, 0.4])
    assert made.returns is not None
    assert made.returns.level == Level.TURN
    assert made.returns.values.tolist() == pytest.approx([0.95, 1.0])
    whitened = credit("turn_gae", two).advantages.values
    # Every turn counts once, whatever its number of tokens.
    assert whitened.tolist() == pytest.approx([0.5**0.5, 0.5**0.5, -(0.5**0.5), -(0.5**0.5)])


def test_turns_then_tokens() -> None:
    two = rollout([0.3, 0.4, 0.0, 0.5, 0.6], mask=[1, 1, 0, 1, 1], reward=1.0)
    made = credit("bilevel_gae", two, whitening="none")
    assert made.advantages.values.tolist() == pytest.approx([0.65, 0.55, 0.5, 0.4])
    assert made.returns is not None
    assert made.returns.values.tolist() == pytest.approx([0.95, 0.95, 1.0, 1.0])
    a = made.advantages
    assert credit("bilevel_gae", two).advantages.values.tolist() == pytest.approx(adv.whiten(a).values.tolist())


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_outcome_teaches_nothing(name: str) -> None:
    lost = rollout([0.5, 0.5], name="lost", status="aborted")
    made = credit(name, lost, rollout([0.25, 0.5], name="seen", reward=1.0), whitening="none")
    assert made.advantages.known.tolist() == [False, False, True, True]
    assert made.returns is not None
    assert int(made.returns.known.sum()) == (1 if name == "turn_gae" else 2)


@pytest.mark.parametrize("name", NAMES)
def test_missing_values_are_named(name: str) -> None:
    text = Trajectory(id="t", group="q", messages=[{"role": "assistant", "content": "4"}], columns={"reward": 1})
    with pytest.raises(
        MissingInput, match=rf"recipe '{name}' needs a token column 'values'.*token_columns\['values'\]"
    ):
        credit(name, text)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ppo", {"whitening": "group"}),
        ("ppo", {"on_truncated": "keep"}),
        ("ppo", {"lam": 2.0}),
        ("ppo", {"discount": float("nan")}),
        ("vapo", {"critic_lam": -1.0}),
        ("bilevel_gae", {"turn_lam": 2.0}),
        ("vapo", {"alpha": 0.0}),
        ("turn_gae", {"read": "middle"}),
    ],
)
def test_bad_settings_are_named(name: str, settings: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(settings))):
        recipes.load(name, **settings)


def test_a_batch_from_tensors_needs_no_files() -> None:
    batch = Batch.of(groups=["q"], tokens=[2], token_columns={"values": torch.tensor([0.5, 0.5])})
    made = recipes.load("ppo", whitening="none")
    outcome = Signal.of(batch, Level.TRAJECTORY, [1.0], name="outcome")
    nothing = Signal.of(batch, Level.TRAJECTORY, [None], name="bootstrap_value")
    found = made.assign_signals(batch, {"outcome": outcome, "bootstrap_value": nothing}, step=None, state={})
    assert found.advantages.values.tolist() == pytest.approx([0.475, 0.5])  # type: ignore[union-attr]


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), 1e200])
def test_a_value_that_cannot_be_computed_with_is_refused_by_the_name_of_its_rollout(value: float) -> None:
    rows = [rollout([0.5], name="good", reward=1.0), rollout([0.5, value], name="broken", reward=1.0)]
    with pytest.raises(InvalidArgument, match=r"token column 'values'.*at most 1e\+150.*not so in broken$"):
        recipes.load("ppo").score(rows)
