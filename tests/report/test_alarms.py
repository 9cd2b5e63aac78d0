"""Alarms of the audit about what a policy learned instead of the task: length, and one reply for everything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apportion.report.diagnostics import Audit, audit
from apportion.report.findings import Finding
from apportion.rollouts import Trajectory, Turn


def found(result: Audit, code: str) -> Finding:
    (one,) = [finding for finding in result.findings if finding.code == code]
    return one


def codes(result: Audit) -> set[str]:
    return {finding.code for finding in result.findings}


def test_length_is_compared_by_rank() -> None:
    rows = [
        Trajectory(id=f"r{i}", group="q", response_ids=[0] * n, columns={"reward": r})
        for i, (n, r) in enumerate([(10, 0.1), (40, 0.4), (80, 0.8), (10_000, 1.0)])
    ]
    result = audit(rows)
    assert result.reward_length_correlation == pytest.approx(1.0)
    assert found(result, "reward-length").severity == "warning"
    assert "+1.00" in found(result, "reward-length").message
    shuffled = [replace(row, columns={"reward": r}) for row, r in zip(rows, [0.4, 0.1, 1.0, 0.8], strict=True)]
    # Ranks (1, 0, 3, 2) against (0, 1, 2, 3): 1 - 6 * 4 / (4 * 15).
    assert audit(shuffled).reward_length_correlation == pytest.approx(0.6)
    assert "reward-length" not in codes(audit(shuffled))


def test_ties_share_a_rank_and_dead_groups_say_nothing() -> None:
    def lengths(group: str, pairs: list[tuple[int, float]]) -> list[Trajectory]:
        return [
            Trajectory(id=f"{group}{i}", group=group, response_ids=[0] * n, columns={"reward": r})
            for i, (n, r) in enumerate(pairs)
        ]

    tied = audit(lengths("a", [(1, 0.0), (2, 0.0), (3, 1.0), (4, 1.0)]))
    # Ranks of the rewards 0.5, 0.5, 2.5, 2.5: sqrt(4 / 5).
    assert tied.reward_length_correlation == pytest.approx(0.8**0.5)
    dead = lengths("b", [(5, 0.3), (9, 0.1 + 0.2)])
    level = lengths("c", [(5, 0.0), (5, 1.0)])
    assert audit(lengths("a", [(1, 0.0), (2, 1.0)]) + dead + level).reward_length_correlation == pytest.approx(1.0)
    for nothing in (dead, level, dead + level):
        assert audit(nothing).reward_length_correlation is None


@pytest.mark.parametrize("tokens", [True, False])
def test_one_reply_to_every_prompt_is_an_alarm_while_it_pays(tokens: bool) -> None:
    def replied(rewards: list[float], canned: int) -> list[Trajectory]:
        return [
            Trajectory(
                id=str(i),
                group=f"q{i // 4}",
                prompt_ids=[i // 4],
                response_ids=[7, 8] if tokens and i < canned else [9, i] if tokens else None,
                turns=() if tokens else (Turn(text="Thought process:" if i < canned else f"reply {i}"),),
                columns={"reward": reward},
            )
            for i, reward in enumerate(rewards)
        ]

    finding = found(audit(replied([1.0] * 32, 32)), "collapsed-replies")
    assert (finding.severity, finding.count) == ("error", 32)
    assert "8 prompts: 32 of 32 (100.0%); their mean reward is 1" in finding.message
    mixed = [1.0, 0.0] * 16
    assert found(audit(replied([*mixed[:31], 1.0], 20)), "collapsed-replies").severity == "warning"
    assert "collapsed-replies" not in codes(audit(replied([1.0] * 32, 15)))
    assert "collapsed-replies" not in codes(audit(replied([1.0] * 31, 31)))


def test_nothing_written_is_no_reply() -> None:
    rows = [Trajectory(id=str(i), group=f"q{i}", response_ids=[], columns={"reward": 1.0}) for i in range(40)]
    assert "collapsed-replies" not in codes(audit(rows))
