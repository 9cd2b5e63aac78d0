"""Against TRL's own advantages and loss denominators, as they run in the installed version.

TRL has no function for advantages: they are computed in the middle of `GRPOTrainer._generate_and_score_completions`. So
a real trainer is built (random two-layer model, tokenizer made in code) and that method runs unchanged. Only its
neighbours in a training step are replaced: `_generate` hands over fixed tokens, `_calculate_rewards` the rewards of the
test. Cutting the lines out of the source would run the same arithmetic, but it would break when TRL moves a line and,
worse, go on passing when TRL starts to do something around them.

TRL works in float32. Given float64 rewards the same code runs in float64, except for the factor n / (n - 1) in its
standard deviation, so each comparison is made twice: to 5e-7 there, and to 2e-5 in float32, where the largest
difference on these rewards was measured as 4e-6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from apportion.advantages import DIALECTS, gdpo, group_statistics, grpo, sum_then_normalize, token_weights
from apportion.advantages.aggregation import Aggregation
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.differential import needs

trl = needs.trainer("trl", extra="trl")

TOLERANCE = {torch.float64: 5e-7, torch.float32: 2e-5}
NAN = float("nan")


class Scripted:
    """A GRPOTrainer that is told its rewards."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def advantages(
        self,
        rewards: Tensor,
        *,
        group: int,
        scale_rewards: str = "group",
        aggregation: str = "sum_then_normalize",
        weights: Sequence[float] | None = None,
    ) -> Tensor:
        """What TRL makes of a [B, functions] matrix; rows of one prompt follow each other, `group` of them."""
        t, (rows, functions) = self.trainer, rewards.shape
        t.num_generations = group
        t.scale_rewards = scale_rewards
        t.multi_objective_aggregation = aggregation
        t.reward_weights = torch.tensor(weights or [1.0] * functions, dtype=torch.float32)
        t.reward_funcs = [None] * functions
        t.reward_func_names = [f"reward {k}" for k in range(functions)]
        ids = [[7, 8]] * rows
        t._generate = lambda prompts: (ids, ids, None, ["text"] * rows, None, {}, None, None)
        t._calculate_rewards = lambda *_: rewards.clone()
        made: Tensor = t._generate_and_score_completions([{"prompt": "task"} for _ in range(rows)])["advantages"]
        return made

    def metric(self, name: str) -> float:
        """The last value that TRL logged."""
        return float(self.trainer._metrics["train"][name][-1])


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    from tests.integrations.trl_adapter import tiny

    made = tiny.trainer(
        tmp_path_factory.mktemp("trl"),
        kind=trl.GRPOTrainer,
        reward_funcs=[tiny.half_right, tiny.half_right],
        rollout_func=None,
    )
    made.model.train()
    return Scripted(made)


def parts_of(rewards: Tensor, group: int) -> list[Signal]:
    """One signal per reward function, NaN = absent."""
    batch = Batch.of(groups=[i // group for i in range(len(rewards))])
    columns = enumerate(rewards.unbind(1))
    return [Signal.of(batch, Level.TRAJECTORY, c, name=f"reward {k}", known=~torch.isnan(c)) for k, c in columns]


def compare(ours: Signal, theirs: Tensor) -> None:
    tolerance = TOLERANCE[theirs.dtype]
    torch.testing.assert_close(ours.values, theirs.double(), rtol=tolerance, atol=tolerance)


def cancels(parts: Sequence[Signal], weights: Sequence[float]) -> bool:
    """True when the normalised rewards add up to almost nothing: TRL then scales up what float32 left of them."""
    total = gdpo(parts, weights=weights, final="none", dialect="trl")
    return float(total.values.abs().max()) < 0.5


@st.composite
def reward_matrices(draw: st.DrawFn, functions: int) -> tuple[Tensor, int]:
    """Whole groups of 2 to 8; a row may be scored by no function at all, never by only some of them."""
    group, groups = draw(st.integers(2, 8)), draw(st.integers(1, 4))
    row = st.lists(st.integers(-8, 8).map(lambda k: k / 4), min_size=functions, max_size=functions)
    unscored = st.just([NAN] * functions)
    rows = draw(st.lists(st.one_of(row, row, row, row, unscored), min_size=group * groups, max_size=group * groups))
    return torch.tensor(rows, dtype=torch.float64), group


# ----------------------------------------------------------------------------------------------------- the same numbers


@pytest.mark.parametrize("scale_rewards", ["group", "batch", "none"])
@given(drawn=reward_matrices(1))
def test_one_reward(scripted: Scripted, scale_rewards: str, drawn: tuple[Tensor, int]) -> None:
    rewards, group = drawn
    (x,) = parts_of(rewards, group)
    ours = {
        "group": grpo(x, dialect="trl"),
        "batch": grpo(x, dialect="trl", scale_key="batch"),
        "none": grpo(x, dialect="trl", scale="none"),
    }[scale_rewards]
    for dtype in TOLERANCE:
        compare(ours, scripted.advantages(rewards.to(dtype), group=group, scale_rewards=scale_rewards))


@pytest.mark.parametrize("scale_rewards", ["group", "batch", "none"])
@given(drawn=reward_matrices(3))
def test_weighted_rewards_summed_then_normalised(
    scripted: Scripted, scale_rewards: str, drawn: tuple[Tensor, int]
) -> None:
    rewards, group = drawn
    weights = [1.0, -0.5, 0.25]
    dialect = {
        "group": DIALECTS["trl"],
        "batch": replace(DIALECTS["trl"], scale_key="batch"),
        "none": replace(DIALECTS["trl"], scale="none"),
    }[scale_rewards]
    ours = sum_then_normalize(parts_of(rewards, group), weights=weights, dialect=dialect)
    for dtype in TOLERANCE:
        theirs = scripted.advantages(rewards.to(dtype), group=group, scale_rewards=scale_rewards, weights=weights)
        compare(ours, theirs)


@given(drawn=reward_matrices(2), weights=st.sampled_from([[1.0, 1.0], [2.0, 0.25], [1.0, -1.0]]))
def test_rewards_normalised_then_summed(scripted: Scripted, drawn: tuple[Tensor, int], weights: list[float]) -> None:
    rewards, group = drawn
    parts = parts_of(rewards, group)
    ours = gdpo(parts, weights=weights, dialect="trl")
    for dtype in TOLERANCE:
        if dtype == torch.float32 and cancels(parts, weights):
            continue
        theirs = scripted.advantages(
            rewards.to(dtype), group=group, aggregation="normalize_then_sum", weights=weights, scale_rewards="none"
        )
        compare(ours, theirs)


@given(drawn=reward_matrices(2))
def test_a_reward_missing_in_one_function_when_each_is_normalised_first(
    scripted: Scripted, drawn: tuple[Tensor, int]
) -> None:
    rewards, group = drawn
    rewards[::3, 1] = NAN
    parts = parts_of(rewards, group)
    assume(not cancels(parts, [1.0, 1.0]))
    ours = gdpo(parts, dialect="trl")
    theirs = scripted.advantages(rewards, group=group, aggregation="normalize_then_sum")
    compare(ours, theirs)


def test_one_rollout_per_prompt_as_in_evaluation(scripted: Scripted) -> None:
    rewards = torch.tensor([[0.7], [0.2]])
    assert scripted.advantages(rewards, group=1).tolist() == [0.0, 0.0]
    assert grpo(rewards_signal([0.7, 0.2], groups=["a", "b"]), dialect="trl").values.tolist() == [0.0, 0.0]


# ------------------------------------------------------------------------------------------- where TRL's are not ours


def test_a_row_scored_by_only_some_functions(scripted: Scripted) -> None:
    """TRL adds nothing for a function that returned None, so a row is punished for not having been looked at.

    An absent reward adds nothing here as well: that is what absent means. What failed makes the sum unknown, and the
    row leaves its group.
    """
    rewards = torch.tensor([[0.0, NAN], [1.0, NAN], [0.0, 10.0], [1.0, 10.0]], dtype=torch.float64)
    theirs = scripted.advantages(rewards, group=4)
    assert theirs.tolist() == pytest.approx([-0.9479, -0.7755, 0.7755, 0.9479], abs=1e-4)
    absent = parts_of(rewards, 4)
    compare(sum_then_normalize(absent, dialect="trl"), theirs)
    failed = [absent[0], replace(absent[1], presence=torch.tensor([0, 0, 2, 2], dtype=torch.uint8))]
    ours = sum_then_normalize(failed, dialect="trl")
    assert ours.values.tolist() == pytest.approx([0.0, 0.0, -0.7071, 0.7071], abs=2e-4)
    assert ours.known.tolist() == [False, False, True, True]


def test_a_row_whose_only_score_has_weight_zero(scripted: Scripted) -> None:
    """TRL calls it scored, with 0. A reward of weight 0 says nothing, so here the row is missing."""
    rewards = torch.tensor([[NAN, 5.0], [1.0, 5.0], [2.0, 5.0]], dtype=torch.float64)
    theirs = scripted.advantages(rewards, group=3, weights=[1.0, 0.0])
    assert theirs.tolist() == pytest.approx([-1.0, 0.0, 1.0], abs=1e-3)
    ours = sum_then_normalize(parts_of(rewards, 3), weights=[1.0, 0.0], dialect="trl")
    assert ours.values.tolist() == pytest.approx([0.0, -0.7071, 0.7071], abs=2e-4)


def test_an_infinite_reward(scripted: Scripted) -> None:
    """TRL gives the whole group 0 and says nothing; here the offender is named."""
    theirs = scripted.advantages(torch.tensor([[float("inf")], [0.0], [1.0], [0.5]]), group=4)
    assert theirs.tolist() == [0.0] * 4
    with pytest.raises(InvalidArgument, match="inf"):
        rewards_signal([float("inf"), 0.0, 1.0, 0.5])


@pytest.mark.parametrize("value", [0.2, 0.7, 0.9, 1000.1])
def test_equal_rewards(scripted: Scripted, value: float) -> None:
    """TRL divides the float32 residue of the mean by 1e-4, and does not count the group as one without variance."""
    rewards = torch.full((8, 1), value)
    theirs = scripted.advantages(rewards, group=8)
    assert theirs.any()
    assert scripted.metric("frac_reward_zero_std") == 0.0
    (x,) = parts_of(rewards, 8)
    assert not grpo(x, dialect="trl").values.any()
    assert group_statistics(x).constant.tolist() == [True]


def test_one_scored_row_in_a_group(scripted: Scripted) -> None:
    """Both give 0. TRL does not count the group as one without signal: its standard deviation is NaN."""
    rewards = torch.tensor([[0.7], [NAN], [NAN], [NAN]])
    assert scripted.advantages(rewards, group=4).tolist() == [0.0] * 4
    assert scripted.metric("frac_reward_zero_std") == 0.0
    (x,) = parts_of(rewards, 4)
    assert grpo(x, dialect="trl").values.tolist() == [0.0] * 4
    assert group_statistics(x).constant.tolist() == [True]


def test_the_flag_for_groups_without_variance_looks_at_the_batch(scripted: Scripted) -> None:
    """Half of the groups are constant. With one divisor for the batch TRL reports none of them."""
    rewards = torch.tensor([[1.0], [1.0], [0.0], [1.0]])
    scripted.advantages(rewards, group=2, scale_rewards="batch")
    assert scripted.metric("frac_reward_zero_std") == 0.0
    (x,) = parts_of(rewards, 2)
    assert group_statistics(x).constant.tolist() == [True, False]


# --------------------------------------------------------------------------------------------------- loss denominators

MASK = torch.tensor([[1, 1, 0, 1, 0, 0], [0, 1, 1, 0, 1, 1], [1, 0, 0, 0, 0, 0]])
LONGEST = 24


def trl_weights(scripted: Scripted, mask: Tensor, loss_type: str) -> Tensor:
    """The weight of every token's loss: the gradient on its log-probability at advantage -1."""
    t, (rows, width) = scripted.trainer, mask.shape
    logps = torch.zeros(rows, width, dtype=torch.float64, requires_grad=True)
    t._get_per_token_logps_and_entropies = lambda *_, **__: (logps, torch.zeros(rows, width), None)
    t.loss_type, t.current_gradient_accumulation_steps = loss_type, 1
    ones = torch.ones(rows, width, dtype=torch.int64)
    inputs = {
        "prompt_ids": torch.ones(rows, 1, dtype=torch.int64),
        "prompt_mask": torch.ones(rows, 1, dtype=torch.int64),
        "completion_ids": ones,
        "completion_mask": ones,
        "tool_mask": mask,
        "advantages": -torch.ones(rows, width, dtype=torch.float64),
        "num_items_in_batch": mask.sum(),
    }
    t._compute_loss(t.model, inputs).backward()
    assert logps.grad is not None
    return logps.grad


@pytest.mark.parametrize(
    ("loss_type", "aggregation", "constant"),
    [
        ("grpo", "seq-mean-token-mean", None),
        ("bnpo", "token-mean", None),
        ("dapo", "token-mean", None),
        ("luspo", "seq-mean-token-sum", None),
        ("dr_grpo", "seq-mean-token-sum-norm", LONGEST),
    ],
)
def test_loss_denominators(
    scripted: Scripted, loss_type: str, aggregation: Aggregation, constant: float | None
) -> None:
    batch = Batch.from_mask(MASK, ["a", "a", "b"])
    ours = batch.pad(token_weights(batch, aggregation, constant=constant), width=MASK.shape[1])
    torch.testing.assert_close(ours, trl_weights(scripted, MASK, loss_type), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("loss_type", "aggregation"), [("grpo", "seq-mean-token-mean"), ("luspo", "seq-mean-token-sum")]
)
def test_a_row_without_policy_tokens_stays_in_the_denominator_of_trl(
    scripted: Scripted, loss_type: str, aggregation: Aggregation
) -> None:
    """TRL divides by 4 rows, of which one says nothing; here by the 3 that take part."""
    mask = torch.cat([MASK, torch.zeros_like(MASK[:1])])
    batch = Batch.from_mask(mask, ["a", "a", "b", "b"])
    ours = batch.pad(token_weights(batch, aggregation), width=mask.shape[1])
    torch.testing.assert_close(ours * 3 / 4, trl_weights(scripted, mask, loss_type), rtol=1e-6, atol=1e-9)


def test_the_longest_completion_is_what_the_trainer_was_told(scripted: Scripted) -> None:
    assert scripted.trainer.max_completion_length == LONGEST


def test_the_comparison_is_with_the_method_of_the_trainer(scripted: Scripted) -> None:
    method = type(scripted.trainer)._generate_and_score_completions
    assert method is trl.GRPOTrainer._generate_and_score_completions
    assert Path(trl.__file__).parent in Path(method.__code__.co_filename).parents
