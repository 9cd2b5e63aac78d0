"""A recipe turns verdicts into credit: missing stays missing, terms sum, and what would train badly is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages.group_stat import group_stat
from apportion.batch import Batch
from apportion.errors import InvalidArgument, LedgerMismatch, MissingInput, ObserverFailing, RecipeRefused
from apportion.quick import rewards_signal
from apportion.recipe import Recipe, Streams
from apportion.recipes import load
from apportion.rollouts import Level, Trajectory, Turn
from apportion.signal import Signal
from apportion.verdicts import Abstained, Failed, Scored, Verdict


class Named:
    """An observer that was run elsewhere."""

    def __init__(self, name: str, level: Level = Level.TRAJECTORY, role: str = "outcome") -> None:
        self.name, self.level, self.role = name, level, role

    def observe(self, trajectories: Sequence[Trajectory]) -> Sequence[Verdict]:
        raise AssertionError("assign must not observe")


def outcome_plus_path(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: Any) -> Signal:
    return group_stat(signals["outcome"], scale="none") + signals["path"].neutral()


def two_levels(assign: Any = outcome_plus_path, **fields: Any) -> Recipe:
    observers = [Named("outcome"), Named("path", Level.TURN, "shaping")]
    return Recipe(name="two", observers=observers, assign_signals=assign, aggregation="token-mean", **fields)


def test_credit_splits_into_its_causes() -> None:
    b = Batch.of(groups=["q", "q"], turns=[2, 1], tokens=[2, 1, 1])
    verdicts = {"outcome": [Scored(1), Scored(0)], "path": [[Scored(0), Scored(-0.25)], [Scored(0)]]}
    credit, _ = two_levels().assign(b, verdicts)
    assert credit.advantages.values.tolist() == [0.5, 0.5, 0.25, -0.5]
    assert {name: term.tolist() for name, term in credit.ledger().items()} == {
        "outcome": [0.5, 0.5, 0.5, -0.5],
        "path": [0.0, 0.0, -0.25, 0.0],
    }
    assert credit.padded(width=4).dtype is torch.float32
    assert credit.padded(width=4).tolist() == [[0.5, 0.5, 0.25, 0.0], [-0.5, 0.0, 0.0, 0.0]]


def test_a_failed_outcome_leaves_the_baseline_and_keeps_its_path_credit() -> None:
    b = Batch.of(groups=["q"] * 3, tokens=[1, 1, 1])
    verdicts = {
        "outcome": [Scored(1), Scored(0), Failed("judge down")],
        "path": [[Scored(0)], [Scored(0)], [Scored(-1)]],
    }
    credit, _ = two_levels().assign(b, verdicts)
    assert credit.advantages.values.tolist() == [0.5, -0.5, -1.0]


def test_a_rollout_about_which_nothing_is_known_leaves_the_loss_and_its_denominators() -> None:
    b = Batch.of(groups=["q"] * 3, tokens=[1, 1, 5])
    nothing = [[Abstained("-")], [Abstained("-")], [Failed("-")]]
    credit, _ = two_levels().assign(b, {"outcome": [Scored(1), Scored(0), Failed("-")], "path": nothing})
    assert credit.in_loss.tolist() == [True, True] + [False] * 5
    assert credit.loss_weights().tolist() == [0.5, 0.5] + [0.0] * 5


def test_tokens_that_are_not_own_get_no_credit() -> None:
    own = torch.tensor([False, True, True])
    b = Batch.of(groups=["q", "q"], tokens=[2, 1], own=own)
    credit, _ = two_levels().assign(b, {"outcome": [Scored(1), Scored(0)], "path": [[Scored(0)], [Scored(0)]]})
    assert credit.advantages.values.tolist() == [0.0, 0.5, -0.5]
    assert credit.in_loss.tolist() == own.tolist()


def test_text_only_rollouts_get_credit_per_turn() -> None:
    b = Batch.of(groups=["q", "q"], turns=[2, 1])
    credit, _ = two_levels().assign(
        b, {"outcome": [Scored(1), Scored(0)], "path": [[Scored(0), Scored(1)], [Scored(0)]]}
    )
    assert credit.advantages.level is Level.TURN
    assert credit.advantages.values.tolist() == [0.5, 1.5, -0.5]


def only_rewards(**fields: Any) -> Recipe:
    def centred(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: Any) -> Signal:
        return group_stat(signals["outcome"], scale="none")

    return Recipe(name="one", observers=[Named("outcome")], assign_signals=centred, aggregation="token-mean", **fields)


def test_rewards_without_a_recorded_turn_are_credited_to_the_rollout() -> None:
    rollouts = [Trajectory(id=str(i), group="q") for i in range(3)]
    credit, _ = only_rewards().assign(Batch.pack(rollouts), {"outcome": [Scored(1), Scored(0), Failed("-")]})
    assert credit.advantages.level is Level.TRAJECTORY
    assert credit.advantages.values.tolist() == [0.5, -0.5, 0.0]
    assert credit.in_loss.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("empty", "peers"),
    [
        ({"response_ids": []}, {"response_ids": [1, 2]}),
        ({"response_ids": [7], "policy": [0]}, {"response_ids": [1, 2]}),
        ({}, {"turns": (Turn(), Turn())}),
    ],
)
def test_a_rollout_in_which_the_policy_wrote_nothing_moves_no_baseline(empty: Any, peers: Any) -> None:
    rollouts = [Trajectory(id="empty", group="q", **empty)]
    rollouts += [Trajectory(id=str(i), group="q", **peers) for i in range(2)]
    credit, _ = only_rewards().assign(Batch.pack(rollouts), {"outcome": [Scored(5), Scored(1), Scored(0)]})
    assert credit.advantages.values.tolist() == [0.5, 0.5, -0.5, -0.5]
    assert credit.rewards["outcome"].known.tolist() == [False, True, True]
    assert credit.diagnostics()["rollouts/empty_share"] == pytest.approx(1 / 3)


def test_a_step_in_which_everything_was_cut_off_has_no_signal() -> None:
    rollouts = [
        Trajectory(id=str(i), group="q", response_ids=[1, 2], status="truncated", columns={"reward": i})
        for i in range(3)
    ]
    recipe = load("grpo", truncated="exclude")
    with pytest.raises(ObserverFailing, match="exclude"):
        recipe.score(rollouts)
    credit, _ = recipe.score(rollouts, failure_limit=1.0)
    loss = credit.loss(torch.ones(6))
    assert (float(loss.value), loss.no_signal) == (0.0, True)
    assert credit.diagnostics()["rollouts/truncated_share"] == 1.0


def test_the_loss_is_the_recipes_own_and_says_when_there_is_none() -> None:
    batch = Batch.of(groups=["q"] * 3, tokens=[1, 3, 2])
    credit, _ = only_rewards().assign(batch, {"outcome": [Scored(1), Scored(0), Failed("-")]})
    losses = -credit.advantages.values
    assert float(credit.loss(losses).value) == pytest.approx(0.25)  # (-0.5 + 3 * 0.5) / 4
    assert credit.loss(losses).tokens == 4
    nothing, _ = only_rewards().assign(batch, {"outcome": [Failed("-")] * 3})
    assert (float(nothing.loss(losses).value), nothing.loss(losses).no_signal) == (0.0, True)


def test_targets_of_a_critic_leave_beside_the_advantages() -> None:
    def both(batch: Batch, signals: Any, *, step: int | None, state: Any) -> Streams:
        return Streams(advantages=signals["outcome"], returns=signals["path"])

    b = Batch.of(groups=["q"], tokens=[2])
    credit, _ = two_levels(both).assign(b, {"outcome": [Scored(1)], "path": [[Scored(3)]]})
    assert credit.advantages.values.tolist() == [1, 1]
    assert credit.returns is not None
    assert credit.returns.values.tolist() == [3]
    elsewhere = Signal.zeros(Batch.of(groups=["q"]), Level.TRAJECTORY, name="r")
    for wrong in (Streams(advantages=elsewhere), Streams(advantages=credit.advantages, returns=elsewhere)):
        with pytest.raises(InvalidArgument, match="a Signal of the batch"):
            two_levels(lambda *_, wrong=wrong, **__: wrong).assign(b, {"outcome": [Scored(1)], "path": [[Scored(3)]]})


def test_state_goes_in_and_comes_out() -> None:
    def counting(batch: Batch, signals: Any, *, step: int | None, state: Any) -> tuple[Signal, Any]:
        return group_stat(signals["outcome"]) * (1.0 / (1 + state["seen"])), {"seen": state["seen"] + len(batch)}

    recipe = two_levels(counting, initial_state={"seen": 0})
    b = Batch.of(groups=["q", "q"], tokens=[1, 1])
    verdicts = {"outcome": [Scored(1), Scored(0)], "path": [[Scored(0)], [Scored(0)]]}
    first, state = recipe.assign(b, verdicts)
    second, state = recipe.assign(b, verdicts, state=state)
    again, _ = recipe.assign(b, verdicts, state={"seen": 2})
    assert state == {"seen": 4}
    assert torch.equal(second.advantages.values, again.advantages.values)
    torch.testing.assert_close(first.advantages.values, 3 * second.advantages.values)
    assert recipe.initial_state == {"seen": 0}


def test_only_shaping_is_refused_unless_forced_with_a_reason() -> None:
    def penalties(**fields: Any) -> Recipe:
        return Recipe(
            name="penalties",
            observers=[Named("path", Level.TURN, "shaping")],
            assign_signals=outcome_plus_path,
            aggregation="token-mean",
            **fields,
        )

    with pytest.raises(RecipeRefused, match="add the outcome"):
        penalties()
    assert penalties(force="the inaction trap, on purpose").force


def test_observers_have_unique_names() -> None:
    with pytest.raises(InvalidArgument, match="each name once"):
        Recipe(
            name="twice",
            observers=[Named("a"), Named("a")],
            assign_signals=outcome_plus_path,
            aggregation="token-mean",
        )


def test_missing_and_miscounted_verdicts_are_named() -> None:
    b = Batch.of(groups=["q", "q"], turns=[2, 1])
    with pytest.raises(MissingInput, match="verdicts of path"):
        two_levels().assign(b, {"outcome": [Scored(1), Scored(0)]})
    with pytest.raises(InvalidArgument, match="2 entries of 'outcome'"):
        two_levels().assign(b, {"outcome": [Scored(1)], "path": []})
    with pytest.raises(InvalidArgument, match="0: 1 for 2 turns"):
        two_levels().assign(b, {"outcome": [Scored(1), Scored(0)], "path": [[Scored(0)], [Scored(0)]]})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, state: None,
        lambda x, state: x.values,
        lambda x, state: (x, state, 1),
        lambda x, state: (x, 5),
        lambda x, state: rewards_signal([1.0, 0.0]),
    ],
)
def test_an_assignment_is_a_signal_of_the_batch_with_or_without_a_state(wrong: Any) -> None:
    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: Any) -> Any:
        return wrong(signals["outcome"], state)

    made = two_levels(assign)
    turns = [[Scored(0.0)], [Scored(0.0)]]
    with pytest.raises(InvalidArgument, match="a Signal of the batch"):
        made.assign(Batch.of(groups=["q", "q"]), {"outcome": [Scored(1.0), Scored(0.0)], "path": turns})


def test_terms_that_do_not_sum_are_a_bug_that_is_shown() -> None:
    def broken(batch: Batch, signals: Any, *, step: int | None, state: Any) -> Signal:
        x = group_stat(signals["outcome"])
        return Signal(batch=batch, level=x.level, values=x.values + 1, presence=x.presence, terms=x.terms)

    b = Batch.of(groups=["q", "q"], tokens=[1, 1])
    with pytest.raises(LedgerMismatch, match="outcome"):
        two_levels(broken).assign(b, {"outcome": [Scored(1), Scored(0)], "path": [[Scored(0)], [Scored(0)]]})


def test_an_advantage_beyond_float32_is_an_error_not_an_infinity() -> None:
    b = Batch.of(groups=["q", "q"], tokens=[1, 1])
    credit, _ = two_levels().assign(b, {"outcome": [Scored(1e100), Scored(0)], "path": [[Scored(0)], [Scored(0)]]})
    with pytest.raises(LedgerMismatch, match="does not fit"):
        credit.padded()
    with pytest.raises(InvalidArgument, match="floating-point"):
        credit.padded(dtype=torch.int32)


def test_diagnostics_tell_dead_groups_and_what_is_missing() -> None:
    b = Batch.of(groups=["a", "a", "b", "b", "c"], tokens=[1] * 5)
    outcomes = [Scored(1), Scored(1), Scored(0), Scored(1), Failed("-")]
    credit, _ = two_levels().assign(b, {"outcome": outcomes, "path": [[Scored(0)]] * 5})
    seen = credit.diagnostics()
    assert seen["groups/outcome/dead_share"] == pytest.approx(1 / 3)
    assert seen["rewards/outcome/missing_share"] == pytest.approx(0.2)
    assert seen["rewards/outcome/mean"] == pytest.approx(0.75)
    assert seen["groups/outcome/effective_n"] == pytest.approx(4 / 3)
    assert seen["groups/without_credit_share"] == pytest.approx(2 / 3)


def test_diagnostics_tell_how_rollouts_ended_and_what_moves_the_credit() -> None:
    status = ["terminated", "truncated", "truncated", "aborted"]
    b = Batch.of(groups=["q"] * 4, tokens=[1] * 4, status=status)  # type: ignore[arg-type]
    path = [[Scored(0)], [Scored(0)], [Scored(-0.25)], [Scored(0)]]
    credit, _ = two_levels().assign(b, {"outcome": [Scored(1), Scored(0), Scored(0), Scored(1)], "path": path})
    seen = credit.diagnostics()
    shares = [seen[f"rollouts/{name}_share"] for name in ("terminated", "truncated", "aborted", "empty")]
    assert shares == [0.25, 0.5, 0.25, 0.0]
    assert seen["terms/outcome/variance_share"] + seen["terms/path/variance_share"] == pytest.approx(1.0)
    dead, _ = two_levels().assign(b, {"outcome": [Scored(1)] * 4, "path": [[Scored(0)]] * 4})
    assert not [name for name in dead.diagnostics() if name.endswith("variance_share")]


verdict = st.one_of(
    st.floats(-1e6, 1e6).map(Scored), st.just(Scored(0.0)), st.just(Failed("x")), st.just(Abstained("x"))
)


@given(st.data())
def test_the_ledger_sums_whatever_is_missing(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=5))
    tokens = [n for row in shape for n in row]
    groups = data.draw(st.lists(st.sampled_from("ab"), min_size=len(shape), max_size=len(shape)))
    b = Batch.of(groups=groups, turns=[len(row) for row in shape], tokens=tokens)
    outcomes = [data.draw(verdict) for _ in shape]
    path = [[data.draw(verdict) for _ in row] for row in shape]
    credit, _ = two_levels().assign(b, {"outcome": outcomes, "path": path})
    assert all(math.isfinite(value) for value in credit.diagnostics().values())
    assert credit.advantages.residual() <= 1e-12
    padded = credit.padded()
    terms = torch.stack([b.pad(term.to(torch.float32), width=padded.shape[1]) for term in credit.ledger().values()])
    largest = max(1.0, float(terms.abs().max()) if terms.numel() else 1.0)
    assert float((terms.sum(0) - padded).abs().max() if padded.numel() else 0.0) <= 1e-6 * largest
    assert bool(torch.isfinite(padded).all())
    assert bool((credit.advantages.values[~credit.in_loss] == 0).all())


def test_a_step_without_data_is_left_out_of_the_log_not_logged_as_zero() -> None:
    b = Batch.of(groups=["q", "q"], tokens=[1, 1])
    nothing = [Failed("-"), Failed("-")]
    credit, _ = two_levels().assign(b, {"outcome": nothing, "path": [[Failed("-")], [Failed("-")]]})
    seen = credit.diagnostics()
    assert seen["credit/out_of_loss_share"] == 1.0
    assert seen["rewards/outcome/missing_share"] == 1.0
    absent = ("credit/mean", "credit/std", "credit/zero_share", "terms/outcome/mean", "rewards/outcome/mean")
    assert not set(absent) & set(seen)


@pytest.mark.parametrize(("field", "value"), [("aggregation", "tokn-mean"), ("scope", "grup")])
def test_a_misspelled_aggregation_or_scope_is_refused(field: str, value: str) -> None:
    settings: dict[str, Any] = {"aggregation": "token-mean", field: value}
    with pytest.raises(InvalidArgument, match=value):
        Recipe(name="x", observers=[Named("outcome")], assign_signals=outcome_plus_path, **settings)


def test_a_label_drives_nothing_and_is_never_averaged() -> None:
    kind = Named("kind", Level.TURN, "label")
    with pytest.raises(RecipeRefused, match="no reward that drives"):
        Recipe(name="k", observers=[kind], assign_signals=outcome_plus_path, aggregation="token-mean")
    observers = [Named("outcome"), Named("path", Level.TURN, "shaping"), kind]
    recipe = Recipe(name="k", observers=observers, assign_signals=outcome_plus_path, aggregation="token-mean")
    b = Batch.of(groups=["q", "q"], tokens=[1, 1])
    path, kinds = [[Scored(0)], [Scored(1)]], [[Scored(2.4e15)], [Abstained("-")]]
    credit, _ = recipe.assign(b, {"outcome": [Scored(1), Scored(0)], "path": path, "kind": kinds})
    assert credit.labels == {"kind"}
    told = {name: value for name, value in credit.diagnostics().items() if "/kind/" in name}
    assert told == {"rewards/kind/missing_share": 0.5}
