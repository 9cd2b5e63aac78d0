"""GDPO, and how it differs from normalising a sum."""

from __future__ import annotations

import pytest
import torch

from apportion.advantages import gdpo, sum_then_normalize
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal

Rewards = list[list[float | None]]


def parts(rewards: Rewards, groups: str | None = None, tokens: list[int] | None = None) -> list[Signal]:
    first = rewards_signal(rewards[0], groups=list(groups) if groups else None, tokens=tokens, name="r0")
    rest = [Signal.of(first.batch, Level.TRAJECTORY, r, name=f"r{i}") for i, r in enumerate(rewards[1:], 1)]
    return [first, *rest]


def test_combinations_that_a_sum_cannot_tell_apart() -> None:
    one, both = parts([[0, 1], [0, 0]]), parts([[0, 1], [0, 1]])
    for rewards in (one, both):
        assert sum_then_normalize(rewards).values.tolist() == pytest.approx([-0.7071, 0.7071], abs=1e-4)
    assert gdpo(one, final="none").values.tolist() == pytest.approx([-0.7071, 0.7071], abs=1e-4)
    assert gdpo(both, final="none").values.tolist() == pytest.approx([-1.4142, 1.4142], abs=1e-4)


def test_a_missing_part_adds_nothing_and_skips_the_statistics() -> None:
    made = gdpo(parts([[1, 0, 1, None], [0.2, 0.4, 0.1, 0.3]]), final="none")
    assert made.values.tolist() == pytest.approx([0.1901, 0.0072, -0.5845, 0.3873], abs=1e-4)
    assert made.known.all()


def test_a_rollout_without_any_reward_is_absent() -> None:
    made = gdpo(parts([[1, 0, None], [0.5, 0.2, None]]))
    assert made.known.tolist() == [True, True, False]
    two = gdpo(parts([[1, 0], [0.5, 0.2]]))
    assert made.values[:2].tolist() == two.values.tolist()


def test_weights_act_after_normalising() -> None:
    rewards = parts([[1, 0], [0, 1]])
    assert gdpo(rewards, weights=[1.0, 0.5], final="none").values.tolist() == pytest.approx([0.3536, -0.3536], abs=1e-4)
    scaled = [rewards[0], rewards[1] * 100]
    assert gdpo(scaled, weights=[1.0, 0.5]).values.tolist() == pytest.approx(
        gdpo(rewards, weights=[1.0, 0.5]).values.tolist()
    )


def test_a_part_that_is_constant_adds_exactly_nothing() -> None:
    letters, words, game = [0.36, 0.52, 0.48, 1.0], [0.1, 0.2, 0.2, 1.0], [0.0, 0.0, 0.0, 1.0]
    all_four = gdpo(parts([letters, words, game]), final="none")
    assert float(all_four.values[3]) == pytest.approx(sum(float(t[3]) for t in all_four.ledger().values()))
    first_three = gdpo(parts([letters[:3], words[:3], game[:3]]), final="none")
    assert (first_three.ledger()["r2"] == 0).all()
    assert torch.isfinite(first_three.values).all()


def test_the_last_step_weighs_rollouts_or_tokens() -> None:
    rewards = parts([[1, 0, 1, 1]], groups="aabb", tokens=[1, 3, 1, 1])
    y = torch.tensor([0.7071067811865475, -0.7071067811865475, 0.0, 0.0], dtype=torch.float64)
    by_sample = gdpo(rewards)
    torch.testing.assert_close(by_sample.values, y / y.std())
    assert by_sample.values[2:].tolist() == [0.0, 0.0]
    tokens = y.repeat_interleave(torch.tensor([1, 3, 1, 1]))
    torch.testing.assert_close(gdpo(rewards, final="token").values, (y - tokens.mean()) / tokens.std())


def test_the_dialect_brings_both_epsilons() -> None:
    rewards = parts([[0.0, 1e-4]])
    std = 1e-4 / 2**0.5
    z = 0.5e-4 / (std + 1e-4)
    y_std = z * 2**0.5
    assert gdpo(rewards, dialect="trl").values.tolist() == pytest.approx([-z / (y_std + 1e-4), z / (y_std + 1e-4)])


def test_dead_groups_are_exactly_zero_after_the_sample_step() -> None:
    made = gdpo(parts([[0.1] * 4 + [1, 0, 0], [0.7] * 4 + [0.3, 0.1, 0.9]], groups="aaaabbb"))
    assert (made.values[:4] == 0).all()
    assert (made.values[4:] != 0).all()


def test_raw_singletons_are_centred_with_the_batch() -> None:
    made = gdpo(parts([[1.0, 3.0]], groups="ab"), dialect="verl")
    assert made.values.tolist() == pytest.approx([-0.7071, 0.7071], abs=1e-4)


@pytest.mark.parametrize("options", [{"final": "batch"}, {"weights": [1.0]}, {"weights": [0.0, 0.0]}])
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        gdpo(parts([[1, 0], [0, 1]]), **options)  # type: ignore[arg-type]


def test_no_rewards_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="at least one"):
        gdpo([])
