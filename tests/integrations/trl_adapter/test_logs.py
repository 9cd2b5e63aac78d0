"""The metrics and the completions table describe what was trained on, and the table renders."""

from __future__ import annotations

from collections import defaultdict, deque
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from apportion.batch import Batch
from apportion.integrations.trl import as_reward_func
from apportion.integrations.trl.logs import log_table
from apportion.recipe import Credit
from apportion.rewards import reward
from apportion.rollouts import Level, Trajectory
from apportion.signal import Signal
from tests.integrations.trl_adapter.tiny import half_right, trainer
from tests.integrations.trl_adapter.watching import watched_step

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")


def credit(**terms: list[float]) -> Credit:
    batch = Batch.of(groups=["q"] * len(next(iter(terms.values()))), tokens=[2] * len(next(iter(terms.values()))))
    parts = [Signal.of(batch, Level.TRAJECTORY, values, name=name) for name, values in terms.items()]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return Credit(advantages=total.spread(Level.TOKEN), aggregation="token-mean", rewards={}, recipe="mine")


def queues(size: int) -> dict[str, Any]:
    """TRL's buffers."""
    return {"advantages": deque(maxlen=size), "extra": defaultdict(lambda: deque(maxlen=size))}


def generated(logs: dict[str, Any], made: Credit) -> None:
    """What TRL writes first, then we."""
    logs["advantages"].extend([99.0] * len(made.batch))
    log_table(logs, made)


def test_metrics_and_table_describe_what_was_trained_on(tmp_path: Path) -> None:
    made, _ = watched_step(tmp_path, recipe="rlvp", logging_strategy="steps", logging_steps=1)
    logged = made.state.log_history[0]
    assert "frac_reward_zero_std" not in logged
    for name in (
        "terms/outcome/mean",
        "terms/violations/std",
        "groups/outcome/dead_share",
        "rewards/outcome/missing_share",
        "environment/unjoined_share",
    ):
        assert f"apportion/{name}" in logged
    assert made.last_credit is not None
    means = made.last_credit.advantages.pool(Level.TRAJECTORY, "mean").values.tolist()
    assert list(made._logs["advantages"]) == means
    assert set(made._logs["extra"]) >= {"credit/outcome", "credit/violations"}


def test_the_completions_table_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TRL prints it with rich and writes one Parquet file per logging step; evidence of our rewards is a column."""

    @reward
    def long_enough(trajectory: Trajectory) -> float:
        return float(len(trajectory.turns[0].text) % 2)

    made = trainer(
        tmp_path,
        recipe="rlvp",
        recipe_args={"anneal_after": 1},
        reward_funcs=[half_right, as_reward_func(long_enough)],
        log_completions=True,
        num_completions_to_print=2,
        logging_strategy="steps",
        logging_steps=1,
        max_steps=2,
    )
    made.train()
    printed = capsys.readouterr().out
    assert "Step 1" in printed
    assert "credit/" in printed
    first, second = (pd.read_parquet(tmp_path / "completions" / f"completions_0000{k}.parquet") for k in (1, 2))
    terms = ["credit/outcome", "credit/violations", "credit/fulfilments"]
    assert {"half_right", "long_enough", "long_enough/evidence", "advantage", *terms} <= set(first.columns)
    assert len(first) == len(second) == 6
    everything = [name for name in first.columns if name.startswith("credit/")]
    assert first[everything].sum(axis=1).tolist() == pytest.approx(first["advantage"].tolist(), abs=1e-12)
    assert second[everything].sum(axis=1).tolist() == pytest.approx(second["advantage"].tolist(), abs=1e-12)
    assert (first["credit/violations"] != 0).any()
    # The channel is off after step 1: the table says 0, not what it was before.
    assert (second["credit/violations"] == 0).all()


def test_a_term_that_comes_later_has_no_earlier_entries() -> None:
    logs = queues(6)
    generated(logs, credit(outcome=[1.0, 2.0]))
    generated(logs, credit(outcome=[3.0, 4.0], path=[0.5, 0.25]))
    generated(logs, credit(outcome=[5.0, 6.0]))
    assert list(logs["advantages"]) == [1.0, 2.0, 3.5, 4.25, 5.0, 6.0]
    assert list(logs["extra"]["credit/path"]) == [None, None, 0.5, 0.25, 0.0, 0.0]
    assert list(logs["extra"]["credit/outcome"]) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_a_batch_larger_than_the_table_fills_it() -> None:
    logs = queues(2)
    generated(logs, credit(outcome=[1.0, 2.0, 3.0]))
    assert list(logs["advantages"]) == [2.0, 3.0]
    assert list(logs["extra"]["credit/outcome"]) == [2.0, 3.0]
