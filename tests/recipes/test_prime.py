"""PRIME: implicit rewards of tokens, against the means of the other rollouts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from apportion.advantages import rloo, whiten
from apportion.errors import InvalidArgument, MissingInput
from apportion.quick import rewards_signal
from apportion.recipes.prime import prime
from apportion.rollouts import Trajectory
from tests.recipes.builders import advantages


def scored(name: str, ratios: list[float], reward: float, own: list[int] | None = None) -> Trajectory:
    reference = np.full(len(ratios), -1.0)
    return Trajectory(
        id=name,
        group="q",
        response_ids=list(range(len(ratios))),  # type: ignore[arg-type]
        own=own,  # type: ignore[arg-type]
        token_columns={"rm_logps": reference + np.asarray(ratios), "ref_logps": reference},
        columns={"reward": reward},
    )


ONE, TWO = scored("1", [0.2, -0.1, 1.0], 1.0), scored("2", [0.0, 0.4], 0.0)


def test_by_hand() -> None:
    """q n / (n - 1) minus the sum of the rollouts' means / (n - 1), summed to the end, beside RLOO."""
    beta, weight = 0.05, 5.0
    q = [[beta * x for x in row] for row in ([0.2, -0.1, 1.0], [0.0, 0.4])]
    assert 1 / (1 + math.exp(-sum(q[0]))) == pytest.approx(0.5137, abs=1e-4)
    base = sum(sum(row) / len(row) for row in q)
    rewards = [[weight * (2 * x - base) for x in row] for row in q]
    raw = [sum(row[k:]) + out for row, out in zip(rewards, (1.0, -1.0), strict=True) for k in range(len(row))]
    mean = sum(raw) / 5
    std = (sum((x - mean) ** 2 for x in raw) / 4) ** 0.5
    assert advantages(prime(), [ONE, TWO]) == pytest.approx([(x - mean) / std for x in raw])


def test_the_largest_return_of_the_batch_can_be_the_unit() -> None:
    """Sums to the end: 1.1, .9, 1.0 and .4, .4, so the unit is 1.1 beta."""
    plain = prime(process_weight=5.0 / (1.1 * 0.05))
    assert advantages(prime(norm="batch"), [ONE, TWO]) == pytest.approx(advantages(plain, [ONE, TWO]))


def test_equal_log_ratios_leave_rloo_whitened() -> None:
    rollouts = [scored(str(i), [0.3] * (i + 1), float(i == 0)) for i in range(3)]
    outcome = rewards_signal([1.0, 0.0, 0.0], tokens=[1, 2, 3])
    expected = whiten(rloo(outcome), unit="token").values.tolist()
    made = advantages(prime(), rollouts)
    assert made == pytest.approx([a for i, a in enumerate(expected) for _ in range(i + 1)])


def test_tokens_of_others_are_in_no_statistic() -> None:
    alone = advantages(prime(), [ONE, TWO])
    longer = scored("2", [9.0, 0.0, 0.4], 0.0, own=[0, 1, 1])
    made = advantages(prime(), [ONE, longer])
    assert made == pytest.approx([*alone[:3], 0.0, *alone[3:]])


def test_what_is_missing_or_wrong_is_said() -> None:
    bare = Trajectory(id="a", group="q", response_ids=[1], columns={"reward": 1.0})  # type: ignore[arg-type]
    with pytest.raises(MissingInput, match=r"token column 'rm_logps'.*implicit reward model"):
        prime().score([bare])
    with pytest.raises(InvalidArgument, match="text only"):
        prime().score([Trajectory(id="a", group="q", columns={"reward": 1.0})])
    with pytest.raises(InvalidArgument, match="norm"):
        prime(norm="group")  # type: ignore[arg-type]
