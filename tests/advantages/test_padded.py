"""The padded door: shapes, rewards outside the mask, rows that cannot be scored."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import dr_grpo, grpo, opo, padded_advantages, reinforce_pp, return_to_go
from apportion.errors import InvalidArgument
from apportion.signal import Signal
from tests.strategies import masks

NAN, INF = float("nan"), float("inf")
PAIR = torch.tensor([[1, 1, 0], [1, 0, 0]])


def identity(x: Signal) -> Signal:
    return x


def test_one_reward_per_row() -> None:
    made = padded_advantages(grpo, [1.0, 0.0], PAIR, ["q", "q"])
    assert (made.dtype, made.shape) == (torch.float32, PAIR.shape)
    assert made.tolist() == [pytest.approx([0.7071, 0.7071, 0], abs=1e-4), pytest.approx([-0.7071, 0, 0], abs=1e-4)]


@pytest.mark.parametrize("missing", [None, NAN])
def test_missing_rewards(missing: float | None) -> None:
    made = padded_advantages(grpo, [1.0, 1.0, 0.0, missing], torch.ones(4, 1), ["q"] * 4)
    assert made.flatten().tolist() == pytest.approx([0.5774, 0.5774, -1.1547, 0.0], abs=1e-4)


def test_a_row_without_policy_tokens_cannot_be_scored() -> None:
    # Written at index length - 1 the reward would land on the last pad slot and move the peer's baseline.
    mask = torch.tensor([[0, 0, 0], [1, 1, 0]])
    assert padded_advantages(grpo, [5.0, 0.0], mask, ["q", "q"]).tolist() == [[0.0] * 3] * 2
    placed = torch.tensor([[0.0, 0.0, 5.0], [0.0, 0.0, 0.0]])
    for how in ("fold", "drop", "refuse"):
        assert (padded_advantages(grpo, placed, mask, ["q", "q"], masked_rewards=how) == 0).all()  # type: ignore[arg-type]


def test_a_rejected_tokens_reward_can_be_dropped() -> None:
    rewards, mask = torch.tensor([[0.0, 2.0], [0.0, 0.0]]), torch.tensor([[1, 0], [1, 1]])
    assert (padded_advantages(grpo, rewards, mask, ["p", "p"], masked_rewards="drop") == 0).all()
    folded = padded_advantages(grpo, rewards, mask, ["p", "p"], masked_rewards="fold")
    assert folded.tolist() == [pytest.approx([0.7071, 0.0], abs=1e-4), pytest.approx([-0.7071] * 2, abs=1e-4)]


def test_what_a_masked_reward_means_is_never_guessed() -> None:
    # The same tensors hold a reward on the last observation and the reward of a rejected token.
    rewards, mask = torch.tensor([[0.0, 2.0], [0.0, 0.0]]), torch.tensor([[1, 0], [1, 1]])
    with pytest.raises(InvalidArgument, match=r"rewards=\[0\].*'fold'.*'drop'"):
        padded_advantages(grpo, rewards, mask, ["p", "p"])


def test_a_reward_on_the_final_observation_belongs_to_the_action_before() -> None:
    rewards, mask = torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[1, 1, 0]])
    made = padded_advantages(identity, rewards, mask, ["q"], level="token", masked_rewards="fold")
    assert made.tolist() == [[0.0, 1.0, 0.0]]

    def myopic(x: Signal) -> Signal:
        return return_to_go(x, discount=0.0)

    to_go = padded_advantages(myopic, rewards, mask, ["q"], level="token", masked_rewards="fold")
    assert to_go.tolist() == [[0.0, 1.0, 0.0]]


def test_folding_stays_inside_the_row() -> None:
    rewards = torch.tensor([[1.0, 2.0, 4.0, 8.0], [16.0, 32.0, 64.0, 128.0]])
    mask = torch.tensor([[1, 0, 1, 0], [1, 1, 0, 0]])
    made = padded_advantages(identity, rewards, mask, ["q", "q"], level="token", masked_rewards="fold")
    assert made.tolist() == [[3.0, 0.0, 12.0, 0.0], [16.0, 224.0, 0.0, 0.0]]


def test_nothing_earned_a_reward_before_the_first_action() -> None:
    rewards, mask = torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[0, 1], [1, 1]])
    with pytest.raises(InvalidArgument, match=r"rewards=\[0\].*first policy token"):
        padded_advantages(grpo, rewards, mask, ["q", "q"], masked_rewards="fold")
    assert (padded_advantages(grpo, rewards, mask, ["q", "q"], masked_rewards="drop") == 0).all()


def test_one_missing_token_reward_makes_its_row_missing() -> None:
    rewards = torch.tensor([[NAN, 1.0], [1.0, 0.0], [0.0, 0.0]])
    made = padded_advantages(grpo, rewards, torch.ones(3, 2), ["q"] * 3)
    assert made.tolist() == [
        [0.0, 0.0],
        pytest.approx([0.7071] * 2, abs=1e-4),
        pytest.approx([-0.7071] * 2, abs=1e-4),
    ]


def test_nan_outside_the_mask_does_not_matter_when_dropped() -> None:
    rewards, mask = torch.tensor([[1.0, NAN], [0.0, NAN]]), torch.tensor([[1, 0], [1, 0]])
    made = padded_advantages(grpo, rewards, mask, ["q", "q"], masked_rewards="drop")
    assert made[:, 0].tolist() == pytest.approx([0.7071, -0.7071], abs=1e-4)


@given(masks(), st.integers(0, 3))
def test_padding_and_row_order_do_not_matter(mask: torch.Tensor, extra: int) -> None:
    rewards = torch.arange(len(mask), dtype=torch.float64)
    groups = ["a" if i % 2 else "b" for i in range(len(mask))]
    made = padded_advantages(opo, rewards, mask, groups)
    assert (made[mask == 0] == 0).all()
    wide = torch.cat((mask, mask.new_zeros(len(mask), extra)), 1)
    torch.testing.assert_close(padded_advantages(opo, rewards, wide, groups)[:, : mask.shape[1]], made)
    back = padded_advantages(opo, rewards.flip(0), mask.flip(0), groups[::-1])
    torch.testing.assert_close(back.flip(0), made)


def test_token_level_estimators() -> None:
    rewards = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[1, 0, 0], [1, 1, 1]])

    def whole(x: Signal) -> Signal:
        return reinforce_pp(x)

    assert padded_advantages(whole, rewards, mask, ["a", "b"]).tolist() == [[1.5, 0, 0], [-0.5, -0.5, -0.5]]


def test_float32_rewards_keep_float32_resolution() -> None:
    noisy = torch.tensor([0.3, 0.3, 0.3])
    noisy[1] = torch.nextafter(noisy[1], torch.tensor(1.0))
    for rewards in (noisy, noisy[:, None]):
        assert (padded_advantages(grpo, rewards, torch.ones(3, 1), ["q"] * 3) == 0).all()


def test_padding_rows_of_a_shared_group_stay_out() -> None:
    mask = torch.tensor([[1, 1], [1, 0], [0, 0], [0, 0]])
    made = padded_advantages(grpo, [1.0, 0.0, 0.0, 0.0], mask, ["q", "q", "pad", "pad"])
    assert made[:2, 0].tolist() == pytest.approx([0.7071, -0.7071], abs=1e-4)
    assert (made[2:] == 0).all()


@pytest.mark.parametrize(
    ("rewards", "options", "match"),
    [
        ([1.0, 0.0, 1.0], {}, "rewards"),
        (torch.zeros(2, 2), {}, r"shape \(2, 3\) or \(2,\)"),
        ([1.0, INF], {}, "finite"),
        ([1.0, 0.0], {"level": "token"}, r"shape \(2, 3\)"),
        ([1.0, 0.0], {"level": "turn"}, "level"),
        ([1.0, 0.0], {"masked_rewards": "keep"}, "masked_rewards"),
    ],
)
def test_bad_input_is_named(rewards: object, options: dict[str, object], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        padded_advantages(grpo, rewards, PAIR, ["q", "q"], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("rewards", [[[1.0, 0.0, 0.0], [0.0, None, 0.0]], np.array([[1.0, 0, 0], [0, NAN, 0]])])
def test_lists_and_arrays_of_token_rewards(rewards: object) -> None:
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    made = padded_advantages(identity, rewards, mask, ["q", "q"], masked_rewards="drop")  # type: ignore[arg-type]
    assert made.tolist() == [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("rewards", [[[1.0], [1.0, 2.0]], ["good", "bad"], [1.0, object()]])
def test_what_is_not_a_number_is_refused(rewards: object) -> None:
    with pytest.raises(InvalidArgument, match="rewards"):
        padded_advantages(grpo, rewards, PAIR, ["q", "q"])  # type: ignore[arg-type]


def test_everything_may_come_as_lists() -> None:
    made = padded_advantages(grpo, [1, 0, 0, 0], [[1, 1, 0]] * 4, ["q"] * 4)
    assert made.tolist() == [[1.5, 1.5, 0.0]] + [[-0.5, -0.5, 0.0]] * 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_statistics_of_coarse_rewards_are_not_coarse(dtype: torch.dtype) -> None:
    # The mean of these rounds to 2 in bfloat16, and 1e-9 to 0 in float16.
    made = padded_advantages(grpo, torch.tensor([2, 2, 2, 2.015625], dtype=dtype), torch.ones(4, 1), ["q"] * 4)
    assert made.flatten().tolist() == [-0.5, -0.5, -0.5, 1.5]

    def tiny_eps(x: Signal) -> Signal:
        return grpo(x, eps=1e-9)

    half = torch.full((4,), 0.5, dtype=dtype)
    assert (padded_advantages(tiny_eps, half, torch.ones(4, 1), ["q"] * 4, dtype=dtype) == 0).all()


@pytest.mark.parametrize(("reward", "dtype"), [(1e100, torch.float32), (1e5, torch.float16)])
def test_an_advantage_that_does_not_fit_is_an_error_not_an_infinity(reward: float, dtype: torch.dtype) -> None:
    with pytest.raises(InvalidArgument, match="dtype"):
        padded_advantages(dr_grpo, [reward, -reward], torch.ones(2, 1), ["q", "q"], dtype=dtype)


def test_advantages_do_not_leave_as_whole_numbers() -> None:
    with pytest.raises(InvalidArgument, match="a floating-point type"):
        padded_advantages(grpo, [1.0, 0.0], torch.ones(2, 1), ["q", "q"], dtype=torch.int64)


def test_groups_match_the_rows() -> None:
    with pytest.raises(InvalidArgument, match="mask"):
        padded_advantages(grpo, [1.0, 0.0], PAIR, ["q"])
