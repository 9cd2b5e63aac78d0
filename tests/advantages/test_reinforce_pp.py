"""REINFORCE++ and its baseline form."""

from __future__ import annotations

import pytest
import torch

from apportion.advantages import penalised_rewards, reinforce_pp, reinforce_pp_baseline, return_to_go
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal


def kl_batch(mask: list[int], outcome: float | None) -> Signal:
    batch = Batch.from_mask(torch.tensor([mask]), ["q"])
    return Signal.of(batch, Level.TRAJECTORY, [outcome], name="outcome")


def test_worked_numbers() -> None:
    made = reinforce_pp(rewards_signal([1.0, 0.0], tokens=[1, 3]))
    assert made.values.tolist() == [1.5, -0.5, -0.5, -0.5]


def test_early_tokens_are_discounted() -> None:
    made = reinforce_pp(rewards_signal([1.0, 0.0], tokens=[2, 1]), discount=0.5)
    assert made.values.tolist() == [0.0, 1.0, -1.0]  # returns 0.5, 1 and 0


def test_tool_tokens_carry_no_penalty() -> None:
    x = kl_batch([1, 0, 0, 1], 0.0)
    kl = x.batch.unpad(torch.full((1, 4), 0.5))
    rewards = penalised_rewards(x, beta=1.0, logps=kl, ref_logps=torch.zeros(2))
    assert rewards.values.tolist() == [-0.5, -0.5]
    # -0.9375 would contain the penalty of the two tool tokens.
    assert float(return_to_go(rewards, discount=0.5).values[0]) == -0.75


def test_the_penalty_has_its_own_line_in_the_ledger() -> None:
    x = rewards_signal([1.0, 0.0], tokens=[2, 1])
    logps = torch.tensor([-1.0, -2.0, -0.5])
    rewards = penalised_rewards(x, beta=0.1, logps=logps, ref_logps=logps - 0.5)
    assert rewards.ledger()["kl"].tolist() == pytest.approx([-0.05] * 3)
    assert rewards.ledger()["reward"].tolist() == [0.0, 1.0, 0.0]
    assert reinforce_pp(x, beta=0.1, logps=logps, ref_logps=logps - 0.5).residual() <= 1e-12


def test_an_unscored_rollout_is_in_no_statistic() -> None:
    x = rewards_signal([1.0, 0.0, None], tokens=[1, 3, 50])
    alone = reinforce_pp(rewards_signal([1.0, 0.0], tokens=[1, 3]))
    logps = torch.randn(54, generator=torch.Generator().manual_seed(0))
    assert reinforce_pp(x).values[:4].tolist() == alone.values.tolist()
    for made in (reinforce_pp(x), reinforce_pp(x, beta=0.1, logps=logps, ref_logps=logps - 1)):
        assert not made.known[4:].any()
        assert (made.values[4:] == 0).all()


def test_turn_rewards_flow_backwards() -> None:
    batch = Batch.of(groups=["q"], turns=[2], tokens=[1, 2])
    x = Signal.of(batch, Level.TURN, [1.0, 2.0], name="r")
    assert return_to_go(penalised_rewards(x)).values.tolist() == [3.0, 2.0, 2.0]


def test_a_turn_without_a_reward_still_pays_for_its_divergence() -> None:
    batch = Batch.of(groups=["q"], turns=[2], tokens=[1, 1])
    x = Signal.of(batch, Level.TURN, [None, 2.0], name="r")
    made = penalised_rewards(x, beta=1.0, logps=torch.zeros(2), ref_logps=-torch.ones(2))
    assert made.values.tolist() == [-1.0, 1.0]


def test_the_log_probabilities_are_detached() -> None:
    x = rewards_signal([1.0, 0.0], tokens=[2, 1])
    logps = torch.tensor([-1.0, -2.0, -0.5], requires_grad=True)
    assert not reinforce_pp(x, beta=0.1, logps=logps, ref_logps=torch.zeros(3)).values.requires_grad


def test_one_token_is_left_alone() -> None:
    assert reinforce_pp(rewards_signal([2.0], tokens=[1])).values.tolist() == [2.0]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"beta": -1.0}, "beta"),
        ({"beta": 0.1}, "got neither"),
        ({"logps": torch.zeros(2), "ref_logps": torch.zeros(2)}, "beta=0"),
        ({"beta": 0.1, "logps": torch.zeros(2)}, "logps"),
        ({"beta": 0.1, "logps": torch.zeros(3), "ref_logps": torch.zeros(2)}, r"shape \(2,\)"),
        ({"beta": 0.1, "logps": torch.tensor([0.0, float("nan")]), "ref_logps": torch.zeros(2)}, "finite"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        reinforce_pp(rewards_signal([1.0], tokens=[2]), **options)  # type: ignore[arg-type]


def test_baseline_form() -> None:
    x = rewards_signal([1.0, 0.0, 1.0, 1.0], groups=list("aabb"), tokens=[1] * 4)
    made = reinforce_pp_baseline(x).values.tolist()
    assert made == pytest.approx([1.2247, -1.2247, 0.0, 0.0], abs=1e-4)
    assert made[2:] == [0.0, 0.0]


def test_long_rollouts_weigh_more_in_the_baseline_form() -> None:
    x = rewards_signal([1.0, 0.0], tokens=[1, 3])
    by_token = reinforce_pp_baseline(x)
    assert by_token.values.tolist() == [1.5, -0.5]
    assert reinforce_pp_baseline(x, unit="element").values.tolist() == pytest.approx([0.7071, -0.7071], abs=1e-4)


def test_text_only_rollouts_whiten_over_elements() -> None:
    x = rewards_signal([1.0, 0.0])
    with pytest.raises(InvalidArgument, match="text only"):
        reinforce_pp_baseline(x)
    assert reinforce_pp_baseline(x, unit="element").values.tolist() == pytest.approx([0.7071, -0.7071], abs=1e-4)
