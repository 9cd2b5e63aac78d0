"""The primitive: what is centred, what is divided, what counts, and what a degenerate group gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages.group_stat import group_stat, group_statistics
from apportion.batch import Batch
from apportion.errors import InvalidArgument, LedgerMismatch
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Failed, Presence, Scored
from tests.strategies import batches, signals


def per_turn(turns: list[int], values: list[float | None], groups: str = "qqqq") -> Signal:
    batch = Batch.of(groups=list(groups[: len(turns)]), turns=turns, tokens=[1] * sum(turns))
    return Signal.of(batch, Level.TURN, values, name="x")


@given(st.data(), batches())
@pytest.mark.parametrize("ddof", [0, 1])
def test_statistics_are_the_loop(ddof: int, data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, Level.TRAJECTORY))
    stats = group_statistics(x)
    for g in range(batch.size(Level.GROUP)):
        known = x.values[(batch.group == g) & x.known]
        n = known.numel()
        assert int(stats.count[g]) == n
        assert float(stats.mean[g]) == pytest.approx(float(known.mean()) if n else 0.0, abs=1e-12)
        spread = float(known.std(correction=ddof)) if n > ddof else 0.0
        assert float(stats.std(ddof)[g]) == pytest.approx(spread, rel=1e-9, abs=1e-9)
        assert bool(stats.constant[g]) == (n < 2 or float(known.max() - known.min()) <= float(stats.tolerance[g]))


def test_training_rows_of_one_rollout_count_once() -> None:
    # The mean over rollouts is 0.5; over rows it would be 0.65.
    rows = rewards_signal([0.8, 0.8, 0.8, 0.2])
    rollout = torch.tensor([7, 7, 7, 3])
    assert group_stat(rows, unit=rollout, scale="none").values.tolist() == pytest.approx([0.3, 0.3, 0.3, -0.3])
    assert group_stat(rows, unit=["A", "A", "A", "B"], scale="none").values.tolist() == pytest.approx(
        [0.3] * 3 + [-0.3]
    )
    whole = group_stat(rewards_signal([0.8, 0.2])).values.tolist()
    assert group_stat(rows, unit=rollout).values.tolist() == pytest.approx([whole[0]] * 3 + [whole[1]])
    turns = per_turn([3, 1], [0.8, 0.8, 0.8, 0.2])
    assert torch.equal(
        group_stat(turns, unit="trajectory").values, group_stat(turns, unit=torch.tensor([0, 0, 0, 1])).values
    )


def test_a_missing_row_leaves_its_rollouts_weight_to_the_others() -> None:
    rows = rewards_signal([0.8, None, 0.6, 0.2])
    made = group_stat(rows, unit=torch.tensor([0, 0, 0, 1]), scale="none")
    assert made.values.tolist() == pytest.approx([0.35, 0.0, 0.15, -0.25])
    assert made.known.tolist() == [True, False, True, True]


def test_groups_by_labels_of_any_kind() -> None:
    # States that two attempts visit; one that is seen once says nothing.
    returns = per_turn([2, 1], [1.0, 1.0, 0.0])
    for key in (["s1", "s2", "s1"], [("q", 1), ("q", 2), ("q", 1)], torch.tensor([4, 9, 4])):
        made = group_stat(returns, key=key)
        assert made.values.tolist() == pytest.approx([0.7071, 0.0, -0.7071], abs=1e-4)
        assert float(made.values[1]) == 0.0


@pytest.mark.parametrize("key", ["row", ["a", "b"], ["a", "b", "a", "b"], torch.tensor([0.0, 1.0, 1.0])])
def test_a_bad_key_is_named(key: object) -> None:
    with pytest.raises(InvalidArgument, match="key"):
        group_stat(rewards_signal([1.0, 0.0, 1.0]), key=key)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["row", ["a", "b"], torch.tensor([0, 1]), torch.tensor([0.0, 1.0, 1.0])])
def test_a_bad_unit_is_named(unit: object) -> None:
    with pytest.raises(InvalidArgument, match="unit"):
        group_stat(rewards_signal([1.0, 0.0, 1.0]), unit=unit)  # type: ignore[arg-type]


def test_far_from_zero_keeps_its_digits() -> None:
    x = rewards_signal([1e8 + 1, 1e8, 1e8, 1e8])
    assert group_stat(x).values.tolist() == [1.5, -0.5, -0.5, -0.5]


def test_a_reward_whose_square_overflows_is_refused_instead_of_earning_nothing() -> None:
    assert group_stat(rewards_signal([1e150, 0.0])).values.tolist() == pytest.approx([0.5**0.5, -(0.5**0.5)])
    with pytest.raises(InvalidArgument, match=r"elements \[0, 2\] are beyond"):
        group_stat(rewards_signal([1e200, 0.0, -1e151]))


@pytest.mark.parametrize("level", [0.1, 0.7, 0.9, 1000.1])
@pytest.mark.parametrize("n", [8, 16])
def test_identical_rewards_are_exactly_zero(level: float, n: int) -> None:
    for x in (
        rewards_signal([level] * n),
        Signal.of(Batch.of(groups=["q"] * n), Level.TRAJECTORY, torch.full((n,), level), name="x"),
    ):
        for eps in (0.0, 1e-9, 1e-6):
            assert (group_stat(x, eps=eps).values == 0).all()


def test_float32_rewards_that_only_differ_by_rounding_are_equal() -> None:
    noisy = torch.tensor([0.3, 0.1 + 0.2, 0.3], dtype=torch.float32)
    noisy[1] = torch.nextafter(noisy[1], torch.tensor(1.0))
    x = Signal.of(Batch.of(groups=["q"] * 3), Level.TRAJECTORY, noisy, name="x")
    assert (group_stat(x).values == 0).all()
    assert (group_stat(x, constant_tol=0.0).values != 0).any()


def test_a_real_difference_is_not_rounded_away() -> None:
    assert (group_stat(rewards_signal([1.0, 1.0 + 1e-6])).values != 0).all()


def test_values_close_to_zero_are_compared_with_one() -> None:
    assert group_stat(rewards_signal([1e-10, 0.0])).values.tolist() == [0.0, 0.0]
    assert (group_stat(rewards_signal([1e-10, 0.0]), constant_tol=0.0).values != 0).all()


def test_a_failed_reward_is_neutral_after_the_baseline() -> None:
    batch = Batch.of(groups=["q"] * 3)
    x = Signal.from_verdicts(batch, Level.TRAJECTORY, [Scored(1.0), Scored(0.0), Failed("judge")], name="r")
    made = group_stat(x, scale="none")
    assert made.presence.tolist() == [Presence.KNOWN, Presence.KNOWN, Presence.ABSENT]
    assert (made + Signal.zeros(batch, Level.TRAJECTORY, name="path")).known.all()


@pytest.mark.parametrize(("singleton", "expected"), [("zero", [0.0, 0.0]), ("raw", [0.7, 0.0])])
def test_a_group_with_one_known_reward(singleton: str, expected: list[float]) -> None:
    x = rewards_signal([0.7, None])
    made = group_stat(x, singleton=singleton)  # type: ignore[arg-type]
    assert made.values.tolist() == expected
    assert made.known.tolist() == [True, False]


def test_a_small_group_can_be_an_error() -> None:
    with pytest.raises(InvalidArgument, match="at least 2"):
        group_stat(rewards_signal([0.7]), singleton="raise")
    assert group_stat(rewards_signal([None]), singleton="raise").values.tolist() == [0.0]
    with pytest.raises(InvalidArgument, match="at least 3"):
        group_stat(rewards_signal([0.7, 0.1]), singleton="raise", minimum=3)


def test_unscored_rewards_leave_before_the_baseline() -> None:
    # As a 0 the unscored completion would move its siblings to 0.866 and be pushed down itself.
    got = group_stat(rewards_signal([1.0, 1.0, 0.0, None]))
    assert got.values.tolist() == pytest.approx([0.57735, 0.57735, -1.154701, 0.0], abs=1e-5)
    assert got.known.tolist() == [True, True, True, False]


def test_only_ids_define_a_group() -> None:
    interleaved = group_stat(rewards_signal([1.0, 1.0, 0.0, 0.0], groups=["A", "B", "A", "B"]))
    assert interleaved.values.tolist() == pytest.approx([0.7071, 0.7071, -0.7071, -0.7071], abs=1e-4)


def test_each_prompt_has_its_own_statistics() -> None:
    got = group_stat(rewards_signal([1.0, 0.0, 10.0, 8.0], groups=["p", "p", "q", "q"]))
    assert got.values.tolist() == pytest.approx([0.7071, -0.7071, 0.7071, -0.7071], abs=1e-4)


def test_a_rollout_in_several_pieces_counts_once() -> None:
    pieces = per_turn([3, 1], [0.8, 0.8, 0.8, 0.2])
    by_rollout = group_stat(pieces, scale="none", unit="trajectory")
    by_piece = group_stat(pieces, scale="none")
    assert by_rollout.values.tolist() == pytest.approx([0.3, 0.3, 0.3, -0.3])
    assert by_piece.values.tolist() == pytest.approx([0.15, 0.15, 0.15, -0.45])


def test_token_weights_are_policy_tokens() -> None:
    x = rewards_signal([1.0, 0.0], tokens=[100, 300])
    assert group_stat(x, scale="none", unit="token").values.tolist() == [0.75, -0.25]


def test_a_group_without_tokens_has_no_weighted_mean() -> None:
    x = rewards_signal([1.0, 0.0], tokens=[0, 0])
    assert group_stat(x, scale="none", unit="token").values.tolist() == [0.0, 0.0]


def test_groups_can_be_anything_countable() -> None:
    # States seen in several attempts are compared; a state seen once gives exactly 0.
    returns = per_turn([2, 1], [1.0, 1.0, 0.0])
    step = group_stat(returns, key=torch.tensor([7, 99, 7]))
    assert step.values.tolist() == pytest.approx([0.7071, 0.0, -0.7071], abs=1e-4)
    assert float(step.values[1]) == 0.0


def test_the_scale_can_come_from_the_batch() -> None:
    x = rewards_signal([1.0, 1.0, 0.0, 1.0], groups=["a", "a", "b", "b"])
    std = torch.tensor([1.0, 1.0, 0.0, 1.0]).std().item()
    assert group_stat(x, scale_key="batch").values.tolist() == pytest.approx([0, 0, -0.5 / std, 0.5 / std])
    # Whether a group is dead is a matter of its own rewards, whatever it is divided by.
    assert group_statistics(x).constant.tolist() == [True, False]


def test_leave_one_out_scale_does_not_explode() -> None:
    rewards = [0.35] * 7 + [0.40]
    got = group_stat(rewards_signal(rewards), center="loo", scale="loo_std", eps=1e-6).values
    assert float(got[-1]) == pytest.approx(0.05)
    f32 = torch.tensor(rewards)
    others = f32[:-1]
    residue = ((others**2).mean() - others.mean() ** 2).clamp_min(0).mul(7 / 6).sqrt()
    naive = float((f32[-1] - others.mean()) / (residue + 1e-6)) if residue > 0 else 0.05
    assert naive == 0.05 or naive > 100  # the float32 form divides by its own rounding error


@given(st.data(), batches())
def test_leave_one_out_is_the_loop(data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, Level.TRAJECTORY))
    got = group_stat(x, center="loo", scale="loo_std")
    for i in range(len(batch)):
        others = [j for j in range(len(batch)) if j != i and batch.group[j] == batch.group[i] and x.known[j]]
        stats = group_statistics(x)
        if not x.known[i] or stats.constant[batch.group[i]]:
            assert float(got.values[i]) == 0.0
            continue
        rest = x.values[others]
        spread = float(rest.std()) if len(others) > 1 and float(rest.max() - rest.min()) > 1e-3 else None
        expected = float(x.values[i] - rest.mean()) / (spread or 1.0)
        if spread or len(others) == 1:
            assert float(got.values[i]) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_median_and_mad() -> None:
    got = group_stat(rewards_signal([0.2, 0.5, 1.0]), center="median", scale="mad").values
    assert got.tolist() == pytest.approx([-1.0, 0.0, 0.5 / 0.3])


def test_centering_inside_turns_of_several_lengths() -> None:
    got = group_stat(per_turn([2, 1], [1.0, None, 0.0]), scale="none")
    assert got.values.tolist() == [0.5, 0.0, -0.5]


def test_terms_are_centred_and_scaled_alike() -> None:
    a = rewards_signal([1.0, 0.0, 0.0, 0.0], name="a")
    b = Signal.of(a.batch, Level.TRAJECTORY, [0.0, 1.0, 0.0, 0.0], name="b")
    made = group_stat(a + b)
    assert made.residual() < 1e-15
    assert made.ledger()["a"].tolist() == pytest.approx([1.29904, -0.43301, -0.43301, -0.43301], abs=1e-5)


@pytest.mark.parametrize("options", [{}, {"center": "loo", "scale": "loo_std"}, {"scale": "mad"}, {"unit": "token"}])
def test_gradients_agree_with_differences(options: dict[str, str]) -> None:
    batch = Batch.of(groups=["a", "a", "a", "a", "b"], tokens=[1, 2, 3, 4, 5])
    raw = torch.tensor([1.0, 0.3, -0.5, 2.0, 9.0], dtype=torch.float64, requires_grad=True)

    def values(v: torch.Tensor) -> torch.Tensor:
        return group_stat(Signal.of(batch, Level.TRAJECTORY, v, name="x"), **options).values  # type: ignore[arg-type]

    assert torch.autograd.gradcheck(values, (raw,))


def test_a_constant_group_has_no_gradient() -> None:
    raw = torch.ones(4, dtype=torch.float64, requires_grad=True)
    made = group_stat(Signal.of(Batch.of(groups=["q"] * 4), Level.TRAJECTORY, raw, name="x"))
    (gradient,) = torch.autograd.grad(made.values.sum(), raw)
    assert gradient.tolist() == [0.0] * 4


@pytest.mark.parametrize(
    "options",
    [
        {"center": "mode"},
        {"scale": "var"},
        {"singleton": "drop"},
        {"ddof": 2},
        {"eps": -1.0},
        {"eps": float("nan")},
        {"unit": "row"},
        {"unit": "trajectory", "center": "median"},
        {"unit": "token", "scale": "mad"},
        {"key": "prompt"},
        {"key": torch.tensor([0])},
        {"key": torch.tensor([0.0, 1.0])},
        {"constant_tol": -1.0},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        group_stat(rewards_signal([1.0, 0.0]), **options)  # type: ignore[arg-type]


def test_a_turn_without_policy_tokens_is_in_no_statistic() -> None:
    batch = Batch.of(groups=["q", "q"], turns=[2, 2], tokens=[3, 0, 1, 2])
    x = Signal.of(batch, Level.TURN, [1.0, 100.0, 0.0, 2.0], name="x")
    out = group_stat(x, scale="none")
    assert out.values.tolist() == [0.0, 99.0, -1.0, 1.0]
    stats = group_statistics(x, unit="trajectory")
    assert stats.count.tolist() == [3]
    # The first rollout has one turn that counts, the second two: (1 + (0 + 2) / 2) / 2.
    assert stats.mean.tolist() == [1.0]
    assert stats.weight.tolist() == [1.0, 0.0, 0.5, 0.5]


def test_text_only_turns_all_count_since_nobody_knows_their_tokens() -> None:
    x = Signal.of(Batch.of(groups=["q"], turns=[2]), Level.TURN, [1.0, 100.0], name="x")
    assert group_stat(x, scale="none").values.tolist() == [-49.5, 49.5]


def test_a_group_whose_turns_but_one_are_silent_has_nothing_to_compare() -> None:
    batch = Batch.of(groups=["q", "q"], turns=[1, 1], tokens=[3, 0])
    assert group_stat(Signal.of(batch, Level.TURN, [1.0, 0.0], name="x")).values.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("apart", [1e-8, 1e-6, 1e-3])
def test_a_tiny_scale_leaves_no_rounding_between_the_terms_and_their_sum(apart: float) -> None:
    b = Batch.of(groups=["q", "q", "q"])
    outcome = Signal.of(b, Level.TRAJECTORY, [1.0, 1.0, 1.0], name="outcome")
    path = Signal.of(b, Level.TRAJECTORY, [apart, 0.0, 1.0 / 3.0 * apart], name="path")
    made = group_stat(0.1 * outcome + path)
    assert made.residual() <= 1e-12
    assert made.values.abs().max() > 0.5


def test_a_term_that_is_really_wrong_is_not_settled() -> None:
    b = Batch.of(groups=["q", "q"])
    x = Signal.of(b, Level.TRAJECTORY, [1.0, 1.0 + 1e-7], name="a") + Signal.zeros(b, Level.TRAJECTORY, name="b")
    wrong = replace(
        x, terms={**x.terms, "b": replace(x.terms["b"], values=x.terms["b"].values + torch.tensor([1e-7, 0]))}
    )
    with pytest.raises(LedgerMismatch):
        group_stat(wrong).check()
