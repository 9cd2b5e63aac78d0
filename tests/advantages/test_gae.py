"""GAE over policy tokens and turns: worked numbers, what ends a trajectory, critic targets, tensors and signals."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from apportion.advantages.bilevel_gae import bilevel_gae
from apportion.advantages.gae import gae, lambda_returns
from apportion.advantages.gae_tensors import packed_gae, padded_gae
from apportion.advantages.states import critic_values, last_values, turn_values
from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.rollouts import Level, Status
from apportion.signal import Signal
from tests.strategies import batches, signals

MASK = torch.tensor([[1, 1, 0, 0, 1, 1]])
VALUES = torch.tensor([[0.5, 0.6, 9.0, -9.0, 0.7, 0.8]], dtype=torch.float64)


def tokens(values: Sequence[float | None], *, status: Status = "terminated", turns: list[int] | None = None) -> Signal:
    batch = Batch.of(groups=["q"], turns=[len(turns or [1])], tokens=turns or [len(values)], status=[status])
    return Signal.of(batch, Level.TOKEN, list(values), name="value")


def outcome(x: Signal, *values: float | None, level: Level = Level.TRAJECTORY) -> Signal:
    return Signal.of(x.batch, level, list(values), name="outcome")


def padded(rewards: Sequence[float], **options: object) -> list[float]:
    batch = Batch.from_mask(MASK, ["q"])
    made, _ = padded_gae(torch.tensor([rewards], dtype=torch.float64), VALUES, batch, **options)  # type: ignore[arg-type]
    return made[0].tolist()


# ------------------------------------------------------------------------------------------------ the worked numbers


def test_observation_tokens_are_no_steps() -> None:
    made = padded([0, 0, 0, 0, 0, 1])
    assert made == pytest.approx([0.456725, 0.3755, 0, 0, 0.29, 0.2], abs=1e-9)
    # Through the observation, with its values zeroed, the recursion would give 0.366369 and 0.280389.
    assert made[:2] != pytest.approx([0.366369, 0.280389], abs=1e-3)


def test_a_reward_on_an_observation_belongs_to_the_token_before() -> None:
    made = padded([0, 0, 0.5, 0, 0, 1], masked_rewards="fold")
    assert made[:2] == pytest.approx([0.931725, 0.8755], abs=1e-9)
    assert padded([0, 0, 0.5, 0, 0, 1], masked_rewards="drop")[:2] == pytest.approx([0.456725, 0.3755], abs=1e-9)
    with pytest.raises(InvalidArgument, match="masked_rewards='fold'"):
        padded([0, 0, 0.5, 0, 0, 1])


def test_an_end_is_worth_nothing_and_a_cut_what_was_expected() -> None:
    assert padded([0.0] * 6) == pytest.approx([-0.40065, -0.527, 0, 0, -0.66, -0.8], abs=1e-9)
    cut = padded([0.0] * 6, last=torch.tensor([0.9]))
    assert cut == pytest.approx([0.370987, 0.28525, 0, 0, 0.195, 0.1], abs=1e-6)
    v = tokens([0.4, 0.6], status="truncated")
    bootstrap = outcome(v, 0.7)
    made = gae(outcome(v, 0.0), critic_values(v, last_values(v.batch, bootstrap)), lam=1.0)
    assert made.values.tolist() == pytest.approx([0.3, 0.1])
    v = tokens([0.4, 0.6])
    made = gae(outcome(v, 0.0), critic_values(v, last_values(v.batch, outcome(v, 0.7))), lam=1.0)
    assert made.values.tolist() == pytest.approx([-0.4, -0.6])


def test_values_of_tool_tokens_do_not_flow_in() -> None:
    mask, rewards = torch.tensor([[1, 0, 0, 1]]), torch.tensor([[0.0, 0.0, 0.0, 1.0]])
    made, _ = padded_gae(rewards, torch.tensor([[0.5, 9.0, 9.0, 0.5]]), Batch.from_mask(mask, ["q"]))
    assert made[0].tolist() == pytest.approx([0.475, 0, 0, 0.5])  # 1.2574 for a recursion over all four


def test_discounts_count_policy_tokens() -> None:
    v = tokens([0.0] * 4, turns=[2, 2])
    made = gae(outcome(v, 1.0), critic_values(v, last_values(v.batch)), discount=0.9, lam=1.0)
    assert made.values.tolist() == pytest.approx([0.729, 0.81, 0.9, 1.0])


# ---------------------------------------------------------------------------------------------------------- endings


def test_a_truncated_trajectory_needs_a_bootstrap_or_a_declaration() -> None:
    b = Batch.of(groups=["q"] * 3, tokens=[1, 1, 0], status=["terminated", "truncated", "truncated"])
    with pytest.raises(MissingInput, match=r"in 1; .*on_truncated='zero'"):
        last_values(b)
    assert last_values(b, on_truncated="zero").values.tolist() == [0.0, 0.0, 0.0]
    assert last_values(b, Signal.of(b, Level.TRAJECTORY, [9.0, 0.5, None], name="v")).values.tolist() == [0, 0.5, 0]


def test_nobody_knows_what_an_aborted_trajectory_led_to() -> None:
    b = Batch.of(groups=["q"], tokens=[2], status=["aborted"])
    v = Signal.of(b, Level.TOKEN, [0.5, 0.25], name="value")
    made = gae(Signal.of(b, Level.TRAJECTORY, [0.0], name="r"), critic_values(v, last_values(b)))
    assert made.known.tolist() == [True, False]
    assert made.values.tolist() == [-0.25, 0.0]


# ------------------------------------------------------------------------------------------------------------- laws


def steps_of(batch: Batch, level: Level) -> list[list[int]]:
    row = batch.owner(level, Level.TRAJECTORY).tolist()
    return [[k for k, owner in enumerate(row) if owner == i] for i in range(len(batch))]


@given(st.data(), st.sampled_from([0.0, 0.9, 1.0]), st.sampled_from([0.0, 0.3, 0.5, 0.95, 1.0]))
@pytest.mark.parametrize("level", [Level.TURN, Level.TOKEN])
def test_gae_is_the_loop(level: Level, data: st.DataObject, discount: float, lam: float) -> None:
    batch = data.draw(batches(tokens=level == Level.TOKEN))
    before = data.draw(signals(batch, level, missing=False))
    last = data.draw(signals(batch, Level.TRAJECTORY, "last", missing=False))
    reward = data.draw(signals(batch, level, "r", missing=False))
    v = critic_values(before, last)
    made = gae(reward, v, discount=discount, lam=lam).check()
    targets = lambda_returns(reward, v, discount=discount, lam=lam)
    for steps, end in zip(steps_of(batch, level), last.values.tolist(), strict=True):
        following, advantage, target = end, 0.0, end
        for k in reversed(steps):
            delta = float(reward.values[k]) + discount * following - float(before.values[k])
            advantage = delta + discount * lam * advantage
            target = float(reward.values[k]) + discount * ((1 - lam) * following + lam * target)
            following = float(before.values[k])
            assert float(made.values[k]) == pytest.approx(advantage, rel=1e-9, abs=1e-9)
            assert float(targets.values[k]) == pytest.approx(target, rel=1e-9, abs=1e-9)
    each = torch.full((len(batch),), lam, dtype=torch.float64)
    for one in (lam, each):
        lengths = batch.lengths(level, Level.TRAJECTORY)
        packed = packed_gae(reward.values, before.values, lengths, last=last.values, discount=discount, lam=one)
        torch.testing.assert_close(packed, made.values, rtol=1e-9, atol=1e-9)


@given(st.data(), batches())
def test_padding_changes_nothing(data: st.DataObject, batch: Batch) -> None:
    x = data.draw(signals(batch, Level.TOKEN, missing=False))
    lam = torch.arange(1, len(batch) + 1, dtype=torch.float64) / (len(batch) + 1)
    width = int(batch.response_lengths.max())
    noise = torch.full((len(batch), width), 7.0, dtype=torch.float64)
    rewards = batch.pad(x.values / 3, width=width)
    values = torch.where(batch.pad(torch.ones_like(x.values), width=width) > 0, batch.pad(x.values, width=width), noise)
    advantages, targets = padded_gae(rewards, values, batch, discount=0.9, lam=lam)
    packed = packed_gae(x.values / 3, x.values, batch.tokens_per_trajectory, discount=0.9, lam=lam)
    assert torch.equal(batch.unpad(advantages), packed)
    torch.testing.assert_close(batch.unpad(targets), packed + x.values)
    assert advantages.count_nonzero() == packed.count_nonzero()


def test_a_discounted_return_minus_the_value_when_lambda_is_one() -> None:
    v = tokens([0.25, 0.5, 0.125])
    made = gae(outcome(v, 1.0), critic_values(v, last_values(v.batch)), discount=0.9, lam=1.0)
    assert made.values.tolist() == pytest.approx([0.81 - 0.25, 0.9 - 0.5, 1 - 0.125])


def test_a_perfect_critic_leaves_nothing() -> None:
    v = tokens([1.0, 1.0, 1.0])
    assert gae(outcome(v, 1.0), critic_values(v, last_values(v.batch))).values.tolist() == [0.0] * 3


def test_an_unknown_outcome_leaves_its_trajectory_out() -> None:
    b = Batch.of(groups=["q"] * 2, tokens=[2, 1])
    v = Signal.of(b, Level.TOKEN, [0.5, 0.5, 0.5], name="value")
    made = gae(Signal.of(b, Level.TRAJECTORY, [None, 1.0], name="r"), critic_values(v, last_values(b)))
    assert made.known.tolist() == [False, False, True]
    assert made.values.tolist() == [0.0, 0.0, 0.5]


def test_a_lambda_for_every_trajectory() -> None:
    b = Batch.of(groups=["q"] * 2, tokens=[2, 2])
    v = critic_values(Signal.of(b, Level.TOKEN, [0.5] * 4, name="value"), last_values(b))
    r = Signal.of(b, Level.TRAJECTORY, [1.0, 1.0], name="r")
    made = gae(r, v, lam=torch.tensor([0.0, 1.0]))
    assert made.values.tolist() == [0.0, 0.5, 0.5, 0.5]


# ------------------------------------------------------------------------------------------------------------ turns


def test_turns_without_policy_tokens_are_no_steps() -> None:
    b = Batch.of(groups=["q"], turns=[3], tokens=[2, 0, 1])
    v = turn_values(Signal.of(b, Level.TOKEN, [0.1, 0.3, 0.2], name="value"), last_values(b))
    r = Signal.of(b, Level.TURN, [0.0, 0.5, 1.0], name="r")
    made = gae(r, v, discount=0.5, lam=1.0)
    # The reward of the empty turn goes to the turn before it, and one discount lies between the other two.
    assert made.values.tolist() == pytest.approx([0.5 + 0.5 * 0.2 - 0.1 + 0.5 * 0.8, 0.0, 0.8])
    assert made.known.tolist() == [True, False, True]


def test_turn_values_are_read_where_a_turn_begins_or_ends() -> None:
    v = tokens([0.1, 0.3, 0.2, 0.6], turns=[2, 2])
    last = last_values(v.batch)
    assert turn_values(v, last).before.values.tolist() == [0.1, 0.2]
    assert turn_values(v, last, read="last").before.values.tolist() == [0.3, 0.6]


def test_text_only_rollouts_have_turns() -> None:
    b = Batch.of(groups=["q"], turns=[2])
    v = critic_values(Signal.of(b, Level.TURN, [0.5, 0.5], name="value"), last_values(b))
    assert gae(Signal.of(b, Level.TRAJECTORY, [1.0], name="r"), v).values.tolist() == pytest.approx([0.475, 0.5])


def test_credit_between_turns_and_inside_them() -> None:
    v = tokens([0.3, 0.4, 0.5, 0.6], turns=[2, 2])
    last = last_values(v.batch)
    r = outcome(v, 0.0, 1.0, level=Level.TURN)
    turns = gae(r, turn_values(v, last, read="last"), discount=0.95, lam=1.0)
    assert turns.values.tolist() == pytest.approx([0.55, 0.4])
    assert lambda_returns(r, turn_values(v, last, read="last"), discount=0.95).values.tolist() == pytest.approx(
        [0.95, 1]
    )
    made = bilevel_gae(r, v, last).check()
    assert made.values.tolist() == pytest.approx([0.65, 0.55, 0.5, 0.4])


@given(st.data(), batches())
def test_one_turn_without_discounts_is_plain_gae(data: st.DataObject, batch: Batch) -> None:
    tokens_of = batch.tokens_per_trajectory.tolist()
    flat = Batch.of(groups=["q"] * len(batch), tokens=tokens_of)
    v = data.draw(signals(flat, Level.TOKEN, missing=False))
    r = data.draw(signals(flat, Level.TRAJECTORY, "r"))
    last = data.draw(signals(flat, Level.TRAJECTORY, "last", missing=False))
    made = bilevel_gae(r, v, last, turn_discount=1.0)
    plain = gae(r, critic_values(v, last), lam=1.0)
    torch.testing.assert_close(made.values, plain.values, rtol=1e-9, atol=1e-9)
    assert torch.equal(made.known, plain.known)


# --------------------------------------------------------------------------------------------------------- refusals


def flat(**changes: object) -> Tensor:
    options: dict[str, object] = {"rewards": torch.zeros(2), "values": torch.zeros(2), "lengths": torch.tensor([2])}
    options.update(changes)
    return packed_gae(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("values", {"values": torch.zeros(3)}),
        ("values", {"rewards": torch.zeros(1, 2), "values": torch.zeros(1, 2)}),
        ("lengths", {"lengths": torch.tensor([3])}),
        ("last", {"last": torch.zeros(2)}),
        ("lam", {"lam": torch.zeros(2)}),
        ("lam", {"lam": 1.5}),
        ("lam", {"lam": torch.tensor([float("nan")])}),
        ("discount", {"discount": -0.5}),
        ("rewards", {"rewards": torch.tensor([0.0, float("inf")])}),
        ("rewards", {"values": torch.tensor([float("nan"), 0.0])}),
    ],
)
def test_bad_tensors_are_named(name: str, changes: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=name):
        flat(**changes)


@pytest.mark.parametrize("lam", [0.95, 0.0, torch.tensor([0.5, 0.9, 1.0, 0.0])])
def test_what_is_not_finite_is_found_wherever_it_stands(lam: float | Tensor) -> None:
    lengths = torch.tensor([3, 70, 1, 76])
    for poison in (float("nan"), float("inf"), -float("inf")):
        for place in range(150):
            values = torch.zeros(150).index_fill(0, torch.tensor([place]), poison)
            with pytest.raises(InvalidArgument, match="finite"):
                packed_gae(torch.zeros(150), values, lengths, lam=lam)
            with pytest.raises(InvalidArgument, match="finite"):
                packed_gae(values, torch.zeros(150), lengths, lam=lam)
    assert packed_gae(torch.full((150,), 1e37), torch.zeros(150), lengths, lam=lam).isfinite().all()


def test_half_precision_is_not_computed_in() -> None:
    assert flat(rewards=torch.zeros(2, dtype=torch.bfloat16), values=torch.zeros(2, dtype=torch.float16)).dtype == (
        torch.float32
    )
    assert flat(rewards=torch.zeros(0), values=torch.zeros(0), lengths=torch.tensor([0])).tolist() == []


def test_bad_choices_are_named() -> None:
    v = tokens([0.5])
    with pytest.raises(InvalidArgument, match="on_truncated"):
        last_values(v.batch, on_truncated="end")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="bootstrap"):
        last_values(v.batch, outcome(tokens([0.5]), 1.0))
    with pytest.raises(InvalidArgument, match="read"):
        turn_values(v, last_values(v.batch), read="middle")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"values=.*TOKEN"):
        bilevel_gae(outcome(v, 1.0), v.pool(Level.TURN), last_values(v.batch))


def test_bi_level_a_turn_without_a_return_is_not_one_with_the_return_0() -> None:
    """The last value of turn 2 is missing: neither turn 1, which ends in it, nor turn 2 has a return."""
    b = Batch.of(groups=["q"], turns=[3], tokens=[2, 2, 1])
    v = Signal.of(b, Level.TOKEN, [0.3, 0.4, 0.5, None, 0.25], name="value")
    made = bilevel_gae(outcome(v, 1.0), v, last_values(b))
    assert made.known.tolist() == [False] * 4 + [True]
    assert made.values.tolist() == [0.0] * 4 + [0.75]
